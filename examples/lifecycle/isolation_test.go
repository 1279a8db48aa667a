package lifecycle

import (
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// State lasts as long as the connection: the order is there for the next call, and unknown to the next client.
func TestConnectionsAreIsolated(t *testing.T) {
	t.Parallel()
	first := m3test.Direct(t, shop, nil)
	if _, err := first.CallTool(t.Context(), "create_order", m3.Args{"customer_id": "cust-a", "item": "letter", "quantity": 1}, nil); err != nil {
		t.Fatal(err)
	}
	second := m3test.Direct(t, shop, nil)
	for client, found := range map[*m3.Client]bool{first: true, second: false} {
		r, err := client.CallTool(t.Context(), "get_order", m3.Args{"order_id": "order-1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.IsError == found {
			t.Errorf("execution %s: %s", client.ExecutionID(), r.Text())
		}
	}
	expect.That(t, m3test.Finish(t, first)).ToolCall("get_order", expect.Succeeded())
	expect.That(t, m3test.Finish(t, second)).ToolCall("get_order", expect.ToolError())
}

// The kit is the boundary of clean-up: closing it closes every client, and a closed client says so.
func TestKitClosesItsClients(t *testing.T) {
	t.Parallel()
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kit.Direct(t.Context(), shop, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "anybody?"}, nil); !errors.Is(err, m3.ErrClientClosed) {
		t.Errorf("a call on the closed client: %v", err)
	}
	if _, err := kit.Direct(t.Context(), shop, nil); !errors.Is(err, m3.ErrKitClosed) {
		t.Errorf("a connect on the closed kit: %v", err)
	}
}
