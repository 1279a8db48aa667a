package agents

import (
	"net/http/httptest"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/harness/acp/acpagent"
)

// An agent is given a loopback address of m3's in place of the server's, so that what passes is recorded, and so that it never sees a key of the server.
func TestHTTPServer(t *testing.T) {
	t.Parallel()
	deployed := httptest.NewServer(exampleserver.Handler())
	t.Cleanup(deployed.Close)
	for name, server := range map[string]m3.Server{
		"a handler in this test":       m3.HandlerServer{Name: "shop", Handler: exampleserver.Handler()},
		"a server that runs somewhere": m3.HTTPServer{Name: "shop", URL: deployed.URL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quote := agent(t, scripted([]acpagent.Step{call("quote", `{"weight_kg":2}`), {Say: "It costs {{result}}."}}))
			result, err := quote.Run(t.Context(), "What does a parcel of 2 kg cost?", &m3.RunOptions{Server: server, Tools: m3.OnlyTools("shop:quote")})
			if err != nil {
				t.Fatal(err)
			}
			expect.That(t, result).ToolCall("quote", expect.WithArguments(m3.Args{"weight_kg": 2}), expect.ResultStructured(exampleserver.Quote{Price: 7, Currency: "EUR", Days: 2}))
			expect.That(t, result).Transport("streamable_http")
			expect.That(t, result.Text()).Text("It costs 7.00 EUR in 2 days.")
		})
	}
}

// What an action does not select is neither listed for the agent nor passed on when it calls it all the same.
func TestOneToolOnly(t *testing.T) {
	t.Parallel()
	curious := agent(t, scripted([]acpagent.Step{call("create_order", `{"customer_id":"cust-asha","item":"parcel","quantity":1}`), {Say: "I tried."}}))
	result, err := curious.Run(t.Context(), "Only tell the price.", &m3.RunOptions{Server: m3.HandlerServer{Name: "shop", Handler: exampleserver.Handler()}, Tools: m3.OnlyTools("shop:quote")})
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, result).NoToolCall("create_order")                // none reached the server
	expect.That(t, result).ToolCall("create_order", expect.Denied()) // and the attempt is on record
}
