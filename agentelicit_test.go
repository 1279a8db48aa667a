package m3_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/trace"
)

// askingServers are a server of each era whose tool book asks for a city; with "both" it asks for two things at once, with "same" for two things in the same words.
func askingServers() map[string]m3.Server {
	modern := gosdk.Server("calc", askingSDK)
	legacy := (&peer{versions: []string{legacy5}, handle: func(p *peer, m *message) bool {
		switch {
		case m.Method == "tools/list":
			p.result(m, `{"tools":[{"name":"book","inputSchema":{"type":"object"}}]}`)
			return true
		case m.tool() == "book" && m.Method == "tools/call":
			call := *m
			go func() {
				var said []string
				questions := []string{"Where to?"}
				if strings.Contains(string(call.Params), "both") {
					questions = append(questions, "And back?")
				}
				for i, q := range questions {
					a := p.ask(fmt.Sprintf(`"q%d"`, i), "elicitation/create", fmt.Sprintf(`{"mode":"form","message":%q,"requestedSchema":%s}`, q, citySchema))
					var r struct {
						Action  string
						Content map[string]any
					}
					_ = json.Unmarshal(a.Result, &r)
					said = append(said, fmt.Sprint(r.Action, " ", r.Content["city"]))
				}
				p.result(&call, `{"content":[{"type":"text","text":%q}]}`, strings.Join(said, ", "))
			}()
			return true
		}
		return false
	}}).server()
	legacy.Name = "calc"
	return map[string]m3.Server{newest: modern, legacy5: legacy}
}

// askingSDK is the server of 2026-07-28, built with the official SDK.
func askingSDK() *mcp.Server {
	form := func(message string) *mcp.ElicitParams {
		return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(citySchema)}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "asking", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(r.Params.InputResponses) == 0 {
			asks := mcp.InputRequestMap{"address": form("Where to?")}
			switch {
			case strings.Contains(string(r.Params.Arguments), "both"):
				asks["back"] = form("And back?")
			case strings.Contains(string(r.Params.Arguments), "same"):
				asks["back"] = form("Where to?")
			}
			return &mcp.CallToolResult{InputRequests: asks, RequestState: "s1"}, nil
		}
		var said []string
		for _, key := range []string{"address", "back"} {
			if a, ok := r.Params.InputResponses[key].(*mcp.ElicitResult); ok {
				said = append(said, fmt.Sprint(a.Action, " ", a.Content["city"]))
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(said, ", ")}}}, nil
	})
	return s
}

// acpRun runs the scripted agent of ACP for one action.
func acpRun(t *testing.T, server m3.Server, plan *elicit.Plan, steps ...acpagent.Step) (*m3.Result, error) {
	t.Helper()
	agents, err := agentKit(t).Agents([]m3.Selection{{Harness: acp.New(acpagent.Config("", &acpagent.Script{Turns: [][]acpagent.Step{steps}}))}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	res, err := agents[0].Run(t.Context(), "go", &m3.RunOptions{Server: server, Elicitation: plan})
	if res == nil {
		t.Fatal(err)
	}
	return res, err
}

// TestAgentPromptIsAssociated: an agent that forwards requests without keys is answered from the plan when the wire says which one is meant.
func TestAgentPromptIsAssociated(t *testing.T) {
	t.Parallel()
	city := func(key, message, city string) *elicit.Plan {
		return elicit.Form(key, elicit.Message(message), elicit.OperationName("book"), elicit.Server("calc")).Accept(elicit.Content{"city": city})
	}
	book := func(args string) acpagent.Step {
		return acpagent.Step{Call: &acpagent.Call{Server: "calc", Tool: "book", Arguments: json.RawMessage(args)}}
	}
	say := acpagent.Step{Say: "{{result}}"}
	address := city("address", "Where to?", "Pune")
	for _, c := range []struct {
		name  string
		era   string // empty: both
		plan  *elicit.Plan
		steps []acpagent.Step
		code  string
		blame harness.Blame
		says  string
		asked int
	}{
		{name: "one", plan: address, steps: []acpagent.Step{book(`{}`), say}, says: "accept Pune", asked: 1},
		{name: "declined", plan: elicit.Form("address").Decline(), steps: []acpagent.Step{book(`{}`), say}, says: "decline <nil>", asked: 1},
		{name: "two at once", era: newest, plan: elicit.Round(address, city("back", "And back?", "Delhi")), steps: []acpagent.Step{book(`{"n":"both"}`), say}, says: "accept Pune, accept Delhi", asked: 2},
		{name: "one by one", era: legacy5, plan: elicit.Sequence(address, city("back", "And back?", "Delhi")), steps: []acpagent.Step{book(`{"n":"both"}`), say}, says: "accept Pune, accept Delhi", asked: 2},
		{name: "two calls", plan: elicit.Sequence(address, city("address", "Where to?", "Delhi")), steps: []acpagent.Step{book(`{}`), book(`{}`), say}, says: "accept Delhi", asked: 2},
		{name: "same words, same answers", era: newest, plan: elicit.Round(address, city("back", "Where to?", "Pune")), steps: []acpagent.Step{book(`{"n":"same"}`), say}, says: "accept Pune, accept Pune", asked: 2},
		{name: "same words, other answers", era: newest, plan: elicit.Round(address, city("back", "Where to?", "Delhi")), steps: []acpagent.Step{book(`{"n":"same"}`), say}, code: "elicitation_ambiguous", blame: harness.BlameHarness},
		{name: "not planned", plan: city("address", "Which way?", "Pune"), steps: []acpagent.Step{book(`{}`), say}, code: "elicitation_expectation_failed", blame: harness.BlameTest},
		{name: "against the schema", plan: elicit.Form("address").Accept(elicit.Content{"city": 7}), steps: []acpagent.Step{book(`{}`), say}, code: "elicitation_expectation_failed", blame: harness.BlameTest},
		{name: "never asked", plan: address, steps: []acpagent.Step{{Say: "no"}}, code: "elicitation_incomplete", blame: harness.BlameTest},
		{name: "the agent's own", plan: elicit.Optional(address), steps: []acpagent.Step{{Request: &acpagent.Message{Method: "elicitation/create",
			Params: json.RawMessage(`{"mode":"form","message":"Where to?","requestedSchema":` + citySchema + `}`)}}}, code: "elicitation_unmatched", blame: harness.BlameAgent},
	} {
		for era, server := range askingServers() {
			if c.era != "" && c.era != era {
				continue
			}
			t.Run(c.name+"/"+era, func(t *testing.T) {
				t.Parallel()
				res, err := acpRun(t, server, c.plan, c.steps...)
				if c.code != "" {
					checkEnd(t, res, err, trace.OutcomeFailed, c.blame, c.code)
					return
				}
				checkEnd(t, res, err, trace.OutcomeCompleted, "", "")
				if res.Text() != c.says {
					t.Errorf("the agent says %q, want %q", res.Text(), c.says)
				}
				list := res.View().Elicitations()
				if list.Len() != c.asked {
					t.Fatalf("%d entries, want %d", list.Len(), c.asked)
				}
				if e := list.At(0); e.RequestKey != "address" || e.OperationName != "book" || e.Action == "" || e.Server != "calc" {
					t.Errorf("the entry is %+v", e)
				}
			})
		}
	}
}
