package elicit

import (
	"crypto/sha256"
	"slices"
)

// Node is the kind of a plan's node.
type Node string

// The kinds of nodes.
const (
	NodeLeaf     Node = "leaf"     // Form, MaybeForm, URL, MaybeURL
	NodeSequence Node = "sequence" // Sequence
	NodeOptional Node = "optional" // Optional
	NodeOneOf    Node = "one_of"   // OneOf
	NodeRound    Node = "round_of" // Round
)

// Plan is an immutable tree of what a server is expected to ask for, and of the answers. Build it with the functions of this package;
// the zero Plan and a nil one are in error. It may be used by any number of goroutines and calls at once.
type Plan struct {
	node     Node
	leaf     *leaf
	response *Response
	children []*Plan
	maybe    bool // a leaf that may stay unused

	answer string            // the response, in canonical form
	id     [sha256.Size]byte // equal for complete plans that are equal in canonical form
	empty  bool              // it can match nothing at all
	depth  int               // 1 for a leaf
	size   int               // leaves and composites, one that is used twice counted twice
	err    *PlanError
}

// What a plan may be at most. A plan may use another one twice, so a small program could make a tree that no memory holds.
const (
	maxPlanDepth = 64
	maxPlanSize  = 100_000
)

// Err says what is wrong with how the plan was built: nil, or the first [*PlanError]. A leaf that has no answer yet is not in error.
func (p *Plan) Err() error { return p.fault().orNil() }

func (p *Plan) fault() *PlanError {
	switch {
	case p == nil:
		return failure("nil", "the plan is nil").at("plan")
	case p.node == "" && p.err == nil:
		return failure("zero", "a plan is made by Form, URL, Sequence and the others").at("plan")
	}
	return p.err
}

// unusable says why the plan cannot be attached to a call or written: what Err says, or that there is no answer.
func (p *Plan) unusable() *PlanError {
	if err := p.fault(); err != nil {
		return err
	}
	if p.node == NodeLeaf && p.response == nil {
		return failure("incomplete", "it has no answer: call Accept, Decline or Cancel").at(p.label())
	}
	return nil // a composite's children are complete
}

// label names the plan's root in paths.
func (p *Plan) label() string {
	if p.leaf != nil {
		return p.leaf.label()
	}
	return string(p.node)
}

// Node is the kind of the plan's root; empty for a nil or a zero plan.
func (p *Plan) Node() Node {
	if p == nil {
		return ""
	}
	return p.node
}

// Request is a copy of what a leaf expects; nil unless the plan is a leaf.
func (p *Plan) Request() Expectation {
	if p == nil || p.leaf == nil {
		return nil
	}
	return p.leaf.expectation()
}

// Response is a copy of a leaf's answer; nil unless the plan is a leaf that has one.
func (p *Plan) Response() *Response {
	if p == nil || p.response == nil {
		return nil
	}
	r := p.response.copy()
	return &r
}

// Children are the plans that a composite was made of; none for a leaf.
func (p *Plan) Children() []*Plan {
	if p == nil {
		return nil
	}
	return slices.Clone(p.children)
}

// OptionalOccurrence reports whether the plan is a leaf that may stay unused: [MaybeForm], [MaybeURL].
func (p *Plan) OptionalOccurrence() bool { return p != nil && p.maybe }

// IsComplete reports whether the plan can be attached to a call: nothing is wrong with it and every leaf has an answer.
func (p *Plan) IsComplete() bool { return p.unusable() == nil }
