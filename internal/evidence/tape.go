package evidence

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/m3-go/m3/trace"
)

// Sink is where a tape writes to. Both methods are called under the tape's lock, in sequence order; what they are given is
// valid only during the call.
type Sink interface {
	// AppendEvent appends one encoded event.
	AppendEvent(seq int64, kind trace.Kind, body []byte) error
	// PutBlob keeps bytes out of line, before the event that refers to them. The same digest may come again.
	PutBlob(sha256 string, data []byte) error
}

// TapeConfig tunes a [Tape]. Nil and zero fields mean the defaults.
type TapeConfig struct {
	BlobBytes     int   // frames of more bytes than this go out of line. 0: 64 KiB
	MaxFindings   int   // how many findings are kept; the rest is counted. 0: 1000
	OriginalBytes int64 // how many bytes of originals of redacted frames are kept in memory. 0: 64 MiB; negative: none
	// StderrBytes is how much of the stderr of each connection is kept as events, in bytes; each event counts as 512 at least. What comes after
	// is counted, and is the finding stderr-flood. 0: 16 MiB; negative: no bound.
	StderrBytes int64
	// Start is when the execution began. Zero: now.
	Start time.Time
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// The defaults of a TapeConfig.
const (
	defaultBlobBytes     = 64 << 10
	defaultMaxFindings   = 1000
	defaultOriginalBytes = 64 << 20
	defaultStderrBytes   = 16 << 20
)

// Tape records one execution: it redacts, numbers, stamps and encodes events and hands them to its sink. It may be used
// from several goroutines; the order of sequences is the order of the calls as the lock decides it.
type Tape struct {
	id    trace.ExecutionID
	sink  Sink
	r     *Redactor
	cfg   TapeConfig
	start time.Time
	pool  sync.Pool // *draft

	lines stderrLines

	mu        sync.Mutex
	seq       int64
	offset    time.Duration // of the last event
	err       error
	finished  bool
	dropped   int64
	limits    []trace.Limitation
	findings  []trace.Finding
	uncounted int64 // findings over the bound
	originals originals
	recent    [64]place     // of the last events, by sequence
	changed   chan struct{} // closed at the next event; nil while nobody waits for it
}

// place is where an event happened. Findings about it are put in the same place.
type place struct {
	seq    int64
	phase  trace.Phase
	sess   trace.SessionID
	turn   trace.TurnID
	server string
	conn   trace.ConnectionID
}

// NewTape returns a tape whose clock starts now. A nil Redactor means one without known values.
func NewTape(id trace.ExecutionID, sink Sink, r *Redactor, cfg *TapeConfig) *Tape {
	t := &Tape{id: id, sink: sink, r: r}
	if cfg != nil {
		t.cfg = *cfg
	}
	if t.cfg.BlobBytes == 0 {
		t.cfg.BlobBytes = defaultBlobBytes
	}
	if t.cfg.MaxFindings == 0 {
		t.cfg.MaxFindings = defaultMaxFindings
	}
	if t.cfg.OriginalBytes == 0 {
		t.cfg.OriginalBytes = defaultOriginalBytes
	}
	if t.cfg.StderrBytes == 0 {
		t.cfg.StderrBytes = defaultStderrBytes
	}
	if t.cfg.Now == nil {
		t.cfg.Now = time.Now
	}
	if t.r == nil {
		t.r = NewRedactor(nil)
	}
	t.pool.New = func() any { return new(draft) }
	if t.start = t.cfg.Start; t.start.IsZero() {
		t.start = t.cfg.Now()
	}
	t.originals.budget = t.cfg.OriginalBytes
	return t
}

// Redactor returns the redactor that the tape applies.
func (t *Tape) Redactor() *Redactor { return t.r }

// Record redacts, numbers, stamps (Time, when it is zero, and Offset) and encodes ev, and hands it to the sink. It takes
// ev.Frame.Bytes as the bytes of the wire and works out the frame's sizes and digest; it neither changes ev nor keeps a
// reference to it. It never fails: when the sink does, the event is lost, the trace gets the limitation
// persistence_failed, and the sequence is -1, as it is for an event after Finish, which is dropped and counted.
func (t *Tape) Record(ev *trace.Event) (seq int64) {
	if w := watcher.Load(); w != nil {
		(*w)(t, ev)
	}
	if ev.Kind == trace.KindProcessExited {
		t.StderrEnd(ev.Server, ev.ConnectionID)
	}
	d := t.pool.Get().(*draft)
	d.set(ev)
	if d.ev.Frame != nil {
		wire := d.frame.Bytes
		d.frame.WireSize = int64(len(wire)) + d.frame.Dropped
		d.frame.Bytes, d.ev.Redactions = t.r.Bytes(wire)
		d.keepOriginal(wire)
		if d.ev.Payload != nil {
			d.ev.Payload, _ = t.r.Bytes(cleanJSON(d.ev.Payload))
		}
	} else if d.ev.Payload != nil {
		clean := cleanJSON(d.ev.Payload)
		d.ev.Payload, d.ev.Redactions = t.r.Bytes(clean)
		d.keepOriginal(clean)
	}
	return t.put(d)
}

// put finishes a draft whose frame and payload are redacted, appends it and takes it back.
func (t *Tape) put(d *draft) int64 {
	t.clean(&d.ev)
	if d.ev.Time.IsZero() {
		d.ev.Time = t.cfg.Now()
	}
	d.ev.Time = t.steady(d.ev.Time)
	d.encode(t.cfg.BlobBytes)
	t.mu.Lock()
	seq := t.append(d)
	t.mu.Unlock()
	d.reset()
	t.pool.Put(d)
	return seq
}

// clean redacts what else of an event may come from outside.
func (t *Tape) clean(ev *trace.Event) {
	ev.Method = t.r.identifier(ev.Method)
	ev.RPCID = cleanID(trace.RPCID(t.r.identifier(string(ev.RPCID))))
	ev.SessionID = trace.SessionID(t.r.identifier(string(ev.SessionID)))
	ev.TurnID = trace.TurnID(t.r.identifier(string(ev.TurnID)))
	if ev.Frame != nil && ev.Frame.HTTP != nil {
		ev.Frame.HTTP = t.cleanHTTP(ev.Frame.HTTP)
	}
	if ev.Diagnostic != nil {
		d := *ev.Diagnostic
		d.Message = t.r.String(d.Message)
		ev.Diagnostic = &d
	}
}

// cleanHTTP returns h itself when, as it should be, there is nothing to redact.
func (t *Tape) cleanHTTP(h *trace.HTTPInfo) *trace.HTTPInfo {
	out := h
	if u := t.r.Endpoint(h.URL); u != h.URL {
		c := *h
		c.URL, out = u, &c
	}
	for i, f := range h.Header {
		v := t.r.Header(f.Name, f.Value)
		if v == f.Value {
			continue
		}
		if &out.Header[0] == &h.Header[0] {
			c := *out
			c.Header, out = append([]trace.HTTPHeader(nil), h.Header...), &c
		}
		out.Header[i].Value = v
	}
	return out
}

// cleanID drops an id that is no JSON scalar: it would break the encoding of the event.
func cleanID(id trace.RPCID) trace.RPCID {
	for i := range len(id) {
		if c := id[i]; c < '0' || c > '9' {
			if json.Valid([]byte(id)) && !bytes.ContainsAny([]byte(id), "\r\n") {
				return id
			}
			return ""
		}
	}
	return id
}

// cleanJSON returns payload as one line of JSON: compacted when it has line ends, as a JSON string when it is no JSON.
func cleanJSON(payload []byte) []byte {
	if !json.Valid(payload) {
		return trace.AppendString(nil, string(payload))
	}
	if !bytes.ContainsAny(payload, "\r\n") {
		return payload
	}
	var b bytes.Buffer
	_ = json.Compact(&b, payload) // valid: cannot fail
	return b.Bytes()
}

// append gives the draft its sequence and offset and hands it to the sink, under the lock.
func (t *Tape) append(d *draft) int64 {
	if t.finished {
		t.dropped++
		return -1
	}
	if d.frame.OutOfLine {
		if err := t.sink.PutBlob(d.frame.SHA256, d.frame.Bytes); err != nil {
			t.fail(err)
			d.frame.OutOfLine = false // the sink may still take the event with the bytes in it
			d.encode(0)
		}
	}
	seq, offset := t.seq, t.offsetOf(d.ev.Time)
	if err := t.sink.AppendEvent(seq, d.ev.Kind, d.finish(seq, offset)); err != nil {
		t.fail(err)
		return -1
	}
	t.seq++
	t.wake()
	t.offset = offset
	t.originals.put(seq, d.original)
	t.recent[seq%int64(len(t.recent))] = place{seq, d.ev.Phase, d.ev.SessionID, d.ev.TurnID, d.ev.Server, d.ev.ConnectionID}
	return seq
}

// steady is a time of our own clock as it would be had nobody set that since the execution began: the start and what has passed since. So a step of
// the machine's clock moves no event. A time without monotonic reading comes from elsewhere and stays as it is.
func (t *Tape) steady(at time.Time) time.Time {
	if at.Round(0) == at || t.start.Round(0) == t.start {
		return at
	}
	return t.start.Add(at.Sub(t.start))
}

// offsetOf returns the offset of an event at that time: never less than the one before, and, for a time without monotonic
// reading, which may come from another clock, not after now.
func (t *Tape) offsetOf(at time.Time) time.Duration {
	offset := at.Sub(t.start)
	if at.Round(0) == at {
		offset = min(offset, t.cfg.Now().Sub(t.start))
	}
	return max(offset, t.offset)
}

// fail notes a failure of the sink, under the lock.
func (t *Tape) fail(err error) {
	if t.err != nil {
		return
	}
	t.err = err
	t.limit("persistence_failed", "the store failed: "+t.r.String(err.Error()))
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// wake tells who waits that something has been recorded, under the lock.
func (t *Tape) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Changed returns a channel that is closed when the next event has been recorded; a closed one after Finish.
func (t *Tape) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished {
		return closedChannel
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// Err returns the first error of the sink.
func (t *Tape) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Dropped is the number of events that came after Finish.
func (t *Tape) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// Limit adds a limitation: the trace is partial, and the message says why. The first message of each code stands. After
// Finish it does nothing.
func (t *Tape) Limit(code, message string) {
	message = t.r.String(message)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit(code, message)
}

func (t *Tape) limit(code, message string) {
	for _, l := range t.limits {
		if l.Code == code {
			return
		}
	}
	t.limits = append(t.limits, trace.Limitation{Code: code, Message: message})
}

// Finish records what stderr held back, the number of findings that were too many, and, last, execution.finished with f and
// the limitations collected so far. It returns the first error of the sink. Only the first call counts.
func (t *Tape) Finish(f trace.Finished) error {
	t.stderrEndAll()
	t.findRest()
	for _, l := range f.Limitations {
		t.Limit(l.Code, l.Message)
	}
	if f.Error != nil {
		f.Error, _ = t.r.Bytes(cleanJSON(f.Error))
	}
	d := t.pool.Get().(*draft)
	d.set(&trace.Event{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Source: ownSource})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished {
		return t.err
	}
	f.Limitations = t.limits
	d.ev.Time = t.start.Add(t.offsetOf(t.cfg.Now())) // never before the start, whatever the clock says
	d.ev.Payload, _ = json.Marshal(f)                // strings and clean JSON: cannot fail
	d.encode(t.cfg.BlobBytes)
	t.append(d)
	t.finished = true
	t.wake() // also when the last event could not be recorded
	return t.err
}

// ownSource is the provenance of events that m3 makes up itself.
var ownSource = trace.Source{Origin: trace.OriginDerived, Source: "m3"}
