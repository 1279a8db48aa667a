package evidence

import (
	"bytes"
	"slices"
)

// maxLevel is how deep JSON text in JSON strings is followed by the scanner.
const maxLevel = 6

// maxOpen bounds how many open objects and arrays are remembered.
const maxOpen = 4096

// scanner finds what is secret by its place, in any bytes: whole JSON, broken or cut JSON, JSON within JSON strings, log
// lines. It does not decode. A quote tells by the backslashes before it how deep it is nested: a string of the text itself
// has none, one of a JSON text inside a string has one, then three, then seven; an even number of backslashes before
// these is content. So one pass sees all layers, and what is broken in one place does not matter in the next.
type scanner struct {
	names *names
	look  *lookout
	b     []byte
	text  bool // the bytes are not JSON from their start on: bare words before : and = count as names

	found   []found
	stack   []container
	level   int               // how many layers of strings are open
	open    [maxLevel + 1]int // where the content of each of them begins
	prev    int               // just after the last quote
	pending pendingValue
}

// found is a span. Depth is that of the object of which it is a member under a sensitive key, else 0.
type found struct {
	span
	depth int
}

// container is an open object or array.
type container struct {
	kind   byte // { or [
	level  int
	first  int // len(found) when it was opened
	role   role
	flags  flags
	secret bool // its key is sensitive
	value  span // the string under "value" of a name/value pair whose name has not come yet
}

// pendingValue is what the key before an object or array said about it.
type pendingValue struct {
	at     int
	role   role
	secret bool
}

// run returns the spans of b. They are valid until the next run.
func (s *scanner) run(n *names, l *lookout, b []byte) []found {
	s.names, s.look, s.b, s.text = n, l, b, !looksJSON(b)
	s.found, s.stack, s.level, s.prev, s.pending = s.found[:0], s.stack[:0], 0, 0, pendingValue{at: -1}
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = s.quote(i, 0)
		case '\\':
			run := backslashes(b, i)
			if i+run < len(b) && b[i+run] == '"' {
				i = s.quote(i, run)
			} else {
				i += run
			}
		case '{', '[':
			s.push(i)
			i++
		case '}', ']':
			s.pop()
			i++
		case ':':
			i = s.colon(i)
		case '=':
			i = s.assign(i)
		case '\n':
			s.newline()
			i++
		default:
			i++
		}
	}
	s.closeAll(0)
	s.b = nil
	return s.found
}

// release lets go of large memory.
func (s *scanner) release() {
	if cap(s.found) > maxOpen {
		s.found = nil
	}
}

func backslashes(b []byte, i int) int {
	n := 0
	for i+n < len(b) && b[i+n] == '\\' {
		n++
	}
	return n
}

// levelOf tells from the backslashes before a quote how deep it is nested: the number of ones at the end of the number.
func levelOf(run int) int {
	level := 0
	for run&1 == 1 && level < maxLevel {
		level++
		run >>= 1
	}
	return level
}

// own is how many of the backslashes before a quote belong to it.
func own(level int) int { return 1<<level - 1 }

// quote handles the quote after run backslashes at i, and returns where to go on.
func (s *scanner) quote(i, run int) int {
	level, next := levelOf(run), i+run+1
	if level < s.level {
		start := s.open[level]
		s.closeLayers(level)
		s.prev = next
		return s.token(start, next-1-own(level), next, level)
	}
	start := s.prev
	for k := s.level; k <= level; k++ {
		s.open[k] = next
	}
	s.prev = next
	if s.flipped(start, next-1-own(level), next, level) {
		s.closeLayers(level)
		return s.token(start, next-1-own(level), next, level)
	}
	s.level = level + 1
	return next
}

// flipped reports whether the quote that should open a string closes one: a quote is missing before it, and the text
// since the last one is a sensitive key.
func (s *scanner) flipped(start, end, next, level int) bool {
	k := skipSpace(s.b, next, level > 0)
	if k >= len(s.b) || s.b[k] != ':' || end <= start || end-start > maxName {
		return false
	}
	for _, c := range s.b[start:end] {
		if !isNameByte(c) {
			return false
		}
	}
	return s.sensitive(s.b[start:end])
}

// sensitive reports whether name is one of a secret. A text with a quote in it is no name.
func (s *scanner) sensitive(name []byte) bool {
	return len(name) <= 6*maxName && s.look.mayBe(name) && bytes.IndexByte(name, '"') < 0 && s.names.sensitive(name)
}

// token handles a string that has just ended.
func (s *scanner) token(start, end, next, level int) int {
	k := skipSpace(s.b, next, level > 0)
	if k >= len(s.b) {
		s.element(start, end, level)
		return next
	}
	switch s.b[k] {
	case ':':
		return s.key(start, end, k+1, level)
	case ',':
		if name := s.b[start:end]; len(name) >= 6 && len(name) <= maxName && s.look.mayBe(name) && s.names.header(name) {
			s.headerPair(k+1, level)
		}
	}
	s.element(start, end, level)
	return next
}

// element handles a string that is no key: in the list under a sensitive key it is secret.
func (s *scanner) element(start, end, level int) {
	if c := s.top(level); c != nil && c.kind == '[' && c.secret {
		s.add(start, end)
	}
}

// headerPair handles a list of two strings of which the first is the name of a header.
func (s *scanner) headerPair(at, level int) {
	start, ok := s.opening(skipSpace(s.b, at, level > 0), level)
	if !ok {
		return
	}
	end, next := s.stringEnd(start, level)
	k := skipSpace(s.b, next, level > 0)
	if k >= len(s.b) || s.b[k] == ']' || s.b[k] == ')' {
		s.add(start, end)
	}
}

// key handles the value after a key and its colon.
func (s *scanner) key(start, end, after, level int) int {
	name := s.b[start:end]
	secret, role := s.sensitive(name), roleOf(name)
	v := skipSpace(s.b, after, level > 0)
	if v >= len(s.b) {
		return v
	}
	if from, ok := s.opening(v, level); ok {
		return s.stringValue(role, secret, v, from, level)
	}
	s.noteMember(role, s.b[v], nil, level)
	if s.b[v] == '{' || s.b[v] == '[' {
		s.pending = pendingValue{v, role, secret}
	}
	return v
}

// stringValue handles a string under a key. It returns v, where the string's quote stands, when the scanner shall look
// into it.
func (s *scanner) stringValue(role role, secret bool, v, from, level int) int {
	c := s.top(level)
	if c != nil && c.role == roleProperties {
		c.flags |= hasStrings
	}
	if !secret && role == 0 {
		return v
	}
	to, next := s.stringEnd(from, level)
	s.noteMember(role, '"', s.b[from:to], level)
	if c != nil && c.kind == '{' {
		switch role {
		case roleName:
			if s.sensitive(s.b[from:to]) {
				c.flags |= secretName
				s.add(c.value.start, c.value.end)
			}
		case roleValue:
			secret = secret || c.flags&secretName != 0
			c.value = span{start: from, end: to}
		}
	}
	if !secret {
		return v
	}
	n := len(s.found)
	s.add(from, to)
	if len(s.found) > n {
		s.found[n].depth = len(s.stack)
	}
	s.closeLayers(level)
	s.prev = next
	return next
}

// add notes a span, unless there is nothing in it or it has been dealt with before.
func (s *scanner) add(start, end int) {
	if end <= start || string(s.b[start:end]) == mark {
		return
	}
	s.found = append(s.found, found{span: span{start: start, end: end}})
}

// opening reports whether a string of the given level begins at i, and where its content begins.
func (s *scanner) opening(i, level int) (int, bool) {
	q := i + own(level)
	if q >= len(s.b) || s.b[q] != '"' || backslashes(s.b[:q], i) != own(level) {
		return 0, false
	}
	return q + 1, true
}

// stringEnd returns where the content of a string ends that begins at from, and where to go on after it. A string that
// is not closed ends with its line.
func (s *scanner) stringEnd(from, level int) (end, next int) {
	for at := from; ; {
		i := bytes.IndexByte(s.b[at:], '"')
		if i < 0 {
			i = len(s.b) - at
		}
		if nl := bytes.IndexByte(s.b[at:at+i], '\n'); nl >= 0 {
			return at + len(bytes.TrimSuffix(s.b[at:at+nl], []byte("\r"))), at + nl
		}
		q := at + i
		if q == len(s.b) {
			return q, q
		}
		run := 0
		for q-run > from && s.b[q-run-1] == '\\' {
			run++
		}
		if l := levelOf(run); l <= level && !s.strayQuote(q) {
			return q - own(l), q + 1
		}
		at = q + 1
	}
}

// strayQuote reports whether the quote at q was meant to be escaped: text goes straight on after it, up to a quote on the
// same line that looks like an end. That cannot be in valid JSON.
func (s *scanner) strayQuote(q int) bool {
	if q+1 >= len(s.b) || classOf(s.b[q+1]) == classSeparator {
		return false
	}
	rest := s.b[q+1 : min(len(s.b), q+1+maxName)]
	i := bytes.IndexAny(rest, "\"\n,}]")
	return i >= 0 && rest[i] == '"' && (i+1 == len(rest) || bytes.IndexByte([]byte(",}] \r\n"), rest[i+1]) >= 0)
}

// newline ends strings: JSON's have none in them. In text it ends everything.
func (s *scanner) newline() {
	if s.level > 0 {
		s.closeLayers(0)
	}
	if s.text {
		s.closeAll(0)
	}
}

// closeLayers leaves the strings of this level and deeper ones, with all that was open in them.
func (s *scanner) closeLayers(level int) {
	s.level = level
	n := len(s.stack)
	for n > 0 && s.stack[n-1].level > level {
		n--
	}
	s.closeAll(n)
}

func (s *scanner) push(i int) {
	if len(s.stack) >= maxOpen {
		return
	}
	c := container{kind: s.b[i], level: s.level, first: len(s.found)}
	if s.pending.at == i {
		c.role, c.secret = s.pending.role, s.pending.secret
	}
	s.stack = append(s.stack, c)
}

func (s *scanner) pop() {
	if n := len(s.stack); n > 0 && s.stack[n-1].level == s.level {
		s.closeAll(n - 1)
	}
}

// closeAll closes the innermost containers until n are left. In a JSON Schema nothing is secret, but for a string under a
// sensitive key beside its keywords: that is none of them.
func (s *scanner) closeAll(n int) {
	for len(s.stack) > n {
		last := len(s.stack) - 1
		c := s.stack[last]
		s.stack = s.stack[:last]
		switch {
		case c.isSchema():
			kept := slices.DeleteFunc(s.found[c.first:], func(f found) bool { return f.depth != last+1 })
			s.found = s.found[:c.first+len(kept)]
		case c.role == roleProperties && c.flags&hasStrings != 0 && last > 0:
			s.stack[last-1].flags |= noSchema
		}
	}
}

// top returns the innermost container when it is of this level.
func (s *scanner) top(level int) *container {
	if n := len(s.stack); n > 0 && s.stack[n-1].level == level {
		return &s.stack[n-1]
	}
	return nil
}

// skipSpace skips white space; with escaped, also \n and the like, as they stand in a JSON string.
func skipSpace(b []byte, i int, escaped bool) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '\\':
			run := backslashes(b, i)
			if !escaped || i+run >= len(b) || b[i+run] != 'n' && b[i+run] != 't' && b[i+run] != 'r' {
				return i
			}
			i += run + 1
		default:
			return i
		}
	}
	return i
}

// looksJSON reports whether b starts like a JSON text, or like a server-sent event whose data do.
func looksJSON(b []byte) bool {
	for len(b) > 0 {
		b = bytes.TrimLeft(b, " \t\r\n\xef\xbb\xbf")
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		switch {
		case bytes.HasPrefix(b, []byte("data:")):
			b = b[len("data:"):]
		case bytes.HasPrefix(line, []byte("event:")), bytes.HasPrefix(line, []byte("id:")), bytes.HasPrefix(line, []byte("retry:")), bytes.HasPrefix(line, []byte(":")):
			b = rest
		default:
			return startsJSON(b)
		}
	}
	return false
}

func startsJSON(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	rest := bytes.TrimLeft(b[1:], " \t\r\n")
	switch b[0] {
	case '"':
		return true
	case '{':
		return len(rest) == 0 || rest[0] == '"' || rest[0] == '}'
	case '[':
		return len(rest) == 0 || rest[0] == '"' || rest[0] == '{' || rest[0] == '[' || rest[0] == ']'
	}
	return false
}
