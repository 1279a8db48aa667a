// Package concurrent shows that a client, and a kit, may be used from several goroutines: there is no second API for it.
package concurrent

import (
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// Many calls are open at once on one connection. Each gets its own answer, whatever the order in which the server answers.
func TestManyCallsOnOneConnection(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	const calls = 64
	var wg sync.WaitGroup
	for i := range int64(calls) {
		wg.Go(func() {
			r, err := client.CallTool(t.Context(), "add", m3.Args{"a": i, "b": 1000}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			expect.That(t, r).StructuredContent(exampleserver.Sum{Sum: i + 1000})
		})
	}
	wg.Wait()
	expect.That(t, m3test.Finish(t, client)).ToolCall("add", expect.Succeeded(), expect.Times(calls))
}
