package rpc

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"

	"github.com/m3-go/m3/trace"
)

// message is one JSON value taken apart as far as a JSON-RPC envelope goes. Its fields are parts of the text.
type message struct {
	raw                                           []byte
	jsonrpc, id, method, params, result, errorObj []byte // nil: absent
	object                                        bool
	twice                                         string // a member of the envelope that stands more than once; the last one counts
	deep                                          int    // levels of nesting
}

// reader takes messages apart. It is used again, so that the usual message costs no memory.
type reader struct {
	s     scanner
	one   message
	batch []message
}

// read takes the text apart. For an array with members batch has them, else it is nil and one is the value.
func (r *reader) read(b []byte, rawBreaks bool) (one *message, batch []message, err *syntaxError) {
	r.s = scanner{b: b, kinds: r.s.kinds[:0], rawBreaks: rawBreaks}
	s := &r.s
	s.space()
	if s.i < len(b) && b[s.i] == '[' {
		if batch, err = r.readBatch(); err != nil {
			return nil, nil, err
		}
	}
	if batch == nil {
		r.one = message{}
		if err := s.message(&r.one); err != nil {
			return nil, nil, err
		}
	}
	s.space()
	if s.i < len(b) {
		e := s.fail("something follows the value")
		return nil, nil, e
	}
	return &r.one, batch, nil
}

// readBatch reads the members of an array; of an empty array it reads nothing.
func (r *reader) readBatch() ([]message, *syntaxError) {
	s := &r.s
	start := s.i
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == ']' {
		s.i = start
		return nil, nil
	}
	r.batch = r.batch[:0]
	for {
		var m message
		if err := s.message(&m); err != nil {
			return nil, err
		}
		r.batch = append(r.batch, m)
		s.space()
		switch {
		case s.i < len(s.b) && s.b[s.i] == ',':
			s.i++
		case s.i < len(s.b) && s.b[s.i] == ']':
			s.i++
			return r.batch, nil
		default:
			return nil, s.fail("a comma or the end of the array is missing")
		}
	}
}

// message reads one value; of an object it notes the members of an envelope.
func (s *scanner) message(m *message) *syntaxError {
	s.space()
	start := s.i
	s.deep = 0
	var err *syntaxError
	if s.i < len(s.b) && s.b[s.i] == '{' {
		m.object = true
		err = s.envelope(m)
	} else {
		err = s.value()
	}
	if err != nil {
		return err
	}
	m.raw, m.deep = s.b[start:s.i:s.i], s.deep
	return nil
}

func (s *scanner) envelope(m *message) *syntaxError {
	s.i++
	s.depth, s.deep = 1, 1
	if len(s.kinds) == 0 {
		s.kinds = append(s.kinds, 0)
	}
	s.kinds[0] |= 1
	s.space()
	if s.i < len(s.b) && s.b[s.i] == '}' {
		s.i++
		s.depth = 0
		return nil
	}
	for {
		if err := s.member(m); err != nil {
			return err
		}
		s.space()
		switch {
		case s.i < len(s.b) && s.b[s.i] == ',':
			s.i++
		case s.i < len(s.b) && s.b[s.i] == '}':
			s.i++
			s.depth = 0
			return nil
		default:
			return s.fail("a comma or the end of the object is missing")
		}
	}
}

func (s *scanner) member(m *message) *syntaxError {
	s.space()
	from := s.i
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.fail("a member's name is missing")
	}
	if err := s.str(); err != nil {
		return err
	}
	name := s.b[from+1 : s.i-1]
	if err := s.colon(); err != nil {
		return err
	}
	s.space()
	from = s.i
	if err := s.value(); err != nil {
		return err
	}
	m.set(name, s.b[from:s.i:s.i])
	return nil
}

// set notes a member of the envelope. Names count as they are meant, escapes undone, and by exact case.
func (m *message) set(name, value []byte) {
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(quoted(name)))
	}
	var field *[]byte
	switch string(name) {
	case "jsonrpc":
		field = &m.jsonrpc
	case "id":
		field = &m.id
	case "method":
		field = &m.method
	case "params":
		field = &m.params
	case "result":
		field = &m.result
	case "error":
		field = &m.errorObj
	default:
		return
	}
	if *field != nil {
		m.twice = string(name)
	}
	*field = value
}

func quoted(inside []byte) []byte { return append(append([]byte{'"'}, inside...), '"') }

// unquote returns the value of a valid JSON string, or the text itself when it is none.
func unquote(s []byte) string {
	if len(s) >= 2 && s[0] == '"' && bytes.IndexByte(s, '\\') < 0 {
		return string(s[1 : len(s)-1])
	}
	var v string
	if json.Unmarshal(s, &v) != nil {
		return string(s)
	}
	return v
}

// isMessage reports whether the value is a JSON-RPC message in intent: something that no log line has by chance.
func (m *message) isMessage() bool {
	switch {
	case !m.object:
		return false
	case m.jsonrpc != nil:
		return m.method != nil || m.isAnswer() || m.id != nil
	}
	return m.id != nil && (m.method != nil || m.isAnswer()) || bytes.HasPrefix(m.method, []byte(`"notifications/`))
}

func (m *message) isAnswer() bool { return m.result != nil || m.errorObj != nil }

// idKind is the JSON type of an id.
type idKind uint8

const (
	idAbsent idKind = iota
	idString
	idInteger
	idNull
	idOther // a fraction, a boolean, an array or an object: MCP allows none of them
)

func kindOfID(id []byte) idKind {
	switch {
	case id == nil:
		return idAbsent
	case id[0] == '"':
		return idString
	case id[0] == 'n':
		return idNull
	case id[0] == '-' || '0' <= id[0] && id[0] <= '9':
		if _, ok := integer(id); ok {
			return idInteger
		}
	}
	return idOther
}

// integer returns the plain decimal text of a JSON number that is a whole one, however it is written: 1.0 and 1e0 are 1.
func integer(id []byte) (string, bool) {
	if !bytes.ContainsAny(id, ".eE") {
		if string(id) == "-0" {
			return "0", true
		}
		return string(id), true
	}
	if len(id) > 64 || exponent(id) > 400 {
		return "", false
	}
	r, ok := new(big.Rat).SetString(string(id))
	if !ok || !r.IsInt() {
		return "", false
	}
	return r.Num().String(), true
}

// exponent is the size of a number's exponent.
func exponent(id []byte) int {
	i := bytes.IndexAny(id, "eE")
	if i < 0 {
		return 0
	}
	n, err := strconv.Atoi(string(id[i+1:]))
	if err != nil {
		return 1 << 30
	}
	return max(n, -n)
}

// sameValue returns an id as m3 itself would write it: 1 for 1.0, "a" for "\u0061".
func sameValue(id []byte) trace.RPCID {
	switch kindOfID(id) {
	case idInteger:
		n, _ := integer(id)
		return trace.RPCID(n)
	case idString:
		b, _ := json.Marshal(unquote(id)) // a string cannot fail
		return trace.RPCID(b)
	}
	return trace.RPCID(id)
}

// otherType returns the id that a client which is careless about types would take for this one: "1" for 1 and 1 for "1".
func otherType(id []byte) trace.RPCID {
	switch kindOfID(id) {
	case idInteger:
		n, _ := integer(id)
		return trace.RPCID(strconv.Quote(n))
	case idString:
		text := unquote(id)
		if n := []byte(text); len(n) > 0 && json.Valid(n) && kindOfID(n) == idInteger {
			i, _ := integer(n)
			return trace.RPCID(i)
		}
	}
	return ""
}
