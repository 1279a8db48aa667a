package elicit

// CanonicalIdentity is [Plan.CanonicalJSON].
func (p *Plan) CanonicalIdentity() (string, error) { return p.CanonicalJSON() }

// CanonicalJSON is the plan as JSON in one form: members sorted, no spaces, each number in one spelling. Two plans that expect and answer the same in
// the same way have the same. It is a [*PlanError] unless the plan is complete.
func (p *Plan) CanonicalJSON() (string, error) {
	if err := p.unusable(); err != nil {
		return "", err
	}
	return canonical(p.tree()), nil
}

// MarshalJSON writes the plan; numbers stay as they were given. It is a [*PlanError] unless the plan is complete.
func (p *Plan) MarshalJSON() ([]byte, error) {
	if err := p.unusable(); err != nil {
		return nil, err
	}
	return exact(p.tree()), nil
}

// tree is a complete plan as a JSON value.
func (p *Plan) tree() map[string]any {
	t := map[string]any{"node": string(p.node)}
	if p.node == NodeLeaf {
		t["request"], t["response"] = any(p.leaf.tree()), any(p.response.tree())
		if p.maybe {
			t["optional_occurrence"] = true
		}
		return t
	}
	children := make([]any, len(p.children))
	for i, child := range p.children {
		children[i] = child.tree()
	}
	t["children"] = children
	return t
}

// UnmarshalJSON reads a complete plan into a zero one. See [Parse] for what it refuses.
func (p *Plan) UnmarshalJSON(b []byte) error {
	if p == nil {
		return p.fault()
	}
	if p.node != "" || p.err != nil {
		return failure("immutable", "a plan never changes: decode into a new one").at(p.label())
	}
	plan, err := Parse(b)
	if err != nil {
		return err
	}
	*p = *plan
	return nil
}

// Parse reads a complete plan from JSON. What is no JSON, an unknown member, a member twice, nesting beyond reason, and everything that
// the builders refuse is a [*PlanError].
func Parse(b []byte) (*Plan, error) {
	v, err := parse(b, maxText)
	if err != nil {
		return nil, failure("bad_json", "the JSON text "+err.Error()).at("plan")
	}
	p := planFrom(v, 1)
	if err := p.unusable(); err != nil {
		return nil, err
	}
	return p, nil
}

// planFrom builds what a JSON value describes, by the builders' own rules.
func planFrom(v any, depth int) *Plan {
	m := membersOf(v)
	node := Node(m.required("node"))
	request, response := m.object("request"), m.object("response")
	children, maybe := m.list("children"), m.flag("optional_occurrence")
	if err := m.done(); err != nil {
		return &Plan{err: err.at("plan")}
	}
	switch node {
	case NodeLeaf:
		if len(children) > 0 {
			return &Plan{err: failure("unwanted_children", "a leaf has no children").at("leaf")}
		}
		return leafPlanFrom(request, response, maybe)
	case NodeSequence, NodeOptional, NodeOneOf, NodeRound:
		if request != nil || response != nil || maybe {
			return &Plan{err: failure("not_a_leaf", "only a leaf has a request, a response or optional_occurrence").at(string(node))}
		}
		if depth > maxPlanDepth {
			return &Plan{err: failure("too_deep", "it nests too deep").at(string(node))}
		}
		return compositeFrom(node, children, depth)
	default:
		return &Plan{err: failure("bad_node", "the node "+quote(string(node))+" is none of leaf, sequence, optional, one_of, round_of").at("plan")}
	}
}

func compositeFrom(node Node, children []any, depth int) *Plan {
	if node == NodeOptional && len(children) != 1 {
		return &Plan{err: failure("too_few", "it needs exactly one child").at(string(node))}
	}
	plans := make([]*Plan, len(children))
	for i, child := range children {
		plans[i] = planFrom(child, depth+1)
	}
	return compose(node, plans)
}

func leafPlanFrom(request, response map[string]any, maybe bool) *Plan {
	if request == nil {
		return &Plan{err: failure("missing", "a leaf needs a request").at("leaf")}
	}
	p := newLeaf(leafFrom(membersOf(request)), maybe)
	if p.err != nil || response == nil {
		return p
	}
	r, err := responseFrom(membersOf(response))
	if err != nil {
		return p.broken(err.Details["reason"].(string), err.Message)
	}
	if r.Action != ActionAccept {
		return p.bind(r)
	}
	parts := []ResponsePart{r.Meta}
	if r.Content != nil {
		parts = append(parts, r.Content)
	}
	return p.Accept(parts...)
}
