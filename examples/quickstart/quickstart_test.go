// Package quickstart is the test of the README: one server, one call, one verdict.
package quickstart

import (
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// shop is a server as it would be started in production: a program on stdio. Naming it starts nothing.
var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

func TestQuote(t *testing.T) {
	client := m3test.Direct(t, shop, nil)
	quote, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, quote).Text("7.00 EUR in 2 days")

	view := m3test.Finish(t, client)
	expect.That(t, view).ToolCall("quote", expect.Succeeded(), expect.Latency(expect.Below(2*time.Second)))
}
