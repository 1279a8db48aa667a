// Package agents shows tests of agents: a conversation of two turns, a server over HTTP, the real OpenCode under a model that is a file, and the same with a real model.
package agents

import (
	"encoding/json"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// scripted is an agent without a model, so that this example runs everywhere and always the same. It is a process of its own that really connects to the server.
func scripted(turns ...[]acpagent.Step) m3.Selection {
	return m3.Selection{Harness: acp.New(acpagent.Config("", &acpagent.Script{Turns: turns})), Name: "scripted"}
}

func call(tool, arguments string) acpagent.Step {
	return acpagent.Step{Call: &acpagent.Call{Server: "shop", Tool: tool, Arguments: json.RawMessage(arguments)}}
}

// agent is the one agent of a selection, for one trial.
func agent(t *testing.T, selection m3.Selection) *m3.Agent {
	t.Helper()
	agents, err := m3test.Kit(t).Agents([]m3.Selection{selection}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return agents[0]
}

// A session is one execution with all its turns. Its trace has two tapes: what passed between agent and server, and what the agent told of it.
func TestTwoTurns(t *testing.T) {
	t.Parallel()
	selection := scripted(
		[]acpagent.Step{
			{Think: "An order needs a customer in good form."},
			call("normalize_customer", `{"name":"  Asha   Rao ","email":"Asha@Example.test"}`),
			{Say: "Asha is ready to order."},
		},
		[]acpagent.Step{
			call("create_order", `{"customer_id":"cust-asha","item":"parcel","quantity":2}`),
			call("get_order", `{"order_id":"order-1"}`),
			{Say: "Two parcels are ordered."},
		})
	session, err := agent(t, selection).Session(t.Context(), &m3.SessionOptions{Server: shop, Case: "order-for-asha"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	first, err := session.Send(t.Context(), "Here is Asha Rao, asha@example.test.", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := session.Send(t.Context(), "She wants two parcels.", nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	expect.That(t, result).Completed()
	expect.That(t, result).ToolCalls([]string{"normalize_customer", "create_order", "get_order"})
	expect.That(t, result).ToolCall("normalize_customer", expect.InTurn(first), expect.ResultStructured(m3.Args{"customer_id": "cust-asha"}, expect.Partial()))
	expect.That(t, result).ToolCall("create_order", expect.InTurn(second), expect.Succeeded())
	expect.That(t, result).NoToolCall("create_order", expect.InTurn(first))
	expect.That(t, second.Text()).Text("Two parcels are ordered.")
	readTrace(t, result, first, second)
}

// readTrace reads the view itself, where no matcher asks the question.
func readTrace(t *testing.T, result *m3.Result, first, second *m3.Turn) {
	t.Helper()
	view := result.View()
	if view.Summary().TurnCount != 2 || view.ForTurn(first).ToolCalls().Len() != 1 || view.ForTurn(second).ToolCalls().Len() != 2 {
		t.Errorf("%d turns with %d and %d calls", view.Summary().TurnCount, view.ForTurn(first).ToolCalls().Len(), view.ForTurn(second).ToolCalls().Len())
	}
	for _, c := range view.ToolCalls().All() {
		// Correlated: the wire has the call, and the agent told it. Conflicts are where the two differ.
		if c.Correlation != trace.Correlated || len(c.Conflicts) > 0 {
			t.Errorf("%s: %s, %d conflicts", c.Tool.Value, c.Correlation, len(c.Conflicts))
		}
	}
	thoughts := view.ForTurn(first).Reasoning()
	if thoughts.Len() != 1 || thoughts.At(0).Content.Value[0].Text != "An order needs a customer in good form." {
		t.Errorf("%d thoughts", thoughts.Len())
	}
	roles := ""
	for _, m := range view.Messages().All() {
		roles += m.Role + " "
	}
	if roles != "user assistant user assistant " {
		t.Errorf("the conversation is %s", roles)
	}
}
