package trace

// protocol decodes a request with its answer, or a notification.
func (d reader) protocol(n int32, r *record) *ProtocolEntry {
	req := d.message(r.start).parse()
	answer := d.answer(r)
	e := &ProtocolEntry{
		Base: d.base(n, req), Protocol: protocolName(&req.ev), Direction: intern[Direction](req.ev.direction), RPCID: req.rpcID(),
		Request: req.json(req.params), Response: answer.json(answer.result), HTTP: exchangeHTTP(req, answer),
	}
	e.Error = observe(answer, answer.err, answer.rpcError)
	if !req.ev.hasFrame && req.ev.kind != nil {
		e.Direction = ServerToClient // a part of a batch, which only servers send, and agents
		if r.flags&flagFromAgent != 0 {
			e.Direction = ClientToServer
		}
	}
	if len(req.ev.method) > 0 {
		e.Method = Observe(intern[string](req.ev.method))
	} else {
		e.Method = req.text(req.method)
	}
	op := operations[e.Method.Value]
	if e.Direction == ServerToClient || op == "" || op == OperationTool {
		return e
	}
	e.OperationKind = op
	name := "name"
	if op == OperationResource {
		name = "uri"
	}
	e.OperationName = req.text(req.params.field(name))
	e.Attempts = d.protocolAttempts(r)
	return e
}

func protocolName(ev *rawEvent) string {
	switch s := string(ev.source); s {
	case "acp", "provider_http", "provider_stream":
		return s
	}
	return "mcp"
}

var errorFields = []string{"code", "message", "data"}

func (m *message) rpcError(v value) (e RPCError, ok bool) {
	var f [3]value
	if !v.fields(errorFields, f[:]) {
		return e, false
	}
	if f[1].present() {
		if e.Message, ok = f[1].text(); !ok {
			return e, false
		}
	}
	e.Code, e.Data = JSON(f[0].b), m.json(f[2])
	return e, true
}

// exchangeHTTP is the HTTP side: the method and address of the request, the status and headers of the answer.
func exchangeHTTP(req, answer *message) Observation[HTTPInfo] {
	switch {
	case req.http == nil && answer.http == nil:
		if req.absent == Unavailable && req.ev.kind == nil {
			return Absent[HTTPInfo](req.absent, req.reason)
		}
		return Absent[HTTPInfo](Unsupported, ReasonTransportNotApplicable)
	case answer.http == nil:
		return Observe(req.http.shown())
	}
	h := answer.http.shown()
	if req.http != nil {
		if h.Method == "" {
			h.Method = req.http.Method
		}
		if h.URL == "" {
			h.URL = req.http.URL
		}
	}
	return Observe(h)
}

// rawMessage decodes a frame or a stderr line.
func (d reader) rawMessage(n int32, r *record) *RawMessageEntry {
	m := d.message(r.start)
	ev := &m.ev
	e := &RawMessageEntry{
		Base: d.base(n, m), Source: intern[string](ev.source), Direction: intern[Direction](ev.direction), Framing: intern[Framing](ev.framing),
		Verdict: frameVerdicts[roles[Kind(ev.kind)]], RPCID: RPCID(ev.rpcID), Method: intern[string](ev.method), SizeBytes: ev.wireSize,
		Dropped: ev.dropped, Partial: ev.partial, HTTP: m.http, Redactions: m.reds,
	}
	e.ParentID = d.parent(r)
	if roles[Kind(ev.kind)] == roleStderr {
		e.Source = "process_stderr"
	}
	e.MediaType = mediaType(ev, m.bytes, m.http)
	e.Preview = d.preview(m)
	if len(ev.sha) > 0 && m.absent != Unavailable {
		e.EvidenceRef = &EvidenceRef{ID: evidenceID(d.ix.t.id, int64(r.start)), SHA256: string(ev.sha), Size: ev.size, MediaType: e.MediaType}
	}
	return e
}

var frameVerdicts = map[role]string{
	roleRequest: "request", roleResponse: "response", roleErrorResponse: "error", roleNotification: "notification", roleCancel: "notification",
	roleMalformed: "malformed", roleHTTP: "http", roleStderr: "stderr", roleDenied: "policy_denied", roleFiltered: "filtered", roleAgentFrame: "agent",
}

// preview shows the frame as it is kept, or, in the recording process, as it passed.
func (d reader) preview(m *message) Observation[string] {
	if m.absent == Unavailable {
		return Absent[string](m.absent, m.reason)
	}
	if m.ev.wireSize == 0 && len(m.bytes) == 0 {
		return Observation[string]{} // an HTTP answer without a body
	}
	text, cut := preview(m.bytes)
	switch {
	case cut || m.ev.dropped > 0:
		return Observation[string]{State: Truncated, Value: text, Reason: ReasonEvidenceTruncated}
	case len(m.reds) > 0 && !m.real:
		return Observation[string]{State: Redacted, Value: text, Reason: ReasonRedactedByPolicy}
	}
	return Observe(text)
}
