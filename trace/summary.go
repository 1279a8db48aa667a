package trace

import (
	"slices"
)

// ExecutionID names the execution.
func (v View) ExecutionID() ExecutionID { return v.index().t.id }

// Outcome is how the execution ended; empty in a snapshot of an open one.
func (v View) Outcome() Outcome { return v.index().outcome }

// Completeness is [Complete] exactly when there is no limitation.
func (v View) Completeness() Completeness {
	if len(v.index().limitations) > 0 {
		return Partial
	}
	return Complete
}

// Limitations says what was not captured, one of each code.
func (v View) Limitations() []Limitation { return slices.Clone(v.index().limitations) }

// Summary is the execution in numbers: the whole of it, whatever the view's filters.
func (v View) Summary() Summary { return v.reader(false).summary() }

func (d reader) summary() Summary {
	ix := d.ix
	s := Summary{
		Timing: d.timing(), Usage: d.usage(), TurnCount: ix.turns, MessageCount: ix.byKind[codeMessage].len(),
		ReasoningCount: ix.byKind[codeReasoning].len(), ToolCallCount: ix.counts.tools, SuccessfulToolCalls: ix.counts.succeeded,
		FailedToolCalls: ix.counts.failed, ProtocolErrorCount: ix.counts.protocolErrors, FindingCount: ix.byKind[codeFinding].len(),
		ActivityHealth: ix.counts.health(), CleanupStatus: ix.counts.cleanup,
	}
	if s.CleanupStatus == "" {
		s.CleanupStatus = NotEmitted.String()
	}
	return s
}

func (c *counts) health() string {
	switch {
	case c.tools == 0:
		return "no_calls"
	case c.succeeded == c.tools:
		return "all_succeeded"
	case c.failed == c.tools:
		return "all_failed"
	}
	return "mixed"
}

func (d reader) timing() (t Timing) {
	if d.ix.n == 0 {
		return t
	}
	last := int32(d.ix.n - 1)
	t = Timing{StartedAt: d.time(0), StartOffset: d.offset(0), EndOffset: d.offset(last)}
	if d.ix.finished {
		at := d.time(last)
		t.FinishedAt = &at
	}
	return t
}

// usage is the latest report. A direct execution has no provider that could make one.
func (d reader) usage() Observation[Usage] {
	reports := &d.ix.byKind[codeUsage]
	if n := reports.len(); n > 0 {
		return Observe(d.entry(*reports.at(n - 1)).(*UsageEntry).Usage)
	}
	switch d.ix.kind {
	case "direct":
		return Absent[Usage](Unsupported, ReasonTransportNotApplicable)
	case "acp":
		return Absent[Usage](Unsupported, ReasonHarnessUnsupported)
	}
	return Absent[Usage](NotEmitted, ReasonProviderDidNotEmit)
}

// Runtime is what ran: the whole execution's, whatever the view's filters.
func (v View) Runtime() Runtime { return v.reader(false).runtime() }

func (d reader) runtime() Runtime {
	rt := Runtime{Kind: d.ix.kind}
	if rt.Kind != "direct" {
		rt.Fields = d.runtimeFields()
		return rt
	}
	if l := &d.ix.byKind[codeTransport]; l.len() > 0 {
		if t := d.entry(*l.at(0)).(*TransportEntry); t.Transport != "" {
			rt.Transport = Observe(t.Transport)
		}
	}
	if l := &d.ix.byKind[codeInitialization]; l.len() > 0 {
		init := d.entry(*l.at(0)).(*InitializationEntry)
		rt.Initialization = Observe(*init)
		rt.Protocol = init.ProtocolVersion
	}
	return rt
}

// runtimeFields gathers an agent's own facts: the member "runtime" in the payloads of its lifecycle events, the later over the
// earlier.
func (d reader) runtimeFields() map[string]Observation[JSON] {
	var out map[string]Observation[JSON]
	steps := &d.ix.byKind[codeLifecycle]
	for i := range steps.len() {
		m := d.message(d.ix.records.at(int(*steps.at(i))).start)
		payload, _ := whole(m.body)
		for w := payload.field("runtime").walk(); w.next(); {
			if out == nil {
				out = map[string]Observation[JSON]{}
			}
			name := w.name()
			o := out[name]
			o.load(w.val, name, w.val.overlaps(m.spans))
			out[name] = o
		}
	}
	return out
}
