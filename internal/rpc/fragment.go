package rpc

import (
	"bytes"

	"github.com/m3-go/m3/trace"
)

// fragment is what can be told of text that is not, or not whole, JSON.
type fragment struct {
	answer bool        // it has a result or an error, and no method
	id     trace.RPCID // of the answer; empty when it cannot be told
}

// fragmentOf looks for an answer's envelope in broken text: in the members before the break, and, of a frame that was over the cap, in
// its last bytes, because some servers write the id last.
func fragmentOf(b, tail []byte) fragment {
	m, ok := membersOf(b)
	if !ok || m.method != nil || !m.isAnswer() {
		return fragment{}
	}
	f := fragment{answer: true, id: trace.RPCID(m.id)}
	if f.id == "" {
		f.id = lastID(tail)
	}
	return f
}

// membersOf reads members of an object up to the first that is broken, of which only the name is noted.
func membersOf(b []byte) (m message, ok bool) {
	s := scanner{b: b, kinds: []uint64{1}}
	s.space()
	if s.i >= len(b) || b[s.i] != '{' {
		return m, false
	}
	s.depth = 1
	for {
		s.i++
		s.space()
		from := s.i
		if s.i >= len(b) || b[s.i] != '"' || s.str() != nil {
			return m, true
		}
		name := b[from+1 : s.i-1]
		if s.colon() != nil {
			return m, true
		}
		s.space()
		from = s.i
		if s.value() != nil || s.i >= len(b) { // a number at the end of the text may go on
			if string(name) != "id" {
				m.set(name, []byte("null"))
			}
			return m, true
		}
		m.set(name, b[from:s.i:s.i])
		s.space()
		if s.i >= len(b) || b[s.i] != ',' {
			return m, true
		}
	}
}

// lastID returns the id at the end of an envelope whose beginning is elsewhere: `…,"id":7}` or `…,"id":7,"jsonrpc":"2.0"}`.
func lastID(tail []byte) trace.RPCID {
	i := bytes.LastIndex(tail, []byte(`"id"`))
	if i < 0 {
		return ""
	}
	text := append([]byte{'{'}, bytes.TrimSpace(tail[i:])...)
	var r reader
	one, _, err := r.read(text, false)
	if err != nil || !one.object || one.id == nil {
		return ""
	}
	if k := kindOfID(one.id); k != idString && k != idInteger {
		return ""
	}
	return trace.RPCID(one.id)
}
