package evidence

import "encoding/binary"

// matcher finds every occurrence of many patterns in one pass, whatever their number: an Aho-Corasick automaton, which is
// only entered where a table over three bytes at the end of a window says that a pattern may begin. Both parts only go
// forward, so the time is linear in the text. A matcher is immutable.
type matcher struct {
	window  int // bytes in which the table looks; no pattern is shorter
	bits    uint
	shift   []uint8 // by hash of the window's last three bytes: how far the window may move; 0: a pattern may begin here
	root    [256]int32
	nodes   []node // 0 is the root
	longest int    // bytes of the longest pattern

	letters  [256]bool // bytes that occur in patterns
	wide     bool      // some are not ASCII
	hasSpace bool
}

// node is a state of the automaton: what was read last is a prefix of some pattern, depth bytes long.
type node struct {
	char          byte
	before, after bool  // the pattern that ends here may depend on a byte before it, or after it
	child, next   int32 // first child; next sibling
	fail          int32 // the longest proper suffix that is a prefix, too
	depth         int32
	match         int32 // length of the longest pattern that ends here; 0: none
}

// pattern is bytes to be found. The flags say that the neighbouring byte belongs to it as well (base64 digits of which the
// secret only makes up some bits).
type pattern struct {
	text          string
	before, after bool
}

// maxWindow bounds the window: beyond it, moving further pays no more.
const maxWindow = 24

// newMatcher returns nil when there are no patterns. No pattern may be shorter than four bytes.
func newMatcher(patterns []pattern) *matcher {
	if len(patterns) == 0 {
		return nil
	}
	m := &matcher{window: maxWindow, nodes: make([]node, 1)}
	for _, p := range patterns {
		m.insert(p)
		m.window = min(m.window, len(p.text))
		m.longest = max(m.longest, len(p.text))
	}
	m.link()
	m.fillShifts(patterns)
	return m
}

func (m *matcher) insert(p pattern) {
	at := int32(0)
	for i := range len(p.text) {
		c := p.text[i]
		m.letters[c] = true
		m.wide = m.wide || c >= 0x80
		m.hasSpace = m.hasSpace || c == ' '
		at = m.childOf(at, c, int32(i+1))
	}
	n := &m.nodes[at]
	n.match = int32(len(p.text))
	n.before = n.before || p.before
	n.after = n.after || p.after
}

// childOf returns at's child for c, making it when it is not there.
func (m *matcher) childOf(at int32, c byte, depth int32) int32 {
	if at == 0 && m.root[c] != 0 {
		return m.root[c]
	}
	for k := m.nodes[at].child; k != 0; k = m.nodes[k].next {
		if m.nodes[k].char == c {
			return k
		}
	}
	k := int32(len(m.nodes))
	m.nodes = append(m.nodes, node{char: c, depth: depth, next: m.nodes[at].child})
	m.nodes[at].child = k
	if at == 0 {
		m.root[c] = k
	}
	return k
}

// link computes where the automaton goes on when a byte does not fit, breadth first.
func (m *matcher) link() {
	queue := make([]int32, 0, len(m.nodes))
	for k := m.nodes[0].child; k != 0; k = m.nodes[k].next {
		queue = append(queue, k)
	}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		for k := m.nodes[at].child; k != 0; k = m.nodes[k].next {
			m.nodes[k].fail = m.step(m.nodes[at].fail, m.nodes[k].char)
			queue = append(queue, k)
		}
		n, f := &m.nodes[at], &m.nodes[m.nodes[at].fail]
		if f.match == 0 {
			continue
		}
		n.after = n.after || f.after
		if n.match == 0 {
			n.match, n.before = f.match, f.before
		}
	}
}

// step is the automaton's transition.
func (m *matcher) step(state int32, c byte) int32 {
	for state != 0 {
		for k := m.nodes[state].child; k != 0; k = m.nodes[k].next {
			if m.nodes[k].char == c {
				return k
			}
		}
		state = m.nodes[state].fail
	}
	return m.root[c]
}

// fillShifts fills the table. A window may move so far that its end does not pass the place where the three bytes stand
// in some pattern's beginning.
func (m *matcher) fillShifts(patterns []pattern) {
	m.bits = 12
	for m.bits < 16 && len(patterns)*m.window > 1<<m.bits/16 {
		m.bits++
	}
	m.shift = make([]uint8, 1<<m.bits)
	most := uint8(m.window - 2)
	for i := range m.shift {
		m.shift[i] = most
	}
	for _, p := range patterns {
		for end := 3; end <= m.window; end++ {
			three := uint32(p.text[end-3]) | uint32(p.text[end-2])<<8 | uint32(p.text[end-1])<<16
			h := m.hash(three)
			m.shift[h] = min(m.shift[h], uint8(m.window-end))
		}
	}
}

func (m *matcher) hash(three uint32) uint32 { return three * 0x9E3779B1 >> (32 - m.bits) }

// candidate returns the next position from pos on at which a pattern may begin, or -1.
func (m *matcher) candidate(b []byte, pos int) int {
	shift, down := m.shift, 32-m.bits
	for end := pos + m.window; end <= len(b); {
		three := binary.LittleEndian.Uint32(b[end-4:end]) >> 8
		s := shift[three*0x9E3779B1>>down]
		if s == 0 {
			return end - m.window
		}
		end += int(s)
	}
	return -1
}

// find appends the occurrences in b to spans: joined where they overlap, in order.
func (m *matcher) find(spans []span, b []byte) []span {
	base := len(spans)
	for pos := 0; ; {
		start := m.candidate(b, pos)
		if start < 0 {
			return spans
		}
		state, i := int32(0), start
		for i < len(b) {
			state = m.step(state, b[i])
			i++
			n := &m.nodes[state]
			if n.match != 0 {
				spans = addMatch(spans, base, b, i, n)
			}
			// near the root the table is faster; what was read of a prefix so far is looked at again
			if n.depth < 3 && i-start >= 3 {
				break
			}
		}
		pos = i - int(m.nodes[state].depth)
		if i >= len(b) {
			return spans
		}
	}
}

// addMatch adds the match that ends at end, joined with those before it that it overlaps.
func addMatch(spans []span, base int, b []byte, end int, n *node) []span {
	s := span{start: end - int(n.match), end: end}
	if n.before && s.start > 0 && isBase64(b[s.start-1]) {
		s.start--
	}
	if n.after && s.end < len(b) && isBase64(b[s.end]) {
		s.end++
	}
	for len(spans) > base && spans[len(spans)-1].end > s.start {
		last := spans[len(spans)-1]
		s.start, s.end = min(s.start, last.start), max(s.end, last.end)
		spans = spans[:len(spans)-1]
	}
	return append(spans, s)
}

func isBase64(c byte) bool {
	return classOf(c) != classSeparator || c == '+' || c == '/' || c == '-' || c == '_'
}
