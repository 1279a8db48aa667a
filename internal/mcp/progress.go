package mcp

import (
	"context"
	"strconv"
	"sync"

	"github.com/m3-go/m3/trace"
)

// Progress is one progress notification of a call.
type Progress struct {
	Progress float64
	Total    *float64 // nil when the server did not say
	Message  string
	// Raw is the notification's params as they stood on the wire.
	Raw trace.JSON
	// Sequence is the event that holds the frame.
	Sequence int64
}

// progress routes progress notifications to the calls that asked for them.
type progress struct {
	mu     sync.Mutex
	issued int64
	live   map[trace.RPCID]*reporter
}

// open registers a callback, which may be nil, under the caller's token or, when that is empty, under a new one.
func (p *progress) open(token trace.RPCID, fn func(Progress)) (trace.RPCID, *reporter) {
	r := &reporter{fn: fn}
	p.mu.Lock()
	defer p.mu.Unlock()
	if token == "" {
		p.issued++
		token = trace.RPCID(strconv.FormatInt(p.issued, 10))
	}
	if p.live == nil {
		p.live = map[trace.RPCID]*reporter{}
	}
	p.live[sameToken(token)] = r
	return token, r
}

// sameToken writes a string token without needless escapes, so that a server may send it back with others.
func sameToken(token trace.RPCID) trace.RPCID {
	if len(token) == 0 || token[0] != '"' {
		return token
	}
	return trace.RPCID(trace.AppendString(nil, text([]byte(token))))
}

func (p *progress) close(token trace.RPCID, r *reporter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token = sameToken(token); p.live[token] == r {
		delete(p.live, token)
	}
}

// find returns the call that a token belongs to, and whether the token was once issued.
func (p *progress) find(token trace.RPCID) (r *reporter, issued bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := strconv.ParseInt(string(token), 10, 64)
	return p.live[sameToken(token)], err == nil && 0 < n && n <= p.issued
}

// reporter hands progress to a callback, in order, on a goroutine of its own: the reader must not wait for a test's code, which may well make
// the next call from inside the callback.
type reporter struct {
	fn func(Progress)

	// What the reader knows of the values so far.
	last  float64
	begun bool
	stuck bool // a value was not greater than the one before, and that has been told

	mu    sync.Mutex
	queue []Progress
	idle  chan struct{} // closed when the goroutine has ended; nil when there is none
}

func (r *reporter) put(p Progress) {
	if r.fn == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, p)
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.run()
	}
}

func (r *reporter) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		p := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.fn(p)
		r.mu.Lock()
	}
	close(r.idle)
	r.idle = nil
}

// wait returns when the callback has seen everything, or ctx has ended.
func (r *reporter) wait(ctx context.Context) {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
		r.drop()
	}
}

// drop forgets what the callback has not seen yet: nobody waits any more.
func (r *reporter) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = nil
}

// report takes one progress notification. params are valid during the call only.
func (l *link) report(params []byte, sequence int64) {
	token := trace.RPCID(member(params, "progressToken"))
	r, issued := l.progress.find(token)
	if r == nil {
		l.find(unknownProgress(token, issued, sequence))
		return
	}
	p := Progress{Raw: append(trace.JSON(nil), params...), Sequence: sequence}
	p.Message, _ = textMember(params, "message")
	var known bool
	if p.Progress, known = numberMember(params, "progress"); !known {
		l.find(trace.Finding{Code: "progress-invalid", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseProgress,
			Message: "a progress notification has no number under progress"})
	} else if r.stalls(p.Progress) {
		l.find(trace.Finding{Code: "progress-not-increasing", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseProgress,
			Message: "progress " + number(p.Progress) + " came after " + number(r.last) + " under the token " + shorten(string(token)) + ": it must increase with each notification"})
	}
	r.note(p.Progress, known)
	if total, ok := numberMember(params, "total"); ok {
		p.Total = &total
	}
	r.put(p)
}

// stalls reports whether a value is not greater than the one before; once for a call. It is called by the reader alone, as note is.
func (r *reporter) stalls(v float64) bool {
	if !r.begun || r.stuck || v > r.last {
		return false
	}
	r.stuck = true
	return true
}

func (r *reporter) note(v float64, known bool) {
	if known {
		r.last, r.begun = v, true
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

const clauseProgress = "basic/utilities/progress"

func unknownProgress(token trace.RPCID, issued bool, sequence int64) trace.Finding {
	f := trace.Finding{Code: "unknown-progress-token", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseProgress,
		Message: "progress under the token " + shorten(string(token)) + ", which m3 never sent"}
	if token == "" {
		f.Message = "a progress notification has no progressToken"
	}
	if issued {
		f.Code, f.Message = "late-progress", "progress under the token "+shorten(string(token))+" after its call had ended"
	}
	return f
}

func numberMember(obj []byte, name string) (float64, bool) {
	n, err := strconv.ParseFloat(string(member(obj, name)), 64)
	return n, err == nil
}
