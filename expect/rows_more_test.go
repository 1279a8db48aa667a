package expect_test

import (
	"fmt"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

func (w *world) executionRows() map[string]row {
	type E = *expect.Expectation
	outcome := func(o ...trace.Outcome) check { return func(e E) bool { return e.Outcome(o...) } }
	t1 := &played{turn{"t1"}, w.shop}
	t2 := &played{turn{"t2"}, w.shop}
	return map[string]row{
		"Expectation.Outcome": {
			holds:   []try{{w.shop, outcome(trace.OutcomeCompleted)}, {w.failed, outcome()}, {w.failed, outcome(trace.OutcomeFailed, trace.OutcomeTimedOut)}, {t2, outcome(trace.OutcomeCompleted)}},
			fails:   []try{{w.failed, outcome(trace.OutcomeCompleted, trace.OutcomeFailed)}},
			unknown: map[string]try{"open": {w.open, outcome()}, "unavailable": {t1, outcome()}},
			misuse:  map[string]try{`Outcome("passed"): there is no such outcome; there are: completed, failed`: {w.shop, outcome("passed")}},
		},
		"Expectation.Completed": {
			holds:   []try{{w.shop, E.Completed}},
			fails:   []try{{w.failed, E.Completed}},
			unknown: map[string]try{"open": {w.open, E.Completed}},
			misuse:  map[string]try{"Completed asks about an execution": {w.quote, E.Completed}},
		},
		"Expectation.Lifecycle": {
			holds: []try{{w.shop, func(e E) bool {
				return e.Lifecycle(trace.KindExecutionCreated, trace.KindTurnCreated, trace.KindExecutionFinished)
			}}},
			fails:   []try{{w.shop, func(e E) bool { return e.Lifecycle(trace.KindTurnCreated, trace.KindExecutionCreated) }}},
			unknown: map[string]try{"unavailable": {w.lossy, func(e E) bool { return e.Lifecycle(trace.KindSessionCreated) }}},
			misuse:  map[string]try{"Lifecycle: no step is named": {w.shop, func(e E) bool { return e.Lifecycle() }}, `Lifecycle("mcp.request"): that is no step`: {w.shop, func(e E) bool { return e.Lifecycle(trace.KindMCPRequest) }}},
		},
		"Expectation.Duration": {
			holds:   []try{{w.failed, func(e E) bool { return e.Duration(expect.Below(time.Second)) }}, {t1, func(e E) bool { return e.Duration(expect.Between(4*time.Millisecond, 4*time.Millisecond)) }}},
			fails:   []try{{w.failed, func(e E) bool { return e.Duration(expect.Below(time.Millisecond)) }}},
			unknown: map[string]try{"open": {w.open, func(e E) bool { return e.Duration(expect.Below(time.Hour)) }}, "unavailable": {&played{turn{"t9"}, w.shop}, func(e E) bool { return e.Duration(expect.Below(time.Hour)) }}},
			misuse:  map[string]try{"Duration: the bound is empty": {w.shop, func(e E) bool { return e.Duration(expect.Bound{}) }}},
		},
	}
}

func (w *world) errorRows() map[string]row {
	var none error
	protocol := fmt.Errorf("quote: %w", &m3.ProtocolError{Message: "refused", RPC: &trace.RPCError{Code: trace.JSON("-32602")}})
	hidden := w.failedBy(`{"code":"timeout","message":"no answer from [REDACTED]"}`)
	uncoded := w.failedBy(`{"message":"no answer"}`)
	return map[string]row{
		"Expectation.Error": {
			holds:   []try{{errShop, failing()}, {w.sorry, failing()}, {w.failed, failing()}},
			fails:   []try{{none, failing()}, {w.quote, failing()}, {w.shop, failing()}},
			unknown: map[string]try{"open": {w.open, failing()}},
			misuse:  map[string]try{"a text has no error": {"x", failing()}, "an option is empty": {errShop, failing(expect.ErrorOption{})}},
		},
		"ErrorCode": {
			holds:   []try{{coded{errShop}, failing(expect.ErrorCode("timeout"))}, {protocol, failing(expect.ErrorCode("-32602"))}, {protocol, failing(expect.ErrorCode("protocol_error"))}, {w.sorry, failing(expect.ErrorCode("tool_error"))}, {w.failed, failing(expect.ErrorCode("timeout"))}},
			fails:   []try{{protocol, failing(expect.ErrorCode("timeout"))}},
			unknown: map[string]try{"unavailable": {uncoded, failing(expect.ErrorCode("timeout"))}},
			misuse:  map[string]try{"ErrorCode: the code is empty": {errShop, failing(expect.ErrorCode(""))}},
		},
		"ErrorContaining": {
			holds:   []try{{errShop, failing(expect.ErrorContaining("closed"))}, {w.failed, failing(expect.ErrorContaining("no answer"))}},
			fails:   []try{{w.sorry, failing(expect.ErrorContaining("heavy"))}},
			unknown: map[string]try{"redacted": {hidden, failing(expect.ErrorContaining("example.test"))}},
		},
		"ErrorIs": {
			holds:  []try{{fmt.Errorf("open: %w", errShop), failing(expect.ErrorIs(errShop))}},
			fails:  []try{{protocol, failing(expect.ErrorIs(errShop))}},
			always: inHand,
			misuse: map[string]try{"ErrorIs: the target is nil": {errShop, failing(expect.ErrorIs(nil))}, "ErrorIs: the subject is no Go error": {w.sorry, failing(expect.ErrorIs(errShop))}},
		},
	}
}

func (w *world) serverRows() map[string]row {
	type E = *expect.Expectation
	capability := func(name string, opts ...expect.ServerOption) check {
		return func(e E) bool { return e.Capability(name, opts...) }
	}
	return map[string]row{
		"Expectation.ProtocolVersion": {
			holds:   []try{{w.shop, func(e E) bool { return e.ProtocolVersion("2025-11-25") }}, {w.two, func(e E) bool { return e.ProtocolVersion("2025-06-18", expect.OnServer("billing")) }}},
			fails:   []try{{w.two, func(e E) bool { return e.ProtocolVersion("2026-07-28") }}, {w.bare, func(e E) bool { return e.ProtocolVersion("2026-07-28") }}},
			unknown: map[string]try{"redacted": {w.hidden, func(e E) bool { return e.ProtocolVersion("2025-11-25") }}, "unavailable": {w.truncated, func(e E) bool { return e.ProtocolVersion("2025-11-25") }}},
			misuse:  map[string]try{"ProtocolVersion: the expected value is empty": {w.shop, func(e E) bool { return e.ProtocolVersion("") }}, "an option is nil": {w.shop, func(e E) bool { return e.ProtocolVersion("x", nil) }}},
		},
		"Expectation.Transport": {
			holds:   []try{{w.shop, func(e E) bool { return e.Transport("stdio") }}, {w.two, func(e E) bool { return e.Transport("pipe", expect.OnServer("billing")) }}},
			fails:   []try{{w.two, func(e E) bool { return e.Transport("stdio") }}},
			unknown: map[string]try{"unavailable": {w.hidden, func(e E) bool { return e.Transport("stdio") }}},
			misuse:  map[string]try{"Transport: the expected value is empty": {w.shop, func(e E) bool { return e.Transport("") }}},
		},
		"Expectation.Capability": {
			holds:   []try{{w.shop, capability("tools")}, {w.shop, capability("tools.listChanged")}, {w.shop, capability("extensions.io.example/ui.v")}, {w.two, capability("prompts", expect.OnServer("billing"))}},
			fails:   []try{{w.shop, capability("logging")}, {w.shop, capability("prompts.listChanged")}, {w.two, capability("tools")}},
			unknown: map[string]try{"unavailable": {w.hidden, capability("tools")}, "truncated": {w.truncated, capability("tools")}},
			misuse:  map[string]try{"Capability: the name is empty": {w.shop, capability("")}},
		},
	}
}

func (w *world) traceRows() map[string]row {
	type E = *expect.Expectation
	entries := func(kind trace.EntryKind, opts ...expect.EntryOption) check {
		return func(e E) bool { return e.Entries(kind, opts...) }
	}
	finding := func(code string, opts ...expect.FindingOption) check {
		return func(e E) bool { return e.Finding(code, opts...) }
	}
	none := func(from trace.Severity, opts ...expect.FindingOption) check {
		return func(e E) bool { return e.NoFindings(from, opts...) }
	}
	return map[string]row{
		"Expectation.Completeness": {
			holds:  []try{{w.shop, func(e E) bool { return e.Completeness(trace.Complete) }}, {w.open, func(e E) bool { return e.Completeness(trace.Partial) }}},
			fails:  []try{{w.lossy, func(e E) bool { return e.Completeness(trace.Complete) }}},
			always: "a trace knows what it lacks",
			misuse: map[string]try{`Completeness("whole"): use trace.Complete or trace.Partial`: {w.shop, func(e E) bool { return e.Completeness("whole") }}},
		},
		"Expectation.Limitation": {
			holds:  []try{{w.lossy, func(e E) bool { return e.Limitation("capture_incomplete") }}},
			fails:  []try{{w.lossy, func(e E) bool { return e.Limitation("interrupted") }}, {w.shop, func(e E) bool { return e.Limitation("open") }}},
			always: "a trace knows what it lacks",
			misuse: map[string]try{"Limitation: the code is empty": {w.shop, func(e E) bool { return e.Limitation("") }}},
		},
		"Expectation.Entries": {
			holds:   []try{{w.shop, entries(trace.EntryToolCall, expect.Times(7))}, {w.shop, entries(trace.EntryProtocol, expect.Times(0))}, {w.shop, entries(trace.EntryToolCall, expect.InTurn(trace.TurnID("t1")), expect.MaxTimes(2))}, {w.two, entries("tool_call", expect.OnServer("billing"), expect.Times(1))}},
			fails:   []try{{w.shop, entries(trace.EntryMessage)}, {w.shop, entries(trace.EntryToolCall, expect.MaxTimes(3))}},
			unknown: map[string]try{"unavailable": {w.lossy, entries(trace.EntryMessage)}, "truncated": {w.truncated, entries(trace.EntryMessage)}},
			misuse:  map[string]try{`Entries("mcp.request"): that is no kind of entry; how events are stored is nothing to rely on`: {w.shop, entries("mcp.request")}, "an option is nil": {w.shop, entries("finding", nil)}, "Times(-2)": {w.shop, entries("finding", expect.Times(-2))}},
		},
		"Expectation.Artifact": {
			holds:   []try{{w.shop, func(e E) bool { return e.Artifact("report.txt") }}, {w.shop, func(e E) bool { return e.Artifact("cafe") }}},
			fails:   []try{{w.shop, func(e E) bool { return e.Artifact("log.txt") }}},
			unknown: map[string]try{"unavailable": {w.lossy, func(e E) bool { return e.Artifact("log.txt") }}, "redacted": {w.hidden, func(e E) bool { return e.Artifact("log.txt") }}},
			misuse:  map[string]try{"Artifact: the name is empty": {w.shop, func(e E) bool { return e.Artifact("") }}},
		},
		"Expectation.WorkspaceDiff": {
			holds: []try{{w.shop, func(e E) bool {
				return e.WorkspaceDiff(m3.Args{"added": []string{"b.txt", "a.txt"}}, expect.Partial(), expect.Unordered())
			}}},
			fails:   []try{{w.shop, func(e E) bool { return e.WorkspaceDiff(m3.Args{"added": []string{"old.txt"}}) }}, {w.bare, func(e E) bool { return e.WorkspaceDiff(nil) }}},
			unknown: map[string]try{"truncated": {w.hidden, func(e E) bool { return e.WorkspaceDiff(nil) }}, "unavailable": {w.truncated, func(e E) bool { return e.WorkspaceDiff(nil) }}},
			misuse:  map[string]try{"WorkspaceDiff: an option is nil": {w.shop, func(e E) bool { return e.WorkspaceDiff(1, nil) }}},
		},
		"Expectation.Finding": {
			holds:   []try{{w.shop, finding("stdout-noise", expect.Times(1))}, {w.shop, finding("unknown-id", expect.Times(0))}},
			fails:   []try{{w.shop, finding("unknown-id")}, {w.bare, finding("stdout-noise")}},
			unknown: map[string]try{"unavailable": {w.lossy, finding("unknown-id")}, "truncated": {w.flooded(), finding("unknown-id")}},
			misuse:  map[string]try{"Finding: the code is empty": {w.shop, finding("")}, "Finding: Except belongs to NoFindings": {w.shop, finding("x", expect.Except("y"))}, "an option is nil": {w.shop, finding("x", nil)}},
		},
		"Expectation.NoFindings": {
			holds:   []try{{w.bare, none(trace.SeverityNote)}, {w.shop, none(trace.SeverityError)}},
			fails:   []try{{w.shop, none(trace.SeverityWarning)}},
			unknown: map[string]try{"unavailable": {w.lossy, none(trace.SeverityError)}, "truncated": {w.flooded(), none(trace.SeverityError)}},
			misuse:  map[string]try{`NoFindings("fatal"): use trace.SeverityNote`: {w.shop, none("fatal")}, "NoFindings: it wants none": {w.shop, none(trace.SeverityNote, expect.Times(1))}},
		},
		"Except": {
			holds:  []try{{w.shop, none(trace.SeverityNote, expect.Except("stdout-noise"))}},
			fails:  []try{{w.shop, none(trace.SeverityNote, expect.Except("unknown-id"))}},
			always: scopes,
		},
	}
}

func (w *world) elicitationRows() map[string]row {
	lost := func(opt expect.ElicitationOption) map[string]try {
		return map[string]try{"redacted": {w.redacted, asking("address", opt)}}
	}
	return map[string]row{
		"Expectation.Elicitation": {
			holds:   []try{{w.shop, asking("address")}, {w.shop, asking(expect.AnyKey, expect.Times(1), expect.OnServer("shipping"))}, {w.shop, asking("note", expect.Times(0))}},
			fails:   []try{{w.shop, asking("note")}, {w.bare, asking(expect.AnyKey)}, {w.shop, asking("address", expect.Times(2))}},
			unknown: map[string]try{"unavailable": {w.lossy, asking("note")}, "truncated": {w.truncated, asking("note")}},
			misuse:  map[string]try{"Elicitation: the key is empty": {w.shop, asking("")}, "an option is nil": {w.shop, asking("address", nil)}, "MaxTimes(0) wants none": {w.shop, asking("address", expect.MaxTimes(0))}},
		},
		"Action": {
			holds:   []try{{w.shop, asking("address", expect.Action(trace.ActionAccept))}},
			fails:   []try{{w.shop, asking("address", expect.Action(trace.ActionDecline))}, {w.pending(), asking("address", expect.Action(trace.ActionDecline))}},
			unknown: map[string]try{"unavailable": {w.unanswered(), asking("address", expect.Action(trace.ActionAccept))}},
			misuse:  map[string]try{`Action("yes"): use trace.ActionAccept, ActionDecline or ActionCancel`: {w.shop, asking("address", expect.Action("yes"))}},
		},
		"Mode": {
			holds: []try{{w.shop, asking("address", expect.Mode("form"))}}, fails: []try{{w.shop, asking("address", expect.Mode("url"))}}, always: "a request without a mode is a form",
			misuse: map[string]try{`Mode("uri"): use form or url`: {w.shop, asking("address", expect.Mode("uri"))}},
		},
		"Round": {
			holds: []try{{w.shop, asking("address", expect.Round(1))}}, fails: []try{{w.shop, asking("address", expect.Round(2))}}, always: "rounds are counted by m3",
			misuse: map[string]try{"Round(0): rounds are counted from 1": {w.shop, asking("address", expect.Round(0))}},
		},
		"Message": {
			holds: []try{{w.shop, asking("address", expect.Message("Where to?"))}}, fails: []try{{w.shop, asking("address", expect.Message("Where?"))}}, unknown: lost(expect.Message("Where to?")),
		},
		"WithContent": {
			holds: []try{{w.shop, asking("address", expect.WithContent(m3.Args{"city": "P.*"}, expect.Regex()))}}, fails: []try{{w.shop, asking("address", expect.WithContent(m3.Args{"city": "Oslo"}))}}, unknown: lost(expect.WithContent(m3.Args{})),
			misuse: map[string]try{"WithContent: the expected value, a chan int, cannot": {w.shop, asking("address", expect.WithContent(make(chan int)))}},
		},
	}
}
