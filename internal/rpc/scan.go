package rpc

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// syntaxError says where JSON text stops being JSON.
type syntaxError struct {
	offset int
	what   string
	// incomplete says that the text is a beginning of JSON and only its end is missing.
	incomplete bool
}

func (e *syntaxError) Error() string {
	if e.incomplete {
		return fmt.Sprintf("it ends too early, after %d bytes", e.offset)
	}
	return fmt.Sprintf("%s at byte %d", e.what, e.offset)
}

// scanner validates JSON text in one pass, without decoding and without recursion: its memory grows by one bit for each
// level of nesting. It accepts exactly the grammar of RFC 8259; that the text is UTF-8 is checked elsewhere.
type scanner struct {
	b []byte
	i int
	// rawBreaks allows line breaks inside strings, to recognise a message that was broken over lines there.
	rawBreaks bool

	kinds []uint64 // one bit a level: 1 for an object
	depth int
	deep  int // the deepest level so far
	err   syntaxError
}

func (s *scanner) fail(what string) *syntaxError {
	s.err = syntaxError{offset: s.i, what: what, incomplete: s.i >= len(s.b)}
	return &s.err
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) push(object bool) {
	w, bit := s.depth>>6, uint64(1)<<(s.depth&63)
	if w == len(s.kinds) {
		s.kinds = append(s.kinds, 0)
	}
	if object {
		s.kinds[w] |= bit
	} else {
		s.kinds[w] &^= bit
	}
	s.depth++
	s.deep = max(s.deep, s.depth)
}

func (s *scanner) inObject() bool {
	d := s.depth - 1
	return s.kinds[d>>6]&(1<<(d&63)) != 0
}

// value moves past one value and the white space before it.
func (s *scanner) value() *syntaxError {
	base := s.depth
	for {
		opened, err := s.begin()
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		more, err := s.closeTo(base)
		if err != nil || !more {
			return err
		}
	}
}

// begin reads a scalar, an empty object or array, or the beginning of one that has members: then opened is true, and its
// first value comes next.
func (s *scanner) begin() (opened bool, err *syntaxError) {
	s.space()
	if s.i >= len(s.b) {
		return false, s.fail("")
	}
	switch c := s.b[s.i]; c {
	case '"':
		return false, s.str()
	case '{', '[':
		s.i++
		s.space()
		if s.i < len(s.b) && s.b[s.i] == c+2 { // } and ] are each two after their opening
			s.i++
			s.deep = max(s.deep, s.depth+1)
			return false, nil
		}
		s.push(c == '{')
		if c == '{' {
			err = s.key()
		}
		return true, err
	case 't':
		return false, s.word("true")
	case 'f':
		return false, s.word("false")
	case 'n':
		return false, s.word("null")
	}
	return false, s.number()
}

// closeTo closes what ends here, down to base. more says that another value follows.
func (s *scanner) closeTo(base int) (more bool, err *syntaxError) {
	for s.depth > base {
		s.space()
		if s.i >= len(s.b) {
			return false, s.fail("")
		}
		object := s.inObject()
		switch c := s.b[s.i]; {
		case c == ',':
			s.i++
			if object {
				err = s.key()
			}
			return true, err
		case c == '}' && object, c == ']' && !object:
			s.i++
			s.depth--
		default:
			return false, s.fail("a comma or the end of an object or array is missing")
		}
	}
	return false, nil
}

// key moves past a member's name and its colon.
func (s *scanner) key() *syntaxError {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.fail("a member's name is missing")
	}
	if err := s.str(); err != nil {
		return err
	}
	return s.colon()
}

func (s *scanner) colon() *syntaxError {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ':' {
		return s.fail("a colon is missing")
	}
	s.i++
	return nil
}

func (s *scanner) word(w string) *syntaxError {
	for j := range len(w) {
		if s.i >= len(s.b) || s.b[s.i] != w[j] {
			return s.fail("no JSON value")
		}
		s.i++
	}
	return nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of x that end a run of plain string bytes: quotes, backslashes and control characters. The lowest mark is
// exact; those above it may be false.
func special(x uint64) uint64 {
	q, b := x^(ones*'"'), x^(ones*'\\')
	return ((q-ones)&^q | (b-ones)&^b | (x-ones*0x20)&^x) & highs
}

// str moves past a string.
func (s *scanner) str() *syntaxError {
	s.i++
	for {
		for s.i+8 <= len(s.b) {
			if m := special(binary.LittleEndian.Uint64(s.b[s.i:])); m != 0 {
				s.i += bits.TrailingZeros64(m) >> 3
				break
			}
			s.i += 8
		}
		if s.i >= len(s.b) {
			return s.fail("")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < 0x20 && !(s.rawBreaks && (c == '\n' || c == '\r')):
			return s.fail("a control character in a string")
		default:
			s.i++
		}
	}
}

func (s *scanner) escape() *syntaxError {
	s.i++
	if s.i >= len(s.b) {
		return s.fail("")
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
		s.i++
		for range 4 {
			if s.i >= len(s.b) || !isHex(s.b[s.i]) {
				return s.fail("a bad \\u escape")
			}
			s.i++
		}
		return nil
	}
	return s.fail("a bad escape")
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// number moves past a number; anything else that is no value fails here.
func (s *scanner) number() *syntaxError {
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail("no JSON value")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return s.fail("a bad number")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return s.fail("a bad number")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}
