package elicit

import (
	"maps"
	"slices"
	"strings"
)

// Matcher follows one call through a plan. It is for one call, and one goroutine at a time.
type Matcher struct {
	program *program
	// The candidates: the items that may come next, in the plan's order, each once, and whether the plan may end here. That all explain
	// the rounds so far, and with the same answers, is so by construction, so a candidate is no more than its place.
	next  []int32
	ended bool

	round     int // rounds answered
	completed bool
	failed    *ExpectationError

	mark    []int // by place: the number of the walk that was there last
	walk    int
	visited int  // places walked through and leaves compared, for the tests of its bounds
	dropped rule // always 0 but in tests
}

// rule is a set of the rules of matching. Tests drop one at a time, to show that they would see it missing.
type rule uint32

const (
	ruleKey     rule = 1 << iota // a leaf compares the key
	ruleMode                     // … the mode
	ruleMessage                  // … the message, where it names one; and so on
	ruleSchema
	ruleURL
	ruleElicitationID
	ruleServer
	ruleKind
	ruleName
	ruleConsume     // a round is never ignored
	ruleOneRequest  // a leaf matches a round of one request only
	ruleWholeRound  // Round matches when the sets of keys are equal
	ruleSkip        // what is optional may be passed over
	ruleEveryBranch // OneOf tries every branch
	ruleAmbiguous   // different answers are refused
	ruleEqual       // equal answers are none
	ruleKeepAll     // every candidate that matched goes on
	ruleComplete    // what is required must be used
	ruleOrder       // Sequence goes from the first to the last
)

// NewMatcher starts at the beginning of a plan. A plan that is nil, broken or incomplete is a [*PlanError].
func NewMatcher(plan *Plan) (*Matcher, error) { return newMatcher(plan, 0) }

func newMatcher(plan *Plan, dropped rule) (*Matcher, error) {
	if err := plan.unusable(); err != nil {
		return nil, err
	}
	m := &Matcher{program: compile(plan, dropped), dropped: dropped}
	m.mark = make([]int, len(m.program.code))
	m.advance([]int32{0})
	return m, nil
}

func (m *Matcher) holds(r rule) bool { return m.dropped&r == 0 }

// advance makes the candidates of what can be reached from the given places without a round.
func (m *Matcher) advance(from []int32) {
	m.walk++
	m.next, m.ended = nil, false
	todo := slices.Clone(from)
	slices.Reverse(todo)
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if m.mark[at] == m.walk {
			continue
		}
		m.mark[at] = m.walk
		m.visited++
		switch in := &m.program.code[at]; in.op {
		case opItem:
			m.next = append(m.next, at)
		case opEnd:
			m.ended = true
		case opFork:
			todo = append(todo, in.targets...)
		}
	}
	slices.Sort(m.next)
}

// Round answers one round: the requests that a server makes at once, each with a key of its own. It returns the response to each key, as copies. A round that the plan does
// not expect, or that two ways through it answer differently, is an [*ExpectationError], and so is everything after it.
func (m *Matcher) Round(requests []Request) (map[string]Response, error) {
	if m == nil || m.program == nil {
		return nil, errNoMatcher()
	}
	if m.completed && m.failed == nil {
		m.failed = m.failure("finished", "a round after the plan was completed")
	}
	if m.failed != nil {
		return nil, m.failed
	}
	asked, err := m.observe(requests)
	if err == nil {
		var matched []int32
		if matched, err = m.match(asked); err == nil {
			m.round++
			return m.answer(matched, asked), nil
		}
	}
	m.failed = err
	return nil, err
}

// observe checks what every round must be.
func (m *Matcher) observe(requests []Request) (map[string]*observed, *ExpectationError) {
	if len(requests) == 0 {
		return nil, m.failure("empty_round", "a round without requests")
	}
	asked := make(map[string]*observed, len(requests))
	for _, r := range requests {
		if r == nil {
			return nil, m.failure("bad_request", "a request is nil")
		}
		key := r.Key()
		if err := r.Validate(); err != nil {
			return nil, m.failure("bad_request", strings.TrimPrefix(err.Error(), "elicit: ")).with("request_key", key)
		}
		if asked[key] != nil {
			return nil, m.failure("duplicate_key", "the key "+quote(key)+" is there twice").with("request_key", key)
		}
		asked[key] = observe(r)
	}
	return asked, nil
}

// match returns the candidates that the round leaves, all with the same answers.
func (m *Matcher) match(asked map[string]*observed) ([]int32, *ExpectationError) {
	var matched []int32
	for _, at := range m.next {
		if m.misfit(m.program.code[at].item, asked).kind == fits {
			matched = append(matched, at)
		}
	}
	if len(matched) == 0 && (m.holds(ruleConsume) || !m.ended) {
		return nil, m.unexpected(asked)
	}
	var others []int32 // one for each other set of answers
	for _, at := range matched[min(1, len(matched)):] {
		if !m.holds(ruleEqual) || !m.sameAnswers(matched[0], at) {
			others = append(others, at)
		}
	}
	if len(others) > 0 && m.holds(ruleAmbiguous) {
		return nil, m.ambiguous(append(matched[:1:1], others...), asked)
	}
	return matched, nil
}

// misfit is why an item does not match a round; the zero misfit is that it does.
type misfit struct {
	kind   misfitKind
	key    string // of a round's request
	fields rule   // what differs
}

type misfitKind uint8

const (
	fits misfitKind = iota
	otherSize
	otherKey
	otherFields
)

// misfit compares an item with a round.
func (m *Matcher) misfit(item *Plan, asked map[string]*observed) misfit {
	m.visited++
	if item.node == NodeLeaf {
		return m.leafMisfit(item, asked)
	}
	if len(asked) != len(item.children) && m.holds(ruleWholeRound) {
		return misfit{kind: otherSize}
	}
	for _, child := range item.children {
		m.visited++
		o := asked[child.leaf.key]
		if o == nil && m.holds(ruleWholeRound) {
			return misfit{kind: otherKey, key: child.leaf.key}
		}
		if o == nil {
			continue
		}
		if differing := m.differing(child.leaf, o); differing != 0 {
			return misfit{kind: otherFields, key: child.leaf.key, fields: differing}
		}
	}
	return misfit{}
}

func (m *Matcher) leafMisfit(item *Plan, asked map[string]*observed) misfit {
	if len(asked) != 1 && m.holds(ruleOneRequest) {
		return misfit{kind: otherSize}
	}
	o := asked[item.leaf.key]
	if o == nil {
		for _, o = range asked { // the one that there is
			break
		}
	}
	if differing := m.differing(item.leaf, o); differing != 0 {
		return misfit{kind: otherFields, fields: differing}
	}
	return misfit{}
}

// differing are the fields in which a request is not what a leaf says.
func (m *Matcher) differing(l *leaf, o *observed) rule {
	var all rule
	for i := range fields {
		if f := &fields[i]; m.holds(f.rule) && !f.equal(l, o) {
			all |= f.rule
		}
	}
	return all
}

// sameAnswers compares the answers of two items that match the same round.
func (m *Matcher) sameAnswers(a, b int32) bool {
	x, y := m.program.code[a].item, m.program.code[b].item
	if x.node == NodeLeaf && y.node == NodeLeaf {
		return x.answer == y.answer && x.leaf.key == y.leaf.key
	}
	return maps.Equal(answers(x), answers(y))
}

// answers are an item's responses by key, in canonical form.
func answers(item *Plan) map[string]string {
	if item.node == NodeLeaf {
		return map[string]string{item.leaf.key: item.answer}
	}
	all := make(map[string]string, len(item.children))
	for _, child := range item.children {
		all[child.leaf.key] = child.answer
	}
	return all
}

// answer goes on with the candidates that matched, and returns the responses that they have in common.
func (m *Matcher) answer(matched []int32, asked map[string]*observed) map[string]Response {
	out := make(map[string]Response, len(asked))
	if len(matched) == 0 { // in tests only
		return out
	}
	if !m.holds(ruleKeepAll) {
		matched = matched[:1]
	}
	leaves := []*Plan{m.program.code[matched[0]].item}
	if leaves[0].node == NodeRound {
		leaves = leaves[0].children
	}
	for _, p := range leaves {
		out[p.leaf.key] = p.response.copy()
	}
	after := make([]int32, len(matched))
	for i, at := range matched {
		after[i] = at + 1
	}
	m.advance(after)
	return out
}

// Complete says, after the operation's result, whether the plan is used up: an [*ExpectationError] when a required leaf was not asked for.
func (m *Matcher) Complete() error {
	if m == nil || m.program == nil {
		return errNoMatcher()
	}
	if m.failed == nil && !m.ended && m.holds(ruleComplete) {
		m.failed = m.incomplete()
	}
	if m.failed != nil {
		return m.failed
	}
	m.completed = true
	return nil
}
