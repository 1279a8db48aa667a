package trace

import "time"

// toldCall is the payload of a report, and of its result.
type toldCall struct {
	CallID string `json:"call_id"`
	ReportedToolCall
}

// told decodes what an agent says of a call. first is its first event.
func (d reader) told(n int32) (t toldCall, first *message, limitations []string) {
	r := d.ix.records.at(int(n))
	first = d.message(r.start)
	limitations = fillFields(&t, first)
	if r.resp >= 0 {
		limitations = append(limitations, fillFields(&t, d.message(r.resp))...)
	}
	t.Status = r.verdict.toolStatus()
	t.SequenceStart, t.SequenceEnd = int64(r.start), int64(r.end)
	if name, ok := d.ix.names[n]; ok {
		derived := &Source{OriginDerived, "m3"}
		if t.Server.State == NotEmitted {
			t.Server = Observation[string]{State: Observed, Value: name.server, Provenance: derived}
		}
		if t.Tool.State == NotEmitted {
			t.Tool = Observation[string]{State: Observed, Value: name.tool, Provenance: derived}
		}
	}
	return t, first, limitations
}

// reportedCall decodes a tool call that stands as the agent told it.
func (d reader) reportedCall(n int32, r *record) *ToolCallEntry {
	t, first, limitations := d.told(n)
	e := &ToolCallEntry{Base: d.base(n, first), Correlation: ReportedOnly, ToolStatus: t.Status, CallID: t.CallID}
	e.limit(limitations)
	if e.CallID == "" {
		e.CallID = e.EntryID
	}
	e.ProviderCallID, e.Server, e.Tool = t.ProviderCallID, t.Server, t.Tool
	e.Arguments, e.Result = t.Arguments, t.Result
	e.Reported = Observe(t.ReportedToolCall)
	e.Correlation = r.correlation(ReportedOnly)
	if e.Correlation == ReportedOnly && d.ix.wired {
		return e // there is a wire, and it has no such call
	}
	e.RPCID = Absent[RPCID](Unavailable, ReasonCorrelationUnavailable)
	e.ServerLatency = Absent[time.Duration](Unavailable, ReasonCorrelationUnavailable)
	e.Wire = Absent[WireToolCall](Unavailable, ReasonCorrelationUnavailable)
	return e
}

func (r *record) correlation(alone Correlation) Correlation {
	switch {
	case r.flags&(flagTwins|flagAmbiguous) != 0:
		return Ambiguous
	case r.flags&flagUnsure != 0:
		return CorrelationUnavailable
	}
	return alone
}

// addReport adds the other tape to a call that passed on the wire.
func (d reader) addReport(e *ToolCallEntry, n int32, r *record) {
	if r.flags&flagJoined == 0 {
		e.Correlation = r.correlation(WireOnly)
		if r.flags&(flagTwins|flagUnsure) != 0 {
			e.Reported = Absent[ReportedToolCall](Unavailable, ReasonCorrelationUnavailable)
		}
		return
	}
	report := d.ix.joined[n]
	t, first, limitations := d.told(report)
	e.Correlation = Correlated
	e.limit(limitations)
	e.Provenance = append(e.Provenance, Source{intern[Origin](first.ev.origin), intern[string](first.ev.source)})
	if t.CallID != "" {
		e.CallID = t.CallID
	}
	e.ProviderCallID = t.ProviderCallID
	e.Reported = Observe(t.ReportedToolCall)
	gaveUp := d.unanswered(r) && t.Status != ToolSuccess && t.Status != ToolIncomplete
	e.Conflicts = conflicts(e, &t.ReportedToolCall, !gaveUp && r.flags&flagAmbiguous == 0 && r.verdict != verdictUnavailable)
	if gaveUp {
		v := d.ix.records.at(int(report)).verdict
		e.ToolStatus, e.Status, e.Result = v.toolStatus(), v.status(), t.Result
	}
}

// unanswered reports whether a call waits for input that nobody gave: how it ended then is known to the agent alone.
func (d reader) unanswered(r *record) bool {
	if r.aux < 0 || r.verdict != verdictIncomplete {
		return false
	}
	at := d.ix.groups[r.aux].attempts
	return at[len(at)-1].paused
}
