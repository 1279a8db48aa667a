package trace

import (
	"encoding/json"
	"errors"
	"strings"
)

// payloadEvent adds the entry of an event that is no message on a wire: its payload is the entry's fields.
func (p *projector) payloadEvent(i int32) error {
	switch role := roles[Kind(p.ev.kind)]; role {
	case roleLifecycle:
		return p.lifecycle(i)
	case roleProcessStarted:
		p.joins[p.processKey()] = p.entry(i, codeProcess, verdictIncomplete)
	case roleProcessExited:
		n := p.join(i, p.processKey(), codeProcess)
		p.ix.records.at(int(n)).verdict = processVerdict(p.ev.payload)
	case roleTransport:
		p.noteShortRead()
		p.entry(i, codeTransport, verdictSuccess)
	case roleFinding:
		n := p.entry(i, codeFinding, verdictSuccess)
		p.placeFinding(n)
	case roleToolRequested, roleToolResult:
		p.reported(i)
	case roleUsage:
		p.usage(i)
	case roleInteraction, roleElicitation:
		p.interaction(i, role)
	default:
		p.entry(i, payloadKinds[role], p.statedVerdict())
	}
	return nil
}

var payloadKinds = map[role]kindCode{
	roleInitialized: codeInitialization,
	roleDiagnostic:  codeDiagnostic,
	roleMessage:     codeMessage,
	roleReasoning:   codeReasoning,
	roleWorkspace:   codeWorkspace,
	roleArtifact:    codeArtifact,
	roleProvider:    codeProvider,
}

func (p *projector) entry(i int32, k kindCode, v verdict) int32 {
	return p.exchange(i, k, v)
}

// join completes the record that an earlier event opened under the key, or adds one of its own.
func (p *projector) join(i int32, key string, k kindCode) int32 {
	if n, ok := p.joins[key]; ok && key != "" {
		delete(p.joins, key)
		r := p.ix.records.at(int(n))
		r.resp, r.end, r.verdict = i, i, verdictSuccess
		return n
	}
	return p.entry(i, k, verdictSuccess)
}

// lifecycle takes the execution's own facts from its first and last events besides.
func (p *projector) lifecycle(i int32) error {
	v := verdictSuccess
	switch Kind(p.ev.kind) {
	case KindExecutionCreated:
		var c Created
		if err := json.Unmarshal(p.ev.payload, &c); err != nil {
			return err
		}
		if c.Kind == "agent" {
			p.ix.kind, p.joinKey = c.Harness, c.JoinKey
		}
	case KindHarnessSelection, KindHarnessResolved:
		if v, _ := whole(p.ev.payload); v.present() {
			if key, ok := v.field("join_key").text(); ok {
				p.joinKey = key
			}
		}
	case KindExecutionFinished:
		if err := p.finished(); err != nil {
			return err
		}
		v, _ = verdictOf(string(p.ix.outcome))
	case KindCleanupFinished:
		v = p.statedVerdict()
		p.ix.counts.cleanup = string(v.status())
	}
	p.entry(i, codeLifecycle, v)
	return nil
}

func (p *projector) finished() error {
	var f Finished
	if err := json.Unmarshal(p.ev.payload, &f); err != nil {
		return err
	}
	switch f.Outcome {
	case OutcomeCompleted, OutcomeFailed, OutcomeTimedOut, OutcomeCancelled, OutcomeInterrupted:
	default:
		return errors.New("its outcome is none: " + string(f.Outcome))
	}
	p.ix.finished, p.ix.outcome = true, f.Outcome
	for _, l := range f.Limitations {
		p.limit(l.Code, l.Message)
	}
	return nil
}

// statedVerdict reads the status, or state, that the payload gives itself.
func (p *projector) statedVerdict() verdict {
	payload, _ := whole(p.ev.payload)
	var f [2]value
	payload.fields(statedFields, f[:])
	for _, v := range f {
		if word, ok := v.text(); ok {
			if v, ok := verdictOf(word); ok {
				return v
			}
		}
	}
	return verdictSuccess
}

var statedFields = []string{"status", "state"}

// processKey joins the start and the end of a process: the pid is unique while it lives.
func (p *projector) processKey() string {
	payload, _ := whole(p.ev.payload)
	return "process\x00" + string(p.ev.server) + "\x00" + string(payload.field("pid").field("value").b)
}

// processVerdict: a process that m3 ended did as told; one that left by itself did so well with code 0 alone.
func processVerdict(payload []byte) verdict {
	var e struct {
		ExitCode Observation[int]    `json:"exit_code"`
		Signal   Observation[string] `json:"signal"`
		Ended    string              `json:"ended"`
	}
	if json.Unmarshal(payload, &e) != nil {
		return verdictUnavailable
	}
	code, known := e.ExitCode.Get()
	switch signal, _ := e.Signal.Get(); {
	case e.Ended == "eof" || e.Ended == "sigterm" || e.Ended == "sigkill":
		return verdictSuccess
	case known && code == 0 && signal == "":
		return verdictSuccess
	case known || signal != "":
		return verdictFailed
	}
	return verdictUnavailable
}

// noteShortRead makes the trace partial when a connection read more than was handed over.
func (p *projector) noteShortRead() {
	var e struct {
		BytesRead int64 `json:"bytes_read"`
		BytesKept int64 `json:"bytes_kept"`
	}
	if json.Unmarshal(p.ev.payload, &e) == nil && e.BytesRead > e.BytesKept {
		p.limit("capture_incomplete", "bytes of some frames were not kept")
	}
}

// placeFinding ties a finding to the frame it is about, and puts it in that frame's turn.
func (p *projector) placeFinding(n int32) {
	var f struct {
		Sequence *int64 `json:"frame_sequence"`
	}
	if json.Unmarshal(p.ev.payload, &f) != nil || f.Sequence == nil || *f.Sequence < 0 || *f.Sequence >= p.ev.seq {
		return
	}
	if frame := p.ix.firstAt(int32(*f.Sequence), codeRawMessage); frame >= 0 {
		s := p.ix.records.at(int(frame)).scope
		if len(p.ev.server) > 0 {
			s = p.inTurnOf(frame)
		}
		r := p.ix.records.at(int(n))
		r.aux, r.scope = frame, s
	}
}

// interaction joins a request with its response by the id that both carry; without one, each event is an entry.
func (p *projector) interaction(i int32, role role) {
	k := codeInteraction
	if role == roleElicitation {
		if payload, _ := whole(p.ev.payload); payload.field("on_wire").is('t') {
			return // the agent's own prompt for what a server asks on the wire, which has the entry
		}
		k = codeElicitation
	}
	key := p.interactionKey()
	switch _, open := p.joins[key]; {
	case open && key != "":
		p.join(i, key, k)
	case isResponse(Kind(p.ev.kind)) || key == "":
		p.entry(i, k, p.statedVerdict())
	default:
		p.joins[key] = p.entry(i, k, verdictIncomplete)
	}
}

func isResponse(k Kind) bool {
	return k == KindPermissionResponse || k == KindSamplingResponse || k == KindElicitationResponse
}

// family is the part of a kind before its dot.
func family(kind []byte) string {
	f, _, _ := strings.Cut(string(kind), ".")
	return f
}

func (p *projector) interactionKey() string {
	id := string(p.ev.rpcID)
	if id == "" {
		payload, _ := whole(p.ev.payload)
		id = string(payload.field("interaction_id").b)
	}
	if id == "" {
		return ""
	}
	return strings.Join([]string{family(p.ev.kind), string(p.ev.session), string(p.ev.server), string(p.ev.conn), id}, "\x00")
}
