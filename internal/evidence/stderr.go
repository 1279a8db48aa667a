package evidence

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/m3-go/m3/trace"
)

// stderrPiece is how much of one line of stderr is held back, and how long a recorded piece of a longer line is; one that
// has to reach to the end of a secret value can be up to twice as long.
const stderrPiece = 64 << 10

// stderrOverlap is how much of a line that is too long is looked at together with what comes next, at least.
const stderrOverlap = 16 << 10

// stderrContext is how much of what was recorded of such a line is looked at again: a name may stand before its value.
const stderrContext = 1 << 10

// stderrEvent is what a recorded piece of stderr counts as, at least, against [TapeConfig].StderrBytes: an event costs about that
// much however little is in it, so that endless empty lines are bounded as well.
const stderrEvent = 512

// stderrLines holds lines that have not ended yet.
type stderrLines struct {
	mu   sync.Mutex
	held map[stderrKey]*stderrLine
}

type stderrKey struct {
	server string
	conn   trace.ConnectionID
}

// stderrLine is a line that has not ended. Its own mutex keeps pieces in order.
type stderrLine struct {
	mu   sync.Mutex
	held []byte
	done int // so much of it has been recorded, and is only there as context
	// secret says that the line was cut within a secret value: nobody knows where it ends, so the rest is not kept.
	secret bool
	flood  flood
}

// flood is what was not kept of the stderr of one connection.
type flood struct {
	cost  int64 // of what was recorded
	last  int64 // the event recorded last; meaningful when cost is not 0
	over  bool  // the bound is reached: nothing more is kept
	bytes int64 // not kept
	lines int64
	cut   bool // the last of these lines has no end yet
	told  bool
}

// drop counts bytes that are not kept.
func (f *flood) drop(b []byte) {
	if len(b) == 0 {
		return
	}
	f.bytes += int64(len(b))
	f.lines += int64(bytes.Count(b, []byte("\n")))
	f.cut = b[len(b)-1] != '\n'
}

// Stderr records a line of a process's stderr, or takes a piece of one that is longer: pieces without a line end are held
// back until the line ends, StderrEnd is called, or there are more than 64 KiB. Then pieces of 64 KiB are recorded,
// and cut so that a secret over the cut is found as well. When a connection has used up [TapeConfig].StderrBytes, what
// comes is counted only. The bytes are valid only during the call. Pieces of one connection have to come in order.
func (t *Tape) Stderr(server string, conn trace.ConnectionID, piece []byte) {
	key := stderrKey{server, conn}
	l := t.lines.get(key, true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(piece) > 0 {
		if l.flood.over {
			l.flood.drop(l.held[l.done:])
			l.flood.drop(piece)
			l.held, l.done = nil, 0
			return
		}
		n := bytes.IndexByte(piece, '\n') + 1
		if n == 0 || n > stderrPiece {
			n = min(len(piece), stderrPiece)
		}
		l.held = append(l.held, piece[:n]...)
		piece = piece[n:]
		t.recordReady(key, l)
	}
}

// recordReady records what needs not be held back.
func (t *Tape) recordReady(key stderrKey, l *stderrLine) {
	ended := l.held[len(l.held)-1] == '\n'
	for fresh := len(l.held) - l.done; fresh > stderrPiece && ended || fresh > stderrPiece+t.r.reach(); fresh = len(l.held) - l.done {
		t.recordCut(key, l)
	}
	if ended {
		t.recordRest(key, l)
	}
}

// recordRest records all of the line that is left.
func (t *Tape) recordRest(key stderrKey, l *stderrLine) {
	if wire := l.held[l.done:]; len(wire) > 0 {
		spans := []span{{start: 0, end: len(bytes.TrimRight(wire, "\r\n"))}}
		if !l.secret {
			spans = l.spans(t.r)
		} else if spans[0].end == 0 {
			spans = nil
		}
		t.recordPiece(key, l, wire, spans)
	}
	l.held, l.done, l.secret = l.held[:0], 0, false
	if cap(l.held) > stderrOverlap {
		l.held = nil
	}
}

// StderrEnd records what was held back of the last line of a process's stderr, and, as the finding stderr-flood, how much was not
// kept: there will be no more. Recording that
// connection's process.exited calls it, and Finish does for all.
func (t *Tape) StderrEnd(server string, conn trace.ConnectionID) {
	key := stderrKey{server, conn}
	l := t.lines.get(key, false)
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.held)-l.done > stderrPiece {
		t.recordCut(key, l)
	}
	t.recordRest(key, l)
	t.tellFlood(key, &l.flood)
}

func (t *Tape) stderrEndAll() {
	t.lines.mu.Lock()
	keys := slices.Collect(maps.Keys(t.lines.held))
	t.lines.mu.Unlock()
	slices.SortFunc(keys, func(a, b stderrKey) int {
		return bytes.Compare([]byte(a.server+"\x00"+string(a.conn)), []byte(b.server+"\x00"+string(b.conn)))
	})
	for _, k := range keys {
		t.StderrEnd(k.server, k.conn)
	}
}

func (s *stderrLines) get(key stderrKey, create bool) *stderrLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.held[key]
	if l == nil && create {
		if s.held == nil {
			s.held = map[stderrKey]*stderrLine{}
		}
		l = &stderrLine{}
		s.held[key] = l
	}
	return l
}

// recordCut records the first piece of a line that is too long, all of which is in l.held so far. What a rule finds in it
// is found with stderrContext bytes before it and at least stderrOverlap bytes after it in view.
func (t *Tape) recordCut(key stderrKey, l *stderrLine) {
	fresh := len(l.held) - l.done
	cut := l.done + min(stderrPiece, max(fresh-t.r.reach(), fresh/2))
	if l.secret {
		t.recordPiece(key, l, l.held[l.done:cut], []span{{start: 0, end: cut - l.done}})
		l.take(cut)
		return
	}
	spans := l.spans(t.r)
	n := 0
	for n < len(spans) && spans[n].start < cut-l.done {
		n++
	}
	if n > 0 {
		cut = max(cut, l.done+spans[n-1].end)
		l.secret = cut == len(l.held)
	}
	t.recordPiece(key, l, l.held[l.done:cut], spans[:n])
	l.take(cut)
}

// spans returns what is to be replaced in held[done:], in its own offsets.
func (l *stderrLine) spans(r *Redactor) []span {
	_, reds := r.Bytes(l.held)
	var out []span
	for _, d := range reds {
		s := span{start: int(d.OriginalOffset), end: int(d.OriginalOffset + d.OriginalLength), quoted: d.Length == int64(len(quotedMark))}
		if s.end > l.done {
			out = append(out, span{start: max(s.start, l.done) - l.done, end: s.end - l.done, quoted: s.quoted})
		}
	}
	return out
}

// take forgets the line up to n, which has been recorded, but for some context.
func (l *stderrLine) take(n int) {
	keep := max(0, n-stderrContext)
	l.held = l.held[:copy(l.held, l.held[keep:])]
	l.done = n - keep
}

// recordPiece records bytes of which is known what is to be replaced, unless they are over the bound. Pieces are kept whole or not at
// all: half of a secret would not be found.
func (t *Tape) recordPiece(key stderrKey, l *stderrLine, wire []byte, spans []span) {
	cost := max(int64(len(wire)), stderrEvent)
	if most := t.cfg.StderrBytes; l.flood.over || most >= 0 && l.flood.cost+cost > most {
		l.flood.over = true
		l.flood.drop(wire)
		return
	}
	l.flood.cost += cost
	if len(spans) == 0 {
		l.flood.last = t.recordStderr(key, wire, wire, nil)
		return
	}
	kept, reds := replace(wire, spans)
	l.flood.last = t.recordStderr(key, wire, kept, reds)
}

// tellFlood records, once, how much of a connection's stderr was not kept.
func (t *Tape) tellFlood(key stderrKey, f *flood) {
	if f.bytes == 0 || f.told {
		return
	}
	f.told = true
	at := place{seq: -1, phase: t.phase(), server: key.server, conn: key.conn}
	if f.cost > 0 {
		at.seq = f.last
	}
	lines := f.lines
	if f.cut {
		lines++
	}
	t.find(trace.Finding{
		Code: "stderr-flood", Severity: trace.SeverityWarning, Sequence: at.seq, Offset: -1,
		Message: fmt.Sprintf("the server wrote more to stderr than is kept: %d bytes (%d lines) were read and counted, but not kept", f.bytes, lines),
	}, at)
}

// recordStderr records bytes that are redacted already, and returns the event's sequence.
func (t *Tape) recordStderr(key stderrKey, wire, kept []byte, reds []trace.Redaction) int64 {
	d := t.pool.Get().(*draft)
	d.set(&trace.Event{
		Kind: trace.KindProcessStderr, Phase: t.phase(), Server: key.server, ConnectionID: key.conn,
		Source: trace.Source{Origin: trace.OriginWire, Source: "process"}, Redactions: reds,
		Frame: &trace.Frame{
			Direction: trace.ServerToClient, Framing: trace.FramingLine, Bytes: kept, WireSize: int64(len(wire)),
			Partial: !bytes.HasSuffix(wire, []byte("\n")),
		},
	})
	d.keepOriginal(wire)
	return t.put(d)
}

// phase is that of the last event.
func (t *Tape) phase() trace.Phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seq == 0 {
		return trace.PhaseStartup
	}
	return t.recent[(t.seq-1)%int64(len(t.recent))].phase
}

// reach is how much of a text has to be in view for a known value to be seen whole, in its longer spellings, too.
func (r *Redactor) reach() int {
	if m := r.matcher(); m != nil {
		return max(stderrOverlap, 6*m.longest)
	}
	return stderrOverlap
}
