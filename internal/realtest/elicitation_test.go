package realtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// TestRealElicitation: server-everything asks during its calls, by requests of its own and by the error -32042, and plans answer; over stdio and HTTP, and with a
// planted defect.
func TestRealElicitation(t *testing.T) {
	command, _, _ := npm("mcp-server-everything")(t, tools(t))
	stdio := m3.StdioServer{Name: "everything", Command: command}
	for _, tc := range []struct {
		name     string
		server   func(t *testing.T) m3.Server
		protocol string
		planted  bool
	}{
		{"stdio 2025-11-25", func(*testing.T) m3.Server { return stdio }, "2025-11-25", false},
		{"stdio 2025-06-18", func(*testing.T) m3.Server { return stdio }, "2025-06-18", false},
		{"http 2025-11-25", func(t *testing.T) m3.Server { return m3.HTTPServer{Name: "everything", URL: everythingHTTP(t)} }, "2025-11-25", false},
		{"planted", func(*testing.T) m3.Server {
			return m3.StdioServer{Name: "everything", Build: "./tamper", Args: []string{"Please provide inputs", "Please provide output", command}}
		}, "2025-11-25", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := &verdict{}
			checkElicitation(t, v, tc.server(t), tc.protocol)
			if tc.planted && len(v.wrong) == 0 {
				t.Error("the check held although the server's message was replaced: it cannot fail")
			}
			for _, w := range v.wrong {
				if !tc.planted {
					t.Error(w)
				}
			}
		})
	}
}

const inputs = "Please provide inputs for the following fields:"

func checkElicitation(t *testing.T, v *verdict, server m3.Server, protocol string) {
	client := m3test.Direct(t, server, &m3.DirectOptions{Protocol: protocol, Elicitation: m3.ElicitForm | m3.ElicitURL,
		SamplingScript: []m3.SamplingResult{{Text: "carpe diem"}}, Roots: m3.Roots("file:///workspace")})
	wanted := []string{"trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"}
	if protocol == "2025-11-25" {
		wanted = append(wanted, "trigger-url-elicitation")
	}
	awaitTools(t, v, client, wanted)
	name := elicit.Form("person", elicit.Message(inputs))
	ada := elicit.Content{"name": "Ada", "integer": 7}
	if protocol == "2025-11-25" {
		ada["untitledMultipleSelectEnum"] = []any{"Piano"} // it asks for a list in 2025-06-18 too, which has none
	}
	for want, plan := range map[string]*elicit.Plan{
		"- Name: Ada":        name.Accept(ada),
		"User declined":      name.Decline(),
		"cancelled the elic": name.Cancel(elicit.Meta{"m3": true}),
	} {
		v.planned(t, client, "trigger-elicitation-request", nil, plan, want)
	}
	_, err := client.CallTool(t.Context(), "trigger-elicitation-request", nil, &m3.CallOptions{Elicitation: name.Accept(elicit.Content{"name": "Ada", "integer": 101})})
	v.expect(err != nil && strings.Contains(err.Error(), "/integer"), "an answer that does not fit the schema: %v", err)
	if protocol == "2025-11-25" {
		args := m3.Args{"url": "https://example.test/pay", "elicitationId": "e-7"}
		pay := elicit.URL("pay", elicit.Address("https://example.test/pay"), elicit.ElicitationID("e-7")).Accept()
		v.planned(t, client, "trigger-url-elicitation", args, pay, "Elicitation ID: e-7")
		args = m3.Args{"url": "https://example.test/pay", "elicitationId": "e-7", "errorPath": true}
		first := elicit.URL("prerequisite", elicit.Address("https://modelcontextprotocol.io")).Accept()
		v.planned(t, client, "trigger-url-elicitation", args, elicit.Sequence(first, pay), "Elicitation ID: e-7")
	}
	v.call(t, client, "trigger-sampling-request", m3.Args{"prompt": "a motto"}, "carpe diem")
	v.call(t, client, "get-roots-list", nil, "file:///workspace")
	view := m3test.Finish(t, client)
	v.expect(view.Completeness() == trace.Complete, "the trace is %s: %v", view.Completeness(), view.Limitations())
	var seen []string
	for _, e := range view.Elicitations().All() {
		seen = append(seen, fmt.Sprint(e.OperationName, " ", e.RequestKey, " ", e.Mode, " ", e.Action))
	}
	v.expect(slices.Contains(seen, "trigger-elicitation-request person form decline"), "elicitations: %q", seen)
	if protocol == "2025-11-25" {
		last := view.ToolCalls().At(view.ToolCalls().Len() - 3)
		v.expect(len(last.Attempts) == 2 && slices.Contains(seen, "trigger-url-elicitation prerequisite url accept"), "after -32042: %d attempts, %q", len(last.Attempts), seen)
	}
}

// planned calls a tool that asks, and expects that it succeeds with want in its text.
func (v *verdict) planned(t *testing.T, c *m3.Client, tool string, args m3.Args, plan *elicit.Plan, want string) {
	res, err := c.CallTool(t.Context(), tool, args, &m3.CallOptions{Elicitation: plan})
	if err != nil {
		v.expect(false, "%s: %v", tool, err)
		return
	}
	v.expect(!res.IsError && strings.Contains(res.Text(), want), "%s: text %q has no %q", tool, res.Text(), want)
}

// awaitTools waits for the tools that the server registers only when it has seen what the client declares, some time after the handshake.
func awaitTools(t *testing.T, v *verdict, c *m3.Client, wanted []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		all, err := c.ListAllTools(ctx, nil)
		if err != nil {
			v.expect(false, "tools: %v", err)
			return
		}
		missing := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool {
			return slices.ContainsFunc(all, func(tool m3.ToolInfo) bool { return tool.Name == name })
		})
		if len(missing) == 0 {
			return
		}
		if ctx.Err() != nil {
			v.expect(false, "never listed: %q", missing)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
