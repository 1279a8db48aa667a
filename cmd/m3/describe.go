package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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
		s += fmt.Sprintf(": %s %s", err.Code, err.Message)
	}
	if h, ok := e.HTTP.Get(); ok && h.Status >= 400 {
		s += fmt.Sprintf(" (HTTP %d)", h.Status)
	}
	return s + own(&e.Base)
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
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.ToValidUTF8(string([]rune(s)[:most]), "") + "…"
}
