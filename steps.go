package m3

import (
	"slices"
	"strconv"
	"strings"

	"github.com/m3-go/m3/elicit"
)

// steps follows one call through its plan where requests come one by one and have no key: before 2026-07-28. It is never changed: a match
// gives the next steps. Each request is a round of its own, so the leaves of a Round are answered one after the other, in any order. A leaf
// matches by everything that it names but its key; the key it has is then the request's.
type steps struct{ at []place }

// place is one way in which the plan explains the requests so far: what is expected next, and of a Round which leaves have been asked for.
type place struct {
	next  *expected
	taken string // a byte for each leaf of the Round: x when it was asked for; empty elsewhere
}

// expected is what may follow at one point of a plan. It is a leaf, the leaves of a Round, or a choice; nil is the end.
type expected struct {
	leaf   *elicit.Plan
	round  []*elicit.Plan
	choice []*expected
	then   *expected // after the leaf, or the Round
}

func newSteps(plan *elicit.Plan) *steps { return &steps{[]place{{next: expect(plan, nil)}}} }

// expect is what a plan expects, with what follows it.
func expect(p *elicit.Plan, then *expected) *expected {
	children := p.Children()
	switch p.Node() {
	case elicit.NodeLeaf:
		e := &expected{leaf: p, then: then}
		if p.OptionalOccurrence() {
			return &expected{choice: []*expected{e, then}}
		}
		return e
	case elicit.NodeSequence:
		for _, child := range slices.Backward(children) {
			then = expect(child, then)
		}
		return then
	case elicit.NodeRound:
		return &expected{round: children, then: then}
	case elicit.NodeOptional:
		return &expected{choice: []*expected{expect(children[0], then), then}}
	default: // one_of
		e := &expected{}
		for _, child := range children {
			e.choice = append(e.choice, expect(child, then))
		}
		return e
	}
}

// open is what may come next: places that are no choice, each once. ended says that nothing needs to.
func (s *steps) open() (all []place, ended bool) {
	seen := map[place]bool{}
	var visit func(p place)
	visit = func(p place) {
		switch {
		case seen[p]:
		case p.next == nil:
			ended = true
		case p.next.choice != nil:
			seen[p] = true
			for _, e := range p.next.choice {
				visit(place{next: e})
			}
		default:
			seen[p] = true
			all = append(all, p)
		}
	}
	for _, p := range s.at {
		visit(p)
	}
	return all, ended
}

// leaves are the leaves that a place expects, with the place after each.
func (p place) leaves(f func(leaf *elicit.Plan, after place)) {
	if p.next.leaf != nil {
		f(p.next.leaf, place{next: p.next.then})
		return
	}
	taken := p.taken
	if taken == "" {
		taken = strings.Repeat(".", len(p.next.round))
	}
	for i, leaf := range p.next.round {
		if taken[i] == 'x' {
			continue
		}
		after := place{p.next, taken[:i] + "x" + taken[i+1:]}
		if !strings.Contains(after.taken, ".") {
			after = place{next: p.next.then}
		}
		f(leaf, after)
	}
}

// stepError says why a request has no answer.
type stepError struct {
	reason, message string
	expected        []string
}

func (e *stepError) Error() string { return e.message }

// match answers a request: with the key of the leaf that takes it, which is empty when several with the same answer do, and what is expected after it.
func (s *steps) match(r elicit.Request) (key string, response elicit.Response, next *steps, err error) {
	open, _ := s.open()
	next = &steps{}
	var found []*elicit.Plan
	for _, p := range open {
		p.leaves(func(leaf *elicit.Plan, after place) {
			if matches(leaf, r) {
				found = append(found, leaf)
				if !slices.Contains(next.at, after) {
					next.at = append(next.at, after)
				}
			}
		})
	}
	if len(found) == 0 {
		expected := s.names()
		e := &stepError{reason: "no_match", message: "the server asks for input (" + r.Mode() + "), and the plan expects nothing more", expected: expected}
		if len(expected) > 0 {
			e.message = "what the server asks for (" + r.Mode() + ") is not what the plan expects, which is " + strings.Join(expected, " or ")
		}
		return "", response, nil, e
	}
	key, response = found[0].Request().Key(), *found[0].Response()
	first, same := encodedResponse(response), true
	for _, leaf := range found[1:] {
		same = same && encodedResponse(*leaf.Response()) == first
		if leaf.Request().Key() != key {
			key = ""
		}
	}
	if !same {
		var names []string
		for _, leaf := range found {
			names = append(names, describeLeaf(leaf))
		}
		return "", response, nil, &stepError{reason: "ambiguous", expected: names,
			message: "what the server asks for may be " + strings.Join(names, " or ") + ", whose answers differ: before 2026-07-28 a request has no key, so let the leaves differ in message, schema or URL"}
	}
	return key, response, next, nil
}

func encodedResponse(r elicit.Response) string {
	b, err := r.Encode()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// matches reports whether a leaf takes the request, whose key nobody knows.
func matches(leaf *elicit.Plan, r elicit.Request) bool {
	expectation := leaf.Request()
	if expectation.Mode() != r.Mode() {
		return false
	}
	switch q := r.(type) {
	case *elicit.FormRequest:
		c := *q
		c.RequestKey = expectation.Key()
		r = &c
	case *elicit.URLRequest:
		c := *q
		c.RequestKey = expectation.Key()
		r = &c
	}
	m, err := elicit.NewMatcher(leaf)
	if err != nil {
		return false
	}
	_, err = m.Round([]elicit.Request{r})
	return err == nil
}

// unused names what the plan expects before it is at its end; nothing when it may end here.
func (s *steps) unused() []string {
	if _, ended := s.open(); ended {
		return nil
	}
	return s.names()
}

// names are the leaves that may come next.
func (s *steps) names() (names []string) {
	open, _ := s.open()
	for _, p := range open {
		p.leaves(func(leaf *elicit.Plan, _ place) {
			if name := describeLeaf(leaf); !slices.Contains(names, name) {
				names = append(names, name)
			}
		})
	}
	return names
}

func describeLeaf(leaf *elicit.Plan) string {
	e := leaf.Request()
	return e.Mode() + " " + strconv.Quote(shortKey(e.Key()))
}
