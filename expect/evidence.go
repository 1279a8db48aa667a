package expect

import (
	"time"

	"github.com/m3-go/m3/trace"
)

// Evidence is what [Reported] and [Any] return: which tape the calls are looked for on.
type Evidence struct{ kind evidenceKind }

func (o Evidence) callOption(s *callSpec) {
	s.evidence = o.kind
	s.common.args.add("evidence", o.kind.String())
}

func (o Evidence) callsOption(s *callsSpec) {
	s.evidence = o.kind
	s.args.add("evidence", o.kind.String())
}

// Reported looks for calls as the agent told them, whether they passed on the wire or not.
func Reported() Evidence { return Evidence{reportedEvidence} }

// Any looks for calls on either tape: what passed on the wire as it did there, and besides what an agent only told.
func Any() Evidence { return Evidence{anyEvidence} }

type evidenceKind int

const (
	wireEvidence evidenceKind = iota
	reportedEvidence
	anyEvidence
)

func (k evidenceKind) String() string { return [...]string{"wire", "reported", "any"}[k] }

// call is a tool call as one tape has it.
type call struct {
	entry      *trace.ToolCallEntry
	server     trace.Observation[string]
	tool       trace.Observation[string]
	arguments  trace.Observation[trace.JSON]
	result     trace.Observation[trace.ToolResult]
	status     trace.ToolCallStatus // empty: not told
	latency    trace.Observation[time.Duration]
	lost       bool // it ended, but how is not in the evidence
	nullResult bool
}

// presence says whether a tape has a call.
type presence int

const (
	absent   presence = iota
	present           // it is there
	missing           // it was there, and was not captured
	onlyTold          // the agent told it, and it did not pass on the wire
)

// of returns the call as the tape has it.
func (k evidenceKind) of(view *trace.View, entry *trace.ToolCallEntry) (call, presence) {
	c := call{entry: entry, lost: entry.Status == trace.StatusUnavailable}
	switch k {
	case reportedEvidence:
		return c.asReported()
	case anyEvidence:
		c.server, c.tool, c.arguments, c.result = entry.Server, entry.Tool, entry.Arguments, entry.Result
		c.status, c.latency, c.nullResult = entry.ToolStatus, entry.ServerLatency, isNullResult(view, entry)
		return c, present
	default:
		return c.onWire(view)
	}
}

func (c call) onWire(view *trace.View) (call, presence) {
	w := &c.entry.Wire
	switch w.State {
	case trace.Observed, trace.Redacted, trace.Truncated: // its parts say what of them is there
	case trace.Unavailable:
		if c.entry.Correlation == trace.ReportedOnly {
			return c, onlyTold
		}
		c.tool, c.server = c.entry.Tool, c.entry.Server
		return c, missing
	default:
		if c.entry.Correlation == trace.ReportedOnly {
			return c, onlyTold
		}
		return c, absent
	}
	c.tool = c.entry.Tool
	if c.tool.OK() || c.tool.State == trace.NotEmitted {
		c.tool.Value = w.Value.Tool
	}
	if w.Value.Server != "" {
		c.server = trace.Observe(w.Value.Server)
	}
	c.arguments, c.result, c.status, c.latency = w.Value.Arguments, w.Value.Result, w.Value.Status, w.Value.Latency
	c.nullResult = isNullResult(view, c.entry)
	return c, present
}

func (c call) asReported() (call, presence) {
	r := &c.entry.Reported
	switch r.State {
	case trace.Observed, trace.Redacted, trace.Truncated:
	case trace.Unavailable:
		c.tool, c.server = c.entry.Tool, c.entry.Server
		return c, missing
	default:
		return c, absent
	}
	v := r.Value
	c.server, c.tool, c.arguments, c.result, c.status = v.Server, v.Tool, v.Arguments, v.Result, v.Status
	c.latency = trace.Absent[time.Duration](trace.Unsupported, trace.ReasonTransportNotApplicable)
	return c, present
}
