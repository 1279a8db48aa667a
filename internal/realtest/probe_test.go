package realtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/probe"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// writeReports makes TestRealProbes write the reports instead of comparing with them: M3_WRITE_PROBES=1 go test -run TestRealProbes ./internal/realtest
const writeReports = "M3_WRITE_PROBES"

// TestRealProbes runs m3 probe's set against the five servers, and against server-everything over HTTP too. The probes that fire are those of the committed
// reports (docs/probes).
func TestRealProbes(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			command, args, env := s.start(t, tools(t))
			compareReport(t, s.name, m3.StdioServer{Name: s.name, Command: command, Args: args, Env: env})
		})
	}
	t.Run("everything-http", func(t *testing.T) {
		t.Parallel()
		compareReport(t, "everything-http", m3.HTTPServer{Name: "everything", URL: everythingHTTP(t)})
	})
}

func compareReport(t *testing.T, name string, server m3.Server) {
	rep, err := probe.Run(context.WithoutCancel(t.Context()), m3test.Kit(t), server, &probe.Options{Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Alive.OK {
		t.Errorf("still alive? %s", rep.Alive.Message)
	}
	path := filepath.Join("..", "..", "docs", "probes", name+".md")
	if os.Getenv(writeReports) == "1" {
		text := markdown(name, rep)
		if dir := dirOf(t); dir != "" {
			text = strings.ReplaceAll(text, dir, "DIR")
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := committed(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rep.FiredNames()); diff != "" {
		t.Errorf("the probes that fire are not those of docs/probes/%s.md (-committed +now): if that is right, run it with %s=1\n%s", name, writeReports, diff)
		for _, r := range rep.Results {
			if r.State == probe.Fired && !slices.Contains(want, r.Name) {
				t.Logf("%s: %s", r.Name, r.Message)
			}
		}
	}
}

// committed reads the names out of a report: the first column of its table.
func committed(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range bytes.Lines(b) {
		if cell, found := bytes.CutPrefix(line, []byte("| `")); found {
			name, _, _ := bytes.Cut(cell, []byte("`"))
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// markdown is the report as it is committed. It holds nothing that differs from run to run.
func markdown(name string, rep *probe.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# m3 probe: %s\n\n", name)
	fmt.Fprintf(&b, "`%s` %s, protocol %s over %s, %d tools. Written by `TestRealProbes`, which also checks that the same probes fire today.\n\n", rep.Server, rep.ServerVersion, rep.Protocol, rep.Transport, rep.Tools)
	fmt.Fprintf(&b, "%d probes: %d fired (%d errors, %d warnings, %d notes), %d clean, %d skipped. Still alive? %s.\n\n", len(rep.Results), rep.Count(probe.Fired, ""),
		rep.Count(probe.Fired, trace.SeverityError), rep.Count(probe.Fired, trace.SeverityWarning), rep.Count(probe.Fired, trace.SeverityNote),
		rep.Count(probe.Clean, ""), rep.Count(probe.Skipped, ""), rep.Alive.Message)
	b.WriteString("| probe | severity | a good server | seen | clause |\n| --- | --- | --- | --- | --- |\n")
	for _, sev := range []trace.Severity{trace.SeverityError, trace.SeverityWarning, trace.SeverityNote} {
		for i := range rep.Results {
			if r := &rep.Results[i]; r.State == probe.Fired && r.Effective() == sev {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, sev, cell(r.About), cell(clip(r.Message)), cell(r.Clause))
			}
		}
	}
	b.WriteString("\nSkipped:\n\n")
	reasons := map[string][]string{}
	for _, r := range rep.Results {
		if r.State == probe.Skipped {
			reasons[r.Message] = append(reasons[r.Message], r.Name)
		}
	}
	for _, why := range sortedKeys(reasons) {
		fmt.Fprintf(&b, "- %s: %s\n", why, strings.Join(reasons[why], ", "))
	}
	return b.String()
}

func sortedKeys(m map[string][]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func clip(s string) string {
	if len(s) > 160 {
		return strings.ToValidUTF8(s[:160], "") + "…"
	}
	return s
}

// cell makes text safe for a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`).Replace(s)
}
