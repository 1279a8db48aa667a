package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/trace"
)

// describe puts one entry of a timeline on one line; empty when it is not shown. Frames are shown only when raw is asked for: what
// they say stands in the other entries.
func describe(e trace.Entry, raw bool) string {
	b := e.Common()
	switch e := e.(type) {
	case *trace.ToolCallEntry:
		return describeCall(e)
	case *trace.ProtocolEntry:
		return describeProtocol(e)
	case *trace.RawMessageEntry:
		if !raw {
			return ""
		}
		return arrow(e.Direction) + " " + observed(e.Preview)
	case *trace.ProcessEntry:
		return describeProcess(e)
	case *trace.TransportEntry:
		return "transport " + e.Transport + " " + e.Phase + suffix(", ended by ", e.Close)
	case *trace.InitializationEntry:
		return fmt.Sprintf("initialized %s %s, protocol %s", observed(e.ServerName), observed(e.ServerVersion), observed(e.ProtocolVersion))
	case *trace.FindingEntry:
		return fmt.Sprintf("FINDING %s %s: %s", e.Severity, e.Code, e.Message)
	case *trace.DiagnosticEntry:
		return "note " + e.Code + ": " + e.Message
	case *trace.LifecycleEntry:
		return string(e.Event) + suffix(" ", e.State) + suffix(" ", e.Outcome)
	case *trace.MessageEntry:
		return e.Role + ": " + short(trace.JoinText(e.Content))
	case *trace.ElicitationEntry:
		return fmt.Sprintf("elicitation %s %s: %s", e.Mode, e.RequestKey, e.Action)
	default:
		return string(b.Kind) + " " + string(b.Status)
	}
}

func describeCall(e *trace.ToolCallEntry) string {
	s := "call " + observed(e.Tool) + " " + short(jsonText(e.Arguments)) + " → " + string(e.ToolStatus)
	if d, ok := e.ServerLatency.Get(); ok {
		s += " in " + d.Round(100*time.Microsecond).String()
	}
	if r, ok := e.Result.Get(); ok {
		if err, ok := r.Error.Get(); ok {
			return s + ": " + short(err.String())
		}
		s += suffix(": ", short(resultText(r)))
	}
	return s + own(&e.Base)
}

func resultText(r trace.ToolResult) string {
	if text := r.Text(); text != "" {
		return text
	}
	return jsonText(r.StructuredContent)
}

func describeProtocol(e *trace.ProtocolEntry) string {
	s := arrow(e.Direction) + " " + observed(e.Method)
	if e.Status != trace.StatusCompleted {
		s += " → " + string(e.Status)
	}
	if err, ok := e.Error.Get(); ok {
		s += ": " + rpcErrorText(err)
	}
	if h, ok := e.HTTP.Get(); ok && h.Status >= 400 {
		s += fmt.Sprintf(" (HTTP %d)", h.Status)
	}
	return s + own(&e.Base)
}

// rpcErrorText is an error of the server on one line, bounded: the whole message is in the frame.
func rpcErrorText(err trace.RPCError) string {
	text := strings.TrimSpace(err.Code.String() + " " + short(err.Message))
	if text == "" {
		return "an error object without code and message"
	}
	return text
}

func describeProcess(e *trace.ProcessEntry) string {
	s := "process " + observed(e.Executable)
	if pid, ok := e.PID.Get(); ok {
		s += fmt.Sprintf(" (pid %d)", pid)
	}
	if code, ok := e.ExitCode.Get(); ok {
		s += fmt.Sprintf(", exit code %d", code)
	}
	if sig, ok := e.Signal.Get(); ok {
		s += ", signal " + sig
	}
	return s + suffix(", ended by ", e.Ended)
}

// findingLines are the findings for people: one line for each kind, the worst first, with how often it was found and the first as an example.
// The full list is in the trace, and in --json.
func findingLines(findings []trace.Finding) []string {
	type group struct {
		first *trace.Finding
		n     int
	}
	var groups []*group
	for i := range findings {
		f := &findings[i]
		same := func(g *group) bool { return g.first.Code == f.Code && g.first.Severity == f.Severity }
		if at := slices.IndexFunc(groups, same); at >= 0 {
			groups[at].n++
		} else {
			groups = append(groups, &group{f, 1})
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return severityRank(a.first.Severity) - severityRank(b.first.Severity) })
	lines := make([]string, len(groups))
	for i, g := range groups {
		times := ""
		if g.n > 1 {
			times = fmt.Sprintf(" ×%d", g.n)
		}
		lines[i] = fmt.Sprintf("finding: %s %s%s: %s", g.first.Severity, report.CleanLine(g.first.Code), times, short(report.CleanLine(g.first.Message)))
	}
	return lines
}

// severityRank orders severities, the worst first.
func severityRank(s trace.Severity) int {
	if at := slices.Index([]trace.Severity{trace.SeverityError, trace.SeverityWarning, trace.SeverityNote}, s); at >= 0 {
		return at
	}
	return math.MaxInt32 // after those that are known
}

func own(b *trace.Base) string {
	if b.Own {
		return "  (m3's own)"
	}
	return ""
}

func arrow(d trace.Direction) string {
	if d == trace.ServerToClient {
		return "←"
	}
	return "→"
}

// observed is a text that is there, or why it is not.
func observed(o trace.Observation[string]) string {
	switch o.State {
	case trace.Observed, trace.Truncated, trace.Redacted:
		return o.Value
	}
	return "(" + o.State.String() + ")"
}

func jsonText(o trace.Observation[trace.JSON]) string { return string(o.Value) }

func suffix(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// short cuts a text to what fits on a line.
func short(s string) string {
	const most = 160
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	n := 0
	for i := range s { // without a copy of what may be megabytes
		if n == most {
			return strings.ToValidUTF8(s[:i], "") + "…"
		}
		n++
	}
	return s
}
