package elicit

import (
	"crypto/sha256"
	"fmt"
	"reflect"
)

// Form expects one form request with this key.
func Form(key string, opts ...FormOption) *Plan { return formLeaf(key, false, opts) }

// MaybeForm expects one form request with this key, or none.
func MaybeForm(key string, opts ...FormOption) *Plan { return formLeaf(key, true, opts) }

// URL expects one URL request with this key.
func URL(key string, opts ...URLOption) *Plan { return urlLeaf(key, false, opts) }

// MaybeURL expects one URL request with this key, or none.
func MaybeURL(key string, opts ...URLOption) *Plan { return urlLeaf(key, true, opts) }

func formLeaf(key string, maybe bool, opts []FormOption) *Plan {
	l := &leaf{mode: ModeForm, key: key}
	for _, o := range opts {
		if !l.isNil(o) {
			o.form(l)
		}
	}
	return newLeaf(l, maybe)
}

func urlLeaf(key string, maybe bool, opts []URLOption) *Plan {
	l := &leaf{mode: ModeURL, key: key}
	for _, o := range opts {
		if !l.isNil(o) {
			o.url(l)
		}
	}
	return newLeaf(l, maybe)
}

// isNil fails the leaf for an option that is nil, however it is.
func (l *leaf) isNil(o any) bool {
	isNil := o == nil || reflect.ValueOf(o).Kind() == reflect.Func && reflect.ValueOf(o).IsNil()
	if isNil {
		l.fail("nil", "an option is nil")
	}
	return isNil
}

func newLeaf(l *leaf, maybe bool) *Plan {
	return &Plan{node: NodeLeaf, leaf: l, maybe: maybe, empty: maybe, depth: 1, size: 1, err: l.check().at(l.label())}
}

// Accept returns the leaf with the answer accept. A form needs a [Content], which may be empty; a URL refuses one. A [Meta] goes out as the
// response's _meta.
func (p *Plan) Accept(parts ...ResponsePart) *Plan {
	r := Response{Action: ActionAccept}
	for _, part := range parts {
		if part == nil {
			return p.broken("nil", "Accept is given nil: the content of a form may be empty, and is never nil")
		}
		if err := part.part(&r); err != nil {
			return p.broken("bad_content", "the content "+err.Error())
		}
	}
	if p.fault() == nil && p.node == NodeLeaf {
		switch form := p.leaf.mode == ModeForm; {
		case form && r.Content == nil:
			return p.broken("missing_content", "Accept of a form needs a Content, which may be empty")
		case !form && r.Content != nil:
			return p.broken("unwanted_content", "Accept of a URL takes no content")
		}
	}
	return p.bind(r)
}

// Decline returns the leaf with the answer decline.
func (p *Plan) Decline(meta ...Meta) *Plan { return p.bind(Decline(meta...)) }

// Cancel returns the leaf with the answer cancel.
func (p *Plan) Cancel(meta ...Meta) *Plan { return p.bind(Cancel(meta...)) }

// bind returns the leaf with an answer.
func (p *Plan) bind(r Response) *Plan {
	switch {
	case p.fault() != nil:
		return &Plan{err: p.fault()}
	case p.node != NodeLeaf:
		return p.broken("not_a_leaf", "only a leaf has an answer: give it to the leaves")
	case p.response != nil:
		return p.broken("already_bound", "it has an answer already")
	}
	r, err := r.clean()
	if err != nil {
		return p.broken(err.Details["reason"].(string), err.Message)
	}
	bound := *p
	bound.response, bound.answer = &r, canonical(r.tree())
	bound.id = sha256.Sum256([]byte(canonical(bound.tree())))
	return &bound
}

// broken returns what p became by a mistake: a plan that only has an error. The first one stays.
func (p *Plan) broken(reason, message string) *Plan {
	if err := p.fault(); err != nil {
		return &Plan{err: err}
	}
	return &Plan{err: failure(reason, message).at(p.label())}
}

// Sequence expects two or more complete plans, one after the other. A key may come again in another round.
func Sequence(plans ...*Plan) *Plan { return compose(NodeSequence, plans) }

// Optional expects a complete plan, or nothing.
func Optional(plan *Plan) *Plan { return compose(NodeOptional, []*Plan{plan}) }

// OneOf expects exactly one of two or more complete plans. They must differ, and none may be one that can match nothing: write
// Optional(OneOf(…)) for that.
func OneOf(plans ...*Plan) *Plan { return compose(NodeOneOf, plans) }

// Round expects one round with exactly the requests of two or more bound leaves, in any order. The leaves are required ones, and their keys differ.
func Round(plans ...*Plan) *Plan { return compose(NodeRound, plans) }

// compose makes a composite of any kind. A child's error is the composite's.
func compose(node Node, children []*Plan) *Plan {
	p := &Plan{node: node, children: append([]*Plan(nil), children...), size: 1}
	for i, child := range p.children {
		if err := child.unusable(); err != nil {
			return &Plan{err: err.under(step(node, i))}
		}
		p.depth = max(p.depth, child.depth)
		p.size += child.size // both are small
		if p.size > maxPlanSize {
			return &Plan{err: failure("too_large", fmt.Sprintf("it has more than %d nodes", maxPlanSize)).at(p.label())}
		}
	}
	if p.depth++; p.depth > maxPlanDepth {
		return &Plan{err: failure("too_deep", fmt.Sprintf("it nests deeper than %d", maxPlanDepth)).at(p.label())}
	}
	if node != NodeOptional && len(children) < 2 {
		return &Plan{err: failure("too_few", fmt.Sprintf("it has %d children, and needs at least two", len(children))).at(p.label())}
	}
	if err := p.checkChildren(); err != nil {
		return &Plan{err: err}
	}
	p.id = p.identify()
	return p
}

// identify is equal for composites of the same kind with equal children.
func (p *Plan) identify() [sha256.Size]byte {
	b := []byte(p.node)
	for _, child := range p.children {
		b = append(b, child.id[:]...)
	}
	return sha256.Sum256(b)
}

// step is the part of a path that leads to a child.
func step(node Node, i int) string { return fmt.Sprintf("%s[%d]", node, i) }

// checkChildren holds the rules of each kind of composite, and says whether the composite can match nothing.
func (p *Plan) checkChildren() *PlanError {
	switch p.node {
	case NodeOptional:
		p.empty = true
	case NodeSequence:
		p.empty = true
		for _, child := range p.children {
			p.empty = p.empty && child.empty
		}
	case NodeOneOf:
		return p.checkBranches()
	case NodeRound:
		return p.checkRound()
	}
	return nil
}

func (p *Plan) checkBranches() *PlanError {
	seen := map[[sha256.Size]byte]int{}
	for i, child := range p.children {
		if child.empty {
			return p.childFailure(i, "empty_branch", "a branch of OneOf must not be able to match nothing: make the whole OneOf optional")
		}
		if first, twice := seen[child.id]; twice {
			return p.childFailure(i, "equal_branches", fmt.Sprintf("it is equal to %s", step(p.node, first)))
		}
		seen[child.id] = i
	}
	return nil
}

func (p *Plan) checkRound() *PlanError {
	seen := map[string]int{}
	for i, child := range p.children {
		if child.node != NodeLeaf || child.maybe {
			return p.childFailure(i, "not_a_required_leaf", "Round takes Form and URL only")
		}
		if first, twice := seen[child.leaf.key]; twice {
			return p.childFailure(i, "duplicate_key", fmt.Sprintf("its key is that of %s: keys are unique in a round", step(p.node, first)))
		}
		seen[child.leaf.key] = i
	}
	return nil
}

func (p *Plan) childFailure(i int, reason, message string) *PlanError {
	return failure(reason, message).at(p.children[i].label()).under(step(p.node, i))
}
