package evidence

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// maxFindingMessage bounds the message of a finding, in bytes.
const maxFindingMessage = 4 << 10

// Find records a finding as an event, its message redacted and bounded, in the place (server, connection, phase) of the
// event that it is about. Findings over the bound are counted only; Finish then records how many.
func (t *Tape) Find(f trace.Finding) { t.find(f, place{}) }

// find is Find with a place to put the finding in; one without server and connection means that of its event.
func (t *Tape) find(f trace.Finding, at place) {
	f.Message = bound(t.r.String(f.Message), maxFindingMessage)
	f.RPCID = cleanID(trace.RPCID(t.r.identifier(string(f.RPCID))))
	t.mu.Lock()
	if t.finished {
		t.dropped++
		t.mu.Unlock()
		return
	}
	if len(t.findings) >= t.cfg.MaxFindings {
		t.uncounted++
		t.mu.Unlock()
		return
	}
	t.findings = append(t.findings, f)
	if at.server == "" && at.conn == "" {
		at = t.placeOf(f.Sequence)
	}
	t.mu.Unlock()
	t.recordFinding(f, at)
}

// Findings returns the findings that were kept, in order.
func (t *Tape) Findings() []trace.Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.findings)
}

// placeOf returns where the event with that sequence happened, if it is not too long ago; called under the lock.
func (t *Tape) placeOf(seq int64) place {
	if seq >= 0 {
		if p := t.recent[seq%int64(len(t.recent))]; p.seq == seq && seq < t.seq {
			return p
		}
	}
	return place{phase: trace.PhaseUnknown}
}

func (t *Tape) recordFinding(f trace.Finding, at place) {
	payload, err := json.Marshal(f)
	if err != nil { // its id or message cannot be encoded: cleanID and redaction leave none such
		t.Limit("capture_incomplete", "a finding could not be encoded: "+err.Error())
		return
	}
	t.Record(&trace.Event{
		Kind: trace.KindFinding, Phase: at.phase, SessionID: at.sess, TurnID: at.turn, Server: at.server, ConnectionID: at.conn,
		Source: ownSource, RPCID: f.RPCID, Payload: payload,
	})
}

// findRest records how many findings were not kept.
func (t *Tape) findRest() {
	t.mu.Lock()
	n := t.uncounted
	t.uncounted = 0
	if n == 0 || t.finished {
		t.mu.Unlock()
		return
	}
	f := trace.Finding{
		Code: "findings-truncated", Severity: trace.SeverityWarning, Sequence: -1, Offset: -1,
		Message: fmt.Sprintf("%d more findings were counted but not kept", n),
	}
	t.findings = append(t.findings, f)
	t.mu.Unlock()
	t.recordFinding(f, place{phase: trace.PhaseTerminal})
}

// bound cuts s to at most n bytes, and says so.
func bound(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
