package concurrent

import (
	"fmt"
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// Several clients at once: each has a server process of its own, so all of them create the first order.
func TestManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	kit := m3test.Kit(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			client, err := kit.Direct(t.Context(), shop, &m3.DirectOptions{Case: fmt.Sprint("client-", i)})
			if err != nil {
				t.Error(err)
				return
			}
			r, err := client.CallTool(t.Context(), "create_order", m3.Args{"customer_id": "cust-a", "item": "parcel", "quantity": i + 1}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			var order struct {
				ID       string `json:"order_id"`
				Quantity int    `json:"quantity"`
			}
			if err := r.Decode(&order); err != nil || order.ID != "order-1" || order.Quantity != i+1 {
				t.Errorf("client %d got %+v, %v", i, order, err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			expect.That(t, client).ToolCall("create_order", expect.Times(1))
		})
	}
	wg.Wait()
}
