// Package chained shows a workflow of calls that build on each other, on one open client.
package chained

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// A customer is normalized, an order is created for it and read again. Each step uses what the one before returned, and the stored record is
// checked against what was asked for, not against what was answered.
func TestOrderWorkflow(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)

	customer := call[exampleserver.Customer](t, client, "normalize_customer", m3.Args{"name": "  Asha   Rao ", "email": " Asha@Example.test "})
	if want := (exampleserver.Customer{CustomerID: "cust-asha", Name: "Asha Rao", Email: "asha@example.test"}); customer != want {
		t.Errorf("customer %+v, want %+v", customer, want)
	}
	created := call[exampleserver.Order](t, client, "create_order", m3.Args{"customer_id": customer.CustomerID, "item": "parcel", "quantity": 2})
	stored := call[exampleserver.Order](t, client, "get_order", m3.Args{"order_id": created.OrderID})
	if want := (exampleserver.Order{OrderID: created.OrderID, CustomerID: "cust-asha", Item: "parcel", Quantity: 2, Status: "created"}); stored != want {
		t.Errorf("stored order %+v, want %+v", stored, want)
	}

	view := m3test.Finish(t, client)
	expect.That(t, view).ToolCall("create_order", expect.Succeeded(), expect.Times(1), expect.WithArguments(m3.Args{"customer_id": "cust-asha", "item": "parcel", "quantity": 2}))
	var order []string
	for _, c := range view.ToolCalls().All() {
		order = append(order, c.Tool.Value)
	}
	if len(order) != 3 || order[0] != "normalize_customer" || order[2] != "get_order" {
		t.Errorf("the trace has the calls %v", order)
	}
}

// call makes one step: whatever goes wrong ends the test, because the next step needs the result.
func call[Out any](t *testing.T, client *m3.Client, tool string, args m3.Args) (out Out) {
	t.Helper()
	r, err := client.CallTool(t.Context(), tool, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.IsError {
		t.Fatalf("%s: %s", tool, r.Text())
	}
	if err := r.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
