package trace

import "time"

// toolCall decodes a call as it passed on the wire, or was refused, and adds what the agent told of it.
func (d reader) toolCall(n int32, r *record) *ToolCallEntry {
	req := d.message(r.start).parse()
	answer := d.answer(r)
	e := &ToolCallEntry{Base: d.base(n, req), Correlation: WireOnly, ToolStatus: r.verdict.toolStatus(), RPCID: req.rpcID()}
	e.CallID = e.EntryID
	e.Tool = req.text(req.params.field("name"))
	e.Arguments = req.json(req.params.field("arguments"))
	if e.ServerBinding != "" {
		e.Server = Observe(e.ServerBinding)
	}
	e.Result = answer.toolResult()
	e.ServerLatency = d.latency(r)
	e.Attempts = d.toolAttempts(r)
	if r.flags&flagDenied != 0 {
		e.Policy = Observe(PolicyDenied)
	} else {
		e.Wire = Observe(WireToolCall{
			RPCID: e.RPCID.Value, Server: e.ServerBinding, Tool: e.Tool.Value, Arguments: e.Arguments, Result: e.Result,
			Status: e.ToolStatus, Latency: e.ServerLatency,
		})
	}
	d.addReport(e, n, r)
	return e
}

// latency is how long the server took: from request to answer, and for a call of several attempts the sum of theirs, for what lies between
// them is the client's time.
func (d reader) latency(r *record) Observation[time.Duration] {
	if r.flags&flagAmbiguous != 0 {
		return Absent[time.Duration](Unavailable, ReasonCorrelationUnavailable)
	}
	if r.resp < 0 || r.flags&flagHTTPOnly != 0 {
		return Observation[time.Duration]{}
	}
	sum := d.offset(r.resp) - d.offset(r.start)
	if r.aux >= 0 {
		sum = 0
		for _, a := range d.ix.groups[r.aux].attempts {
			if a.resp >= 0 {
				sum += d.offset(a.resp) - d.offset(a.req)
			}
		}
	}
	if sum < 0 {
		return Absent[time.Duration](Unavailable, ReasonMalformedSource)
	}
	return Observe(sum)
}

// toolResult makes a result of the answer to tools/call; a JSON-RPC error is a result with an Error.
func (m *message) toolResult() Observation[ToolResult] {
	if m.err.present() {
		return observe(m, m.err, func(v value) (ToolResult, bool) { return ToolResult{Error: m.json(v)}, true })
	}
	return observe(m, m.result, func(v value) (ToolResult, bool) { return m.decodeToolResult(v) })
}

var toolResultFields = []string{"content", "structuredContent", "isError"}

func (m *message) decodeToolResult(v value) (r ToolResult, ok bool) {
	var f [3]value
	if !v.fields(toolResultFields, f[:]) || !validToolResult(f) {
		return r, false
	}
	r.Content = contentBlocks(f[0])
	r.StructuredContent = m.json(f[1])
	r.IsError = f[2].is('t')
	return r, true
}

// judgeToolResult says how a call ended by its result.
func judgeToolResult(v value) verdict {
	var f [3]value
	switch {
	case !v.fields(toolResultFields, f[:]) || !validToolResult(f):
		return verdictProtocolError
	case f[2].is('t'):
		return verdictToolError
	}
	return verdictSuccess
}

// validToolResult checks the types of content and isError. Missing content passes: servers leave it out.
func validToolResult(f [3]value) bool {
	content, isError := f[0], f[2]
	return (!isError.present() || isError.boolean()) && validContent(content)
}

var contentFields = []string{"type", "text"}

func validContent(v value) bool {
	if !v.present() || v.null() {
		return true
	}
	if !v.is('[') {
		return false
	}
	for w := v.walk(); w.next(); {
		var f [2]value
		if !w.val.fields(contentFields, f[:]) || !f[0].is('"') {
			return false
		}
		if string(f[0].b) == `"text"` && !f[1].is('"') {
			return false
		}
	}
	return true
}

// contentBlocks decodes content that is valid.
func contentBlocks(v value) (out []Content) {
	for w := v.walk(); w.next(); {
		var f [2]value
		w.val.fields(contentFields, f[:])
		c := Content{Raw: JSON(w.val.b)}
		c.Type, _ = f[0].text()
		c.Text, _ = f[1].text()
		out = append(out, c)
	}
	return out
}

// toolAttempts decodes the attempts of a call that paused for input; a one-shot call has none.
func (d reader) toolAttempts(r *record) (out []ToolCallAttempt) {
	for i, a := range d.attempts(r) {
		t := ToolCallAttempt{
			AttemptIndex: i, RPCID: a.rpcID, RequestState: a.state, ContinuationState: a.continuation, InputResponses: a.responses,
			OperationParams: a.params, InputRequired: a.paused, RawResult: a.raw, Status: ToolIncomplete,
			SequenceStart: a.start, SequenceEnd: a.end, Timing: a.timing,
		}
		if a.finished {
			t.Status = ToolCompleted
			t.Result = a.answer.toolResult()
		}
		out = append(out, t)
	}
	return out
}

// protocolAttempts is the same for prompts and resources.
func (d reader) protocolAttempts(r *record) (out []ProtocolCallAttempt) {
	for i, a := range d.attempts(r) {
		t := ProtocolCallAttempt{
			AttemptIndex: i, RPCID: a.rpcID, RequestState: a.state, ContinuationState: a.continuation, InputResponses: a.responses,
			OperationParams: a.params, InputRequired: a.paused, RawResult: a.raw, Status: StatusIncomplete,
			SequenceStart: a.start, SequenceEnd: a.end, Timing: a.timing,
		}
		if a.finished {
			t.Status = StatusCompleted
			t.Result = a.answer.json(a.answer.result)
		}
		out = append(out, t)
	}
	return out
}

// decodedAttempt is what the two kinds of attempt share.
type decodedAttempt struct {
	rpcID                  Observation[RPCID]
	state, continuation    Observation[string]
	responses, params, raw Observation[JSON]
	paused, finished       bool
	start, end             int64
	timing                 Timing
	answer                 *message
}

func (d reader) attempts(r *record) (out []decodedAttempt) {
	if r.aux < 0 {
		return nil
	}
	for _, a := range d.ix.groups[r.aux].attempts {
		req, answer := d.message(a.req).parse(), unanswered()
		if a.resp >= 0 {
			answer = d.message(a.resp).parse()
		}
		out = append(out, d.attempt(a, req, answer))
	}
	return out
}

func (d reader) attempt(a attempt, req, answer *message) decodedAttempt {
	out := decodedAttempt{
		rpcID: req.rpcID(), state: req.text(req.params.field("requestState")), responses: req.json(req.params.field("inputResponses")),
		params: req.json(req.params), raw: answer.json(answer.result), paused: a.paused, finished: a.resp >= 0 && !a.paused,
		start: int64(a.req), end: int64(max(a.req, a.resp)), answer: answer,
	}
	out.timing = Timing{StartedAt: req.ev.time(), StartOffset: d.offset(a.req), EndOffset: d.offset(int32(out.end))}
	if a.resp >= 0 {
		at := answer.ev.time()
		out.timing.FinishedAt = &at
	}
	if answer.err.present() {
		out.raw = answer.json(answer.err)
	}
	if a.paused {
		out.continuation = answer.text(answer.result.field("requestState"))
	}
	return out
}
