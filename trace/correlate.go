package trace

import (
	"crypto/sha256"
	"strings"
)

// An agent's tool call is seen twice: as it passed on the wire, and as the agent told it. When the execution has ended, each report is joined with its
// call on the wire, in this order:
//
//  1. The agent's own id of the call, where the agent puts that into the request's _meta (see [Created].JoinKey): one call on the wire and one report have
//     it, in the trace, else in the turn.
//  2. Equal arguments of the same tool of the same server in the same turn, when one call and one report have them. A call whose _meta has an
//     id that no report has is no candidate.
//
// When in the second several are equal, all of them are ambiguous: the order of arrival tells nothing. What cannot be compared, because it was
// lost or the agent's name of the tool can mean several, is unavailable where it might be. Everything else is on one tape alone. What an agent tells never
// changes what the wire has.

// gathered is what a projection collects for it.
type gathered struct {
	joinKey string
	told    []int32 // the reports of tool calls
	lists   []int32 // the requests for tools/list
	usageOf int     // the rank of the usage report that counts
	costOf  int     // and of the one whose cost does
}

// reported joins what an agent says of a tool call: its request and its result, by the call's id within the session.
func (p *projector) reported(i int32) {
	payload, _ := whole(p.ev.payload)
	id := toldID(payload)
	key := ""
	if id != "" {
		key = strings.Join([]string{"tool", string(p.ev.session), id}, "\x00")
	}
	count := p.ix.records.len()
	result := roles[Kind(p.ev.kind)] == roleToolResult
	var n int32
	if result {
		n = p.join(i, key, codeToolCall)
	} else {
		n = p.entry(i, codeToolCall, verdictIncomplete)
		if key != "" {
			p.joins[key] = n
		}
	}
	if p.ix.records.len() > count {
		p.told = append(p.told, n)
	}
	r := p.ix.records.at(int(n))
	r.flags |= flagReported
	if word, ok := payload.field("status").text(); ok {
		if v, ok := verdictOf(word); ok {
			r.verdict = v
		}
	} else if result {
		r.verdict = toldVerdict(payload.field("result"))
	}
}

func toldID(payload value) string {
	id, _ := payload.field("call_id").text()
	if id == "" {
		id, _ = payload.field("provider_call_id").field("value").text()
	}
	return id
}

// toldVerdict is how a call ended of which the agent told the result and no status.
func toldVerdict(result value) verdict {
	v := result.field("value")
	switch {
	case !v.is('{'):
		return verdictIncomplete
	case v.field("is_error").is('t'):
		return verdictToolError
	}
	return verdictSuccess
}

// denied adds a message that the tool restriction did not let through: its frame, and the call if it is one.
func (p *projector) denied(i int32) {
	body, ok := p.frameBody()
	v, _ := whole(body)
	if ok && !v.is('{') || string(p.ev.method) != "tools/call" { // a batch, whose parts follow, or no call
		p.raw(i, -1)
		return
	}
	frame := p.ix.records.len()
	p.raw(i, -1)
	n := p.exchange(i, codeToolCall, verdictProtocolError) // an unknown tool: so the agent was answered
	p.ix.records.at(int(n)).flags |= flagDenied
	if p.ev.hasFrame {
		p.ix.records.at(frame).aux = n
	}
}

// answered is the record of the request that the event's frame answers once more.
func (p *projector) answered() int32 {
	k := p.key(!p.toServer(), p.ev.rpcID)
	if call, ok := p.open[k]; ok {
		return call.rec
	}
	return p.closed.get(k)
}

// scopes ranks what a usage report is an account of.
var scopes = map[string]int{"step": 1, "turn": 2, "session": 3}

// counted ranks a report that counts tokens above each that knows a cost alone: agents tell the cost of a session apart from the tokens of a turn.
const counted = 4

// figures are the members of a usage report: the tokens, and last the cost.
var figures = []string{"input_tokens", "output_tokens", "reasoning_tokens", "cache_creation_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens", "cost"}

func (p *projector) usage(i int32) {
	n := p.entry(i, codeUsage, p.statedVerdict())
	payload, _ := whole(p.ev.payload)
	word, _ := payload.field("scope").text()
	tokens, cost := told(payload)
	rank := scopes[word]
	if cost && rank >= p.costOf {
		p.costOf, p.ix.cost = rank, n+1
	}
	if tokens {
		rank += counted
	}
	if rank >= p.usageOf {
		p.usageOf, p.ix.usage = rank, n+1
	}
}

// told reports whether a usage report says something of tokens, and of a cost. What is malformed or hidden is said as well.
func told(report value) (tokens, cost bool) {
	list := make([]value, len(figures))
	report.fields(figures, list)
	for i, f := range list {
		state, _ := f.field("state").text()
		if state == "" || state == NotEmitted.String() {
			continue
		}
		tokens, cost = tokens || i < len(list)-1, i == len(list)-1
	}
	return tokens, cost
}

// side is a tool call as one tape has it.
type side struct {
	rec     int32
	place   string     // session and turn
	key     string     // the agent's id
	names   []toolName // what it can be a call of: on the wire one tool
	vague   bool       // the agent named no tool
	args    [sha256.Size]byte
	hasArgs bool

	tag     string // the id, when several have it
	strange bool   // on the wire with an id that no report has
	done    bool   // joined
	twin    bool   // equal to several
}

// full reports whether everything that is compared is known.
func (s *side) full() bool { return s.hasArgs && len(s.names) == 1 && !s.vague }

func (s *side) open() bool { return !s.done && !s.twin }

type correlator struct {
	*projector
	d              reader // of what was kept, as a reopened trace has it
	wires, reports []*side
	catalogue      catalogue
}

// correlate joins the two tapes.
func (p *projector) correlate() {
	if len(p.told) == 0 {
		return
	}
	p.ix.joined, p.ix.names = map[int32]int32{}, map[int32]toolName{}
	c := &correlator{projector: p, d: reader{p.ix, true}}
	c.collectWires()
	c.collectReports()
	if p.joinKey != "" {
		c.byKey()
	}
	c.match((*side).argumentKey, c.twins)
	c.unsure()
	p.hide()
}

func (c *correlator) place(n int32) string {
	s := &c.ix.scopes[c.ix.records.at(int(n)).scope]
	return string(s.session) + "\x00" + string(s.turn)
}

func (c *correlator) collectWires() {
	calls := &c.ix.byKind[codeToolCall]
	for i := range calls.len() {
		n := *calls.at(i)
		r := c.ix.records.at(int(n))
		if r.flags&(flagReported|flagOwn) != 0 {
			continue
		}
		m := c.d.message(r.start).parse()
		s := &side{rec: n, place: c.place(n)}
		if tool, ok := m.params.field("name").text(); ok {
			name := toolName{c.ix.scopes[r.scope].server, tool}
			s.names = []toolName{name}
			c.catalogue.add(name)
			s.setArguments(m.params.field("arguments"))
		}
		if c.joinKey != "" {
			s.key = keyText(m.params.field("_meta").field(c.joinKey))
		}
		c.wires = append(c.wires, s)
	}
}

// setArguments takes the arguments. None, null and an empty object are the same: agents tell one for the other.
func (s *side) setArguments(v value) {
	if !v.present() || v.null() {
		v = value{b: []byte("{}")}
	}
	s.args, s.hasArgs = canonicalSum(v), true
}

// keyText is an id as text: a number is one too.
func keyText(v value) string {
	if text, ok := v.text(); ok {
		return text
	}
	if v.is('{') || v.is('[') || v.null() || v.boolean() {
		return ""
	}
	return string(v.b)
}

func (c *correlator) collectReports() {
	listed := false
	for _, n := range c.told {
		r := c.ix.records.at(int(n))
		s := &side{rec: n, place: c.place(n)}
		var t toldNames
		t.read(s, c.d.message(r.start))
		if r.resp >= 0 {
			t.read(s, c.d.message(r.resp))
		}
		if t.server != "" && t.tool != "" {
			s.names = []toolName{{t.server, t.tool}}
		} else {
			if !listed {
				c.readLists()
				listed = true
			}
			s.names, s.vague = c.catalogue.find(t), t.name == "" && t.tool == ""
			if len(s.names) == 1 && !s.vague {
				c.ix.names[n] = s.names[0]
			}
		}
		c.reports = append(c.reports, s)
	}
}

// toldNames are the words that an agent has for a tool; empty: not told.
type toldNames struct{ server, tool, name string }

// read takes what one event tells; a later one adds to an earlier.
func (t *toldNames) read(s *side, m *message) {
	payload, _ := whole(m.body)
	if id := toldID(payload); id != "" {
		s.key = id
	}
	for _, f := range [...]struct {
		to   *string
		from value
	}{{&t.server, toldValue(payload.field("server"))}, {&t.tool, toldValue(payload.field("tool"))}, {&t.name, payload.field("name")}} {
		if text, ok := f.from.text(); ok && validID(text) {
			*f.to = text
		}
	}
	if args := toldValue(payload.field("arguments")); args.present() {
		s.setArguments(args)
	}
}

// toldValue is the value of an observation in a payload, as far as it was kept whole.
func toldValue(o value) value {
	switch word, _ := o.field("state").text(); word {
	case "observed":
		if v := o.field("value"); v.present() {
			return v
		}
		return value{b: []byte("null")} // so a null is written
	case "redacted":
		return o.field("value")
	}
	return value{}
}

func (c *correlator) readLists() {
	for _, n := range c.lists {
		r := c.ix.records.at(int(n))
		if r.resp < 0 || r.flags&(flagHTTPOnly|flagAmbiguous) != 0 {
			continue
		}
		server := c.ix.scopes[r.scope].server
		for w := c.d.message(r.resp).parse().result.field("tools").walk(); w.next(); {
			if tool, ok := w.val.field("name").text(); ok {
				c.catalogue.add(toolName{server, tool})
			}
		}
	}
}

// byKey joins by the agent's own ids.
func (c *correlator) byKey() {
	key := func(s *side) string { return s.key }
	c.match(key, nil)
	c.match(func(s *side) string {
		if s.key == "" {
			return ""
		}
		return s.key + "\x00" + s.place
	}, nil)
	c.match(key, func(wires, reports []*side) {
		for _, s := range append(wires, reports...) {
			s.tag = s.key
		}
	})
	for _, w := range c.wires {
		w.strange = !w.done && w.key != "" && w.tag == ""
	}
}

// argumentKey is equal for calls that the second rule joins; empty for a call that it cannot judge.
func (s *side) argumentKey() string {
	if s.strange || !s.full() {
		return ""
	}
	return nameKey(s.place, s.names[0]) + "\x00" + s.tag + "\x00" + string(s.args[:])
}

// match joins what alone has a key on both tapes, and calls many for what has not. An empty key is none.
func (c *correlator) match(key func(*side) string, many func(wires, reports []*side)) {
	type group struct{ wires, reports []*side }
	groups := map[string]*group{}
	for _, w := range c.wires {
		if k := key(w); k != "" && w.open() {
			g := groups[k]
			if g == nil {
				g = &group{}
				groups[k] = g
			}
			g.wires = append(g.wires, w)
		}
	}
	for _, r := range c.reports {
		if g := groups[key(r)]; g != nil && r.open() {
			g.reports = append(g.reports, r)
		}
	}
	for _, g := range groups {
		switch {
		case len(g.reports) == 0:
		case len(g.wires) == 1 && len(g.reports) == 1:
			c.joinSides(g.wires[0], g.reports[0])
		case many != nil:
			many(g.wires, g.reports)
		}
	}
}

func (c *correlator) joinSides(w, r *side) {
	w.done, r.done = true, true
	c.ix.joined[w.rec] = r.rec
	c.flag(w, flagJoined)
	c.flag(r, flagJoined)
}

func (c *correlator) flag(s *side, f flags) { c.ix.records.at(int(s.rec)).flags |= f }

func (c *correlator) twins(wires, reports []*side) {
	for _, s := range append(wires, reports...) {
		s.twin = true
		c.flag(s, flagTwins)
	}
}

// unsure marks the calls that may be on both tapes for all that is known.
func (c *correlator) unsure() {
	blind, byName, byArgs := c.openWires()
	for _, r := range c.reports {
		if !r.open() {
			continue
		}
		c.mark(r, blind, r.place)
		if r.full() {
			continue
		}
		for _, name := range r.names {
			if k := nameKey(r.place, name); r.hasArgs {
				c.mark(r, byArgs, k+"\x00"+string(r.args[:]))
			} else {
				c.mark(r, byName, k)
			}
		}
	}
}

func nameKey(place string, name toolName) string {
	return place + "\x00" + name.server + "\x00" + name.tool
}

// openWires sorts what passed on the wire and was not joined: unreadable calls by place, the others by tool and by arguments besides.
func (c *correlator) openWires() (blind, byName, byArgs map[string][]*side) {
	blind, byName, byArgs = map[string][]*side{}, map[string][]*side{}, map[string][]*side{}
	for _, w := range c.wires {
		switch {
		case w.done || w.strange:
		case len(w.names) == 0:
			blind[w.place] = append(blind[w.place], w)
		default:
			k := nameKey(w.place, w.names[0])
			byName[k] = append(byName[k], w)
			k += "\x00" + string(w.args[:])
			byArgs[k] = append(byArgs[k], w)
		}
	}
	return blind, byName, byArgs
}

// mark says of a report, and of every call that it may be, that nobody can tell.
func (c *correlator) mark(r *side, in map[string][]*side, k string) {
	for _, w := range in[k] {
		if w.open() {
			c.flag(w, flagUnsure)
		}
		c.flag(r, flagUnsure)
	}
	if len(in[k]) > 1 {
		in[k] = in[k][:1] // the others are marked
	}
}

// hide takes the reports that were joined out of the timeline: they are in the entry of their call.
func (p *projector) hide() {
	if len(p.ix.joined) == 0 {
		return
	}
	f := &filter{}
	for n := range int32(p.ix.records.len()) {
		r := p.ix.records.at(int(n))
		if r.flags&(flagReported|flagJoined) == flagReported|flagJoined {
			continue
		}
		f.records = append(f.records, n)
		f.byKind[r.kind] = append(f.byKind[r.kind], n)
	}
	p.ix.visible = f
}
