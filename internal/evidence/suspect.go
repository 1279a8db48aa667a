package evidence

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
)

// lookout is the fast answer to the common question: is there nothing in these bytes that is secret by its place? It goes
// over them once, eight at a time, looking at pairs of bytes that stand in words like "token". It is immutable.
type lookout struct {
	stems []string // lower case
	// pairs holds, for two neighbouring bytes (little endian), 1 + the index into anchors, or 0.
	pairs   [1 << 16]uint8
	anchors [][]anchor
	always  bool // a name of the user's has no part that is long enough to look for
}

// anchor says that a stem, if it is here, begins so many bytes before the pair.
type anchor struct{ stem, offset uint8 }

// builtinStems are what every rule's occurrence has in it, and which of the stem's pairs are the two neighbouring ones
// to look at: rare ones. One of two neighbours stands at an even position.
var builtinStems = []struct {
	text string
	pair int
}{
	{"token", 1}, {"secret", 2}, {"passw", 2}, {"cookie", 2}, {"credential", 7}, {"auth", 0}, {"key", 0},
	{"://", 0}, {`:\/`, 0}, {`:\\`, 0}, {`\u00`, 0},
}

var builtinLookout = sync.OnceValue(func() *lookout { return newLookout(nil) })

// lookoutFor returns the lookout for the built-in names and extra ones.
func lookoutFor(extra []string) *lookout {
	if len(extra) == 0 {
		return builtinLookout()
	}
	return newLookout(extra)
}

func newLookout(extra []string) *lookout {
	l := &lookout{anchors: make([][]anchor, 1)}
	for _, s := range builtinStems {
		l.add(s.text, s.pair)
	}
	for _, e := range extra {
		stem := longestPart(e)
		switch {
		case slices.Contains(l.stems, stem):
		case len(stem) < 3 || len(l.stems) == 255 || len(l.anchors) > 240:
			l.always = true
		default:
			l.add(stem, 0)
		}
	}
	return l
}

// longestPart returns the longest part of a name, in lower case.
func longestPart(name string) string {
	var p parts
	p.split([]byte(name))
	longest := ""
	for i := range p.k {
		if part := p.buf[p.from[i]:p.end(i)]; len(part) > len(longest) {
			longest = string(part)
		}
	}
	return longest
}

func (l *lookout) add(stem string, pair int) {
	id := uint8(len(l.stems))
	l.stems = append(l.stems, stem)
	for k := pair; k < pair+2 && k+1 < len(stem); k++ {
		for _, a := range cases(stem[k]) {
			for _, b := range cases(stem[k+1]) {
				l.addAnchor(uint16(a)|uint16(b)<<8, anchor{id, uint8(k)})
			}
		}
	}
}

func (l *lookout) addAnchor(pair uint16, a anchor) {
	if l.pairs[pair] == 0 {
		l.pairs[pair] = uint8(len(l.anchors))
		l.anchors = append(l.anchors, nil)
	}
	l.anchors[l.pairs[pair]] = append(l.anchors[l.pairs[pair]], a)
}

func cases(c byte) []byte {
	if 'a' <= c && c <= 'z' {
		return []byte{c, c - 0x20}
	}
	return []byte{c}
}

// suspicious reports whether b may hold something that is secret by its place. A no is certain.
func (l *lookout) suspicious(n *names, b []byte) bool {
	if l.always {
		return true
	}
	// Each stem that turns out to be nothing costs a look around it: where there are very many, the scanner is no slower.
	looks := 16 + len(b)/64
	i := 0
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		if l.pairs[uint16(v)]|l.pairs[uint16(v>>16)]|l.pairs[uint16(v>>32)]|l.pairs[uint16(v>>48)] == 0 {
			continue
		}
		for k := i; k < i+8; k += 2 {
			if l.at(n, b, k, &looks) {
				return true
			}
		}
	}
	for ; i+1 < len(b); i += 2 {
		if l.at(n, b, i, &looks) {
			return true
		}
	}
	return false
}

// at looks at the stems whose pair stands at i.
func (l *lookout) at(n *names, b []byte, i int, looks *int) bool {
	for _, a := range l.anchors[l.pairs[uint16(b[i])|uint16(b[i+1])<<8]] {
		from := i - int(a.offset)
		stem := l.stems[a.stem]
		if from < 0 || from+len(stem) > len(b) || !hasFold(b[from:], stem) {
			continue
		}
		if l.confirm(n, b, from, stem) {
			return true
		}
		if *looks--; *looks < 0 {
			return true
		}
	}
	return false
}

// hasFold reports whether b, which is long enough, begins with the lower-case stem in any case.
func hasFold(b []byte, stem string) bool {
	for i := range len(stem) {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != stem[i] {
			return false
		}
	}
	return true
}

// confirm takes a closer look at a stem.
func (l *lookout) confirm(n *names, b []byte, from int, stem string) bool {
	switch stem[0] {
	case ':':
		return urlSuspicious(b, from)
	case '\\':
		return asciiEscape(b[from:])
	}
	return n.nameAt(b, from, from+len(stem), stem)
}

// asciiEscape reports whether b, which begins with \u00, is an escape for a character that nobody needs to escape, and
// that a name or a quote can be hidden in. Encoders escape <, >, & and ' for HTML's sake.
func asciiEscape(b []byte) bool {
	v, ok := hexByte(b, 4)
	return ok && v >= 0x20 && v < 0x7F && v != '<' && v != '>' && v != '&' && v != '\''
}

// hasASCIIEscape reports whether there is any such escape in b.
func hasASCIIEscape(b []byte) bool {
	for {
		i := bytes.Index(b, []byte(`\u00`))
		if i < 0 {
			return false
		}
		if asciiEscape(b[i:]) {
			return true
		}
		b = b[i+4:]
	}
}

// nameAt reports whether the stem b[from:to] stands in a sensitive name in front of something that looks like its value:
// a bare word before a colon or an equals sign, a quoted key with a colon, the name in a name/value pair.
func (n *names) nameAt(b []byte, from, to int, stem string) bool {
	start, end := bareName(b, to)
	if n.extra == nil && to < len(b) && classOf(b[to]) == classLower && b[start]|0x20 != 'x' {
		switch {
		case stem == "passw", stem == "credential":
		case stem == "auth" && from+len("authorization") <= len(b) && hasFold(b[from:], "authorization"):
		default:
			return false // tokens, keyboard, author
		}
	}
	if next := skipClosing(b, end); next < len(b) && (b[next] == ':' || b[next] == '=') && n.sensitive(b[start:end]) {
		return true
	}
	low := max(0, from-maxName)
	open := bytes.LastIndexByte(b[low:from], '"')
	if open < 0 && low > 0 {
		return false
	}
	start = low + open + 1 // the start of the text, when there is no quote before it
	pair := inPair(b[max(0, start-32):start])
	end = min(len(b), to+maxName)
	if quote := bytes.IndexAny(b[to:end], "\"\n"); quote >= 0 {
		end = to + quote
	}
	next := byte(0)
	if k := skipSpace(b, end+1, true); k < len(b) {
		next = b[k]
	}
	if next != ':' && next != ',' && !pair || !n.sensitive(b[start:end]) {
		return false
	}
	return next == ':' || pair || n.header(b[start:end])
}

// inPair reports whether the text before a string may end in "name": or "key":.
func inPair(before []byte) bool {
	for i := range before {
		if rest := before[i:]; len(rest) >= 4 && (hasFold(rest, "name") || hasFold(rest, "key")) {
			return true
		}
	}
	return false
}

// bareName returns the word that a stem which ends at to is part of.
func bareName(b []byte, to int) (start, end int) {
	for high := min(len(b), to+maxName); to < high && isNameByte(b[to]); {
		to++
	}
	return nameStart(b, to), to
}

func isNameByte(c byte) bool {
	return classOf(c) != classSeparator || c == '_' || c == '-' || c == '.'
}

// mayBe reports whether name may be sensitive. A no is certain.
func (l *lookout) mayBe(name []byte) bool {
	if l.always {
		return true
	}
	for i := 0; i+1 < len(name); i += 2 {
		if l.pairs[uint16(name[i])|uint16(name[i+1])<<8] != 0 {
			return true
		}
	}
	return bytes.IndexByte(name, '\\') >= 0
}
