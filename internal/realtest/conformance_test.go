package realtest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/conformance"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// TestRealConformance checks what the real servers send, in every version that they accept, and holds the report in docs/conformance.md.
func TestRealConformance(t *testing.T) {
	tools(t)
	schemas, err := conformance.Load()
	if errors.Is(err, conformance.ErrMissing) && os.Getenv("M3_REQUIRE_SHARED") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var report strings.Builder
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			command, args, env := s.start(t, tools(t))
			report.WriteString(versionsOf(t, schemas, s, m3.StdioServer{Name: s.name, Command: command, Args: args, Env: env}, s.name+", stdio"))
		})
	}
	t.Run("everything-http", func(t *testing.T) {
		report.WriteString(versionsOf(t, schemas, servers[0], m3.HTTPServer{Name: "everything", URL: everythingHTTP(t)}, "everything, HTTP"))
	})
	if err := conformance.Section("servers", report.String(), os.Getenv("M3_UPDATE") == "1"); err != nil && !t.Failed() {
		t.Error(err)
	}
}

// versionsOf reports on a server in each version. One that it does not accept is said so.
func versionsOf(t *testing.T, schemas *conformance.Schemas, s realServer, server m3.Server, name string) string {
	var rows strings.Builder
	var refused []string
	for _, protocol := range mcp.Versions {
		c, err := m3test.Kit(t).Direct(t.Context(), server, &m3.DirectOptions{Protocol: protocol})
		if err != nil {
			refused = append(refused, protocol)
			continue
		}
		exercise(t, c, s)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		rows.WriteString(checked(t, schemas, c).ServerReport(name, protocol))
	}
	if len(refused) == len(mcp.Versions) {
		t.Errorf("%s accepts no version", name)
	}
	if len(refused) > 0 {
		rows.WriteString("| " + name + " | " + strings.Join(refused, ", ") + " | not accepted | |\n")
	}
	return rows.String()
}

// exercise uses what the server declares. Its tools are those of the server's own check.
func exercise(t *testing.T, c *m3.Client, s realServer) {
	ctx := t.Context()
	v := &verdict{}
	s.check(t, v, c, dirOf(t)) // what is missing in an older version is no news here: TestRealStdio looks at it
	var capabilities map[string]any
	if err := c.Initialization().Capabilities.Decode(&capabilities); err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool { _, ok := capabilities[name]; return ok }
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	if has("resources") {
		all, err := c.ListAllResources(ctx, nil)
		note(err)
		_, err = c.ListAllResourceTemplates(ctx, nil)
		note(err)
		if len(all) > 0 {
			note(c.SubscribeResource(ctx, all[0].URI, nil))
			note(c.UnsubscribeResource(ctx, all[0].URI, nil))
		}
	}
	if has("logging") {
		note(c.SetLoggingLevel(ctx, m3.LogError, nil))
	}
	if has("completions") {
		_, err := c.Complete(ctx, m3.PromptRef("completable-prompt"), "department", "E", nil)
		note(err)
	}
	note(c.Ping(ctx, nil))
	_, err := c.CallTool(ctx, "no-such-tool", nil, nil)
	var pe *m3.ProtocolError
	if err != nil && !errors.As(err, &pe) {
		note(err)
	}
	for _, err := range errs {
		var unsupported *m3.UnsupportedError
		if err != nil && !errors.As(err, &unsupported) && !errors.As(err, &pe) {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// checked checks a finished execution's messages, in both directions.
func checked(t *testing.T, schemas *conformance.Schemas, c *m3.Client) *conformance.Checker {
	final, err := c.FinalTrace()
	if err != nil {
		t.Fatal(err)
	}
	check := conformance.New(schemas, true)
	for ev, err := range final.All() {
		if err != nil {
			t.Fatal(err)
		}
		check.Event(c, &ev)
	}
	for _, p := range check.Problems() {
		if p.Direction == trace.ClientToServer {
			t.Error(p)
		}
	}
	if !slices.ContainsFunc(check.Uses(), func(u conformance.Use) bool {
		return u.Direction == trace.ServerToClient && u.Definition == "ListToolsResult"
	}) {
		t.Errorf("%s: the list of tools was not checked", c.Server())
	}
	return check
}
