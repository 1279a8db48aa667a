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
	usage, scope, costScope := d.usage()
	s := Summary{
		Timing: d.timing(), Usage: usage, UsageScope: scope, CostScope: costScope, TurnCount: ix.turns, MessageCount: ix.byKind[codeMessage].len(),
		ReasoningCount: ix.byKind[codeReasoning].len(), ToolCallCount: ix.counts.tools, SuccessfulToolCalls: ix.counts.succeeded,
		FailedToolCalls: ix.counts.failed, ReportedOnlyCalls: ix.counts.reportedOnly, PolicyDeniedCalls: ix.counts.denied, ProtocolErrorCount: ix.counts.protocolErrors, FindingCount: ix.byKind[codeFinding].len(),
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

// usage is the report that counts for the whole, with the cost of another one when that is where it was told. A direct execution has no provider that could
// make one.
func (d reader) usage() (usage Observation[Usage], scope, costScope string) {
	if n := d.ix.usage; n > 0 {
		e := d.entry(n - 1).(*UsageEntry)
		u := e.Usage
		if c := d.ix.cost; c > 0 && c != n {
			priced := d.entry(c - 1).(*UsageEntry)
			u.Cost, u.Currency, costScope = priced.Cost, priced.Currency, priced.Scope
		}
		return Observe(u), e.Scope, costScope
	}
	switch d.ix.kind {
	case "direct":
		return Absent[Usage](Unsupported, ReasonTransportNotApplicable), "", ""
	case "acp":
		return Absent[Usage](Unsupported, ReasonHarnessUnsupported), "", ""
	}
	return Absent[Usage](NotEmitted, ReasonProviderDidNotEmit), "", ""
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
