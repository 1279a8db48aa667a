package evidence

import (
	"bytes"
	"encoding/json"
)

// keepJSON widens spans so that replacing them leaves JSON valid where it was: in the whole of b, or in one of its lines (a
// server-sent event, JSON Lines). A span that lies in one string needs nothing. One that touches a number, or structure, is
// widened to the smallest value around it, which becomes a string.
func keepJSON(b []byte, spans []span) []span {
	if len(outside(b, spans)) == 0 {
		return spans
	}
	if json.Valid(b) {
		return widen(b, 0, len(b), spans)
	}
	var out []span
	for i := 0; i < len(spans); {
		lo, hi := lineAround(b, spans[i].start)
		k := i
		for k < len(spans) && spans[k].start < hi {
			k++
		}
		k = max(k, i+1)
		line := spans[i:k]
		if line[len(line)-1].end <= hi && json.Valid(b[lo:hi]) {
			line = widen(b, lo, hi, line)
		}
		out = append(out, line...)
		i = k
	}
	return normalize(out)
}

// lineAround returns the line around i, without what a server-sent event puts before its data.
func lineAround(b []byte, i int) (lo, hi int) {
	lo = bytes.LastIndexByte(b[:i], '\n') + 1
	hi = lineEnd(b, i)
	if bytes.HasPrefix(b[lo:hi], []byte("data:")) {
		lo += len("data:")
	}
	return lo, max(lo, hi)
}

// outside returns the indexes of the spans that do not lie within one string of the JSON text b.
func outside(b []byte, spans []span) []int {
	var out []int
	at, in := 0, false
	for i, s := range spans {
		at, in, _ = quotesUntil(b, at, s.start, in)
		started := in
		var crossed bool
		at, in, crossed = quotesUntil(b, at, s.end, in)
		if !started || crossed {
			out = append(out, i)
		}
	}
	return out
}

// quotesUntil walks from at to end and keeps track of being in a string.
func quotesUntil(b []byte, at, end int, in bool) (int, bool, bool) {
	crossed := false
	for at < end {
		if !in {
			i := bytes.IndexByte(b[at:end], '"')
			if i < 0 {
				return end, in, crossed
			}
			at, in, crossed = at+i+1, true, true
			continue
		}
		switch b[at] {
		case '\\':
			at++
		case '"':
			in, crossed = false, true
		}
		at++
	}
	return at, in, crossed
}

// widener walks over valid JSON and widens the spans that lie outside of strings.
type widener struct {
	b    []byte
	bad  []span // still to be met
	pend []span // met, and not in a closed value yet
	done []span
	open []int
}

// widen does it for b[lo:hi], which is valid JSON and has all the spans.
func widen(b []byte, lo, hi int, spans []span) []span {
	rel := make([]span, len(spans))
	for i, s := range spans {
		rel[i] = span{start: s.start - lo, end: s.end - lo, quoted: s.quoted}
	}
	w := &widener{b: b[lo:hi]}
	bad := outside(w.b, rel)
	for _, i := range bad {
		w.bad = append(w.bad, rel[i])
	}
	if len(w.bad) == 0 {
		return spans
	}
	w.walk()
	if len(w.pend)+len(w.bad) > 0 { // they reach beyond the value itself
		text := bytes.TrimSpace(w.b)
		start := bytes.Index(w.b, text)
		all := span{start: start, end: start + len(text), quoted: true}
		for _, s := range append(w.pend, w.bad...) {
			all.start, all.end = min(all.start, s.start), max(all.end, s.end)
		}
		w.done = append(w.done, all)
	}
	rel = normalize(append(rel, w.done...))
	for i := range rel {
		rel[i].start += lo
		rel[i].end += lo
	}
	return rel
}

func (w *widener) walk() {
	for i := 0; i < len(w.b); {
		switch c := w.b[i]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			i++
		case '{', '[':
			w.open = append(w.open, i)
			i++
		case '}', ']':
			i++
			start := w.open[len(w.open)-1]
			w.open = w.open[:len(w.open)-1]
			w.close(start, i)
		case '"':
			i = skipString(w.b, i)
		default:
			start := i
			for i < len(w.b) && bytes.IndexByte([]byte(" \t\r\n,:{}[]\""), w.b[i]) < 0 {
				i++
			}
			w.close(start, i)
		}
	}
}

// close is called when the value b[start:end] has ended.
func (w *widener) close(start, end int) {
	for len(w.bad) > 0 && w.bad[0].start < end {
		w.pend = append(w.pend, w.bad[0])
		w.bad = w.bad[1:]
	}
	kept := len(w.pend)
	var cross []span
	for kept > 0 && w.pend[kept-1].start >= start {
		kept--
		if s := w.pend[kept]; s.end <= end {
			w.done = append(w.done, span{start: start, end: end, quoted: true})
		} else {
			cross = append(cross, s)
		}
	}
	w.pend = append(w.pend[:kept], cross...)
}

// skipString returns the position after the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(b))
}
