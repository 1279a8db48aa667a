package evidence

import "bytes"

// pieceSize is how much of a long text is decoded at once.
const pieceSize = 256 << 10

// scratch is memory that is used again.
type scratch struct {
	spans   []span
	decoded [maxNesting][3][]byte // by depth: JSON-unescaped, URL-decoded once and twice
	scan    scanner
}

// maxScratch is how much of one buffer is kept for the next use.
const maxScratch = 1 << 20

// trim lets go of what one very large frame needed.
func (s *scratch) trim() {
	for i := range s.decoded {
		for k := range s.decoded[i] {
			if cap(s.decoded[i][k]) > maxScratch {
				s.decoded[i][k] = nil
			}
		}
	}
	if cap(s.spans) > maxScratch/32 {
		s.spans = nil
	}
	s.scan.release()
}

// search appends all occurrences of known values in b to s.spans, in any of their forms.
func (m *matcher) search(s *scratch, b []byte) {
	base := len(s.spans)
	s.spans = m.find(s.spans, b)
	align(b, s.spans[base:], false)
	if !m.needsJSON(b) && !m.needsURL(b) {
		return
	}
	// A known value that is spelled out in escapes is at most so long: five layers of backslashes before each byte.
	overlap := 12 * m.longest
	size := max(pieceSize, 4*overlap)
	for from := 0; ; {
		to := len(b)
		if from+size < to {
			to = cut(b, from+size)
		}
		m.decodeAndFind(s, b[from:to], from, 0)
		if to == len(b) {
			return
		}
		from = cut(b, to-overlap)
	}
}

// cut returns a position at or a little before at which is not within an escape.
func cut(b []byte, at int) int {
	for i := at - 1; i > at-12 && i >= 0; i-- {
		if b[i] != '\\' && b[i] != '%' {
			continue
		}
		for i > 0 && at-i < pieceSize/4 && b[i-1] == '\\' {
			i--
		}
		return i
	}
	return at
}

// decodeAndFind looks for values in the decoded forms of b, which stands at offset in its own text.
func (m *matcher) decodeAndFind(s *scratch, b []byte, offset, depth int) {
	base := len(s.spans)
	if m.needsURL(b) {
		m.findURL(s, b, depth, 0)
	}
	if m.needsJSON(b) {
		buf := &s.decoded[depth][0]
		plain := jsonEscapes.decode((*buf)[:0], b)
		*buf = plain
		from := len(s.spans)
		s.spans = m.find(s.spans, plain)
		align(plain, s.spans[from:], true)
		if depth+1 < maxNesting {
			m.decodeAndFind(s, plain, 0, depth+1)
		}
		s.mapTail(from, jsonEscapes, b)
	}
	for i := base; i < len(s.spans); i++ {
		s.spans[i].start += offset
		s.spans[i].end += offset
	}
}

// findURL looks for values in the URL-decoded forms of b: with + as it is and with + for a space, decoded once and twice.
func (m *matcher) findURL(s *scratch, b []byte, depth, layer int) {
	m.findDecodedURL(s, b, depth, layer)
	if m.hasSpace && bytes.IndexByte(b, '+') >= 0 {
		m.findDecodedURL(s, bytes.ReplaceAll(b, []byte("+"), []byte(" ")), depth, layer) // which is as long as b
	}
}

func (m *matcher) findDecodedURL(s *scratch, b []byte, depth, layer int) {
	buf := &s.decoded[depth][1+layer]
	plain := urlEscapes.decode((*buf)[:0], b)
	*buf = plain
	from := len(s.spans)
	s.spans = m.find(s.spans, plain)
	if layer == 0 && m.needsURL(plain) {
		m.findURL(s, plain, depth, layer+1)
	}
	s.mapTail(from, urlEscapes, b)
}

// mapTail turns the spans from from on, which are of src's decoded form, into spans of src.
func (s *scratch) mapTail(from int, e escaping, src []byte) {
	tail := normalize(s.spans[from:])
	e.mapBack(src, tail)
	s.spans = s.spans[:from+len(tail)]
}

// rulesOut reports whether b certainly has no known value in it.
func (m *matcher) rulesOut(b []byte) bool {
	return m.candidate(b, 0) < 0 && !m.needsJSON(b) && !m.needsURL(b)
}

// needsJSON reports whether b holds a JSON escape that could be a part of a known value, or make up one of a deeper layer.
func (m *matcher) needsJSON(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return false
		}
		for i < len(b) && b[i] == '\\' {
			i++
		}
		if i == len(b) {
			return m.letters['\\'] && i > 1
		}
		if m.relevant(b[i-1:]) || m.letters['\\'] {
			return true
		}
		b = b[i:]
	}
}

// relevant looks at one escape.
func (m *matcher) relevant(src []byte) bool {
	var buf [4]byte
	width, n := jsonEscape(src, &buf)
	if width == 0 {
		return false
	}
	if n > 1 {
		return m.wide
	}
	return m.letters[buf[0]] || buf[0] == '\\' || buf[0] == '%'
}

// needsURL is the same for URL escapes.
func (m *matcher) needsURL(b []byte) bool {
	if m.hasSpace && bytes.IndexByte(b, '+') >= 0 {
		return true
	}
	for {
		i := bytes.IndexByte(b, '%')
		if i < 0 {
			return false
		}
		if v, ok := hexByte(b, i+1); ok && (m.letters[v] || v == '%') {
			return true
		}
		b = b[i+1:]
	}
}

// align widens spans that were found in b as it stands, so that none begins or ends within a JSON escape: what was
// valid JSON stays so. Backslashes before a span go with it. The spans are in order; they may overlap afterwards.
// Inner says that b is a decoded layer, in which a quote after a backslash may well be one of the layer outside.
func align(b []byte, spans []span, inner bool) {
	floor := 0
	for i := range spans {
		s := &spans[i]
		s.start = alignStart(b, floor, s.start)
		s.end = alignEnd(b, s.start, s.end, inner)
		floor = s.end
	}
}

func alignStart(b []byte, floor, at int) int {
	// within the digits of \uXXXX?
	for k, far := at-1, at-4; k > floor && k >= far; k-- {
		if b[k] == 'u' && b[k-1] == '\\' {
			at = k
			break
		}
		if _, hex := hexDigit(b[k]); !hex {
			break
		}
	}
	for at > floor && b[at-1] == '\\' {
		at--
	}
	return at
}

func alignEnd(b []byte, start, end int, inner bool) int {
	// the last escape that begins in the span, if it is near enough to reach out of it
	k := end - 1
	for k > start && k > end-6 && b[k] != '\\' {
		k--
	}
	if k < start || b[k] != '\\' {
		return end
	}
	first, last := k, k
	for first > start && b[first-1] == '\\' {
		first--
	}
	for last+1 < len(b) && b[last+1] == '\\' {
		last++
	}
	to := last + 1
	if (last-first)%2 == 0 && to < len(b) && !(inner && b[to] == '"') {
		// an odd run: its last backslash begins an escape
		to++
		for hex := b[to-1] == 'u'; hex && to < min(last+6, len(b)); to++ {
			if _, hex = hexDigit(b[to]); !hex {
				break
			}
		}
	}
	return max(end, to)
}
