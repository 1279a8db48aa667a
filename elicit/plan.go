package elicit

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
	node Node
}

// Form expects one form request with this key.
func Form(key string, opts ...FormOption) *Plan { panic("todo") }

// MaybeForm expects one form request with this key, or none.
func MaybeForm(key string, opts ...FormOption) *Plan { panic("todo") }

// URL expects one URL request with this key.
func URL(key string, opts ...URLOption) *Plan { panic("todo") }

// MaybeURL expects one URL request with this key, or none.
func MaybeURL(key string, opts ...URLOption) *Plan { panic("todo") }

// Sequence expects two or more complete plans, one after the other. A key may come again in another round.
func Sequence(plans ...*Plan) *Plan { panic("todo") }

// Optional expects a complete plan, or nothing.
func Optional(plan *Plan) *Plan { panic("todo") }

// OneOf expects exactly one of two or more complete plans. They must differ, and none may be one that can match nothing: write
// Optional(OneOf(…)) for that.
func OneOf(plans ...*Plan) *Plan { panic("todo") }

// Round expects one round with exactly the requests of two or more bound leaves, in any order. The leaves are required ones, and their keys differ.
func Round(plans ...*Plan) *Plan { panic("todo") }

// Accept returns the leaf with the answer accept. A form needs a [Content], which may be empty; a URL refuses one. A [Meta] goes out as the
// response's _meta.
func (p *Plan) Accept(parts ...ResponsePart) *Plan { panic("todo") }

// Decline returns the leaf with the answer decline.
func (p *Plan) Decline(meta ...Meta) *Plan { panic("todo") }

// Cancel returns the leaf with the answer cancel.
func (p *Plan) Cancel(meta ...Meta) *Plan { panic("todo") }

// Err says what is wrong with how the plan was built: nil, or the first [*PlanError]. A leaf that has no answer yet is not in error.
func (p *Plan) Err() error { panic("todo") }

// Node is the kind of the plan's root; empty for a nil or a zero plan.
func (p *Plan) Node() Node { panic("todo") }

// Request is a copy of what a leaf expects; nil unless the plan is a leaf.
func (p *Plan) Request() Expectation { panic("todo") }

// Response is a copy of a leaf's answer; nil unless the plan is a leaf that has one.
func (p *Plan) Response() *Response { panic("todo") }

// Children are the plans that a composite was made of; none for a leaf.
func (p *Plan) Children() []*Plan { panic("todo") }

// OptionalOccurrence reports whether the plan is a leaf that may stay unused: [MaybeForm], [MaybeURL].
func (p *Plan) OptionalOccurrence() bool { panic("todo") }

// IsComplete reports whether the plan can be attached to a call: nothing is wrong with it and every leaf has an answer.
func (p *Plan) IsComplete() bool { panic("todo") }

// CanonicalIdentity is [Plan.CanonicalJSON].
func (p *Plan) CanonicalIdentity() (string, error) { panic("todo") }

// CanonicalJSON is the plan as JSON in one form: members sorted, no spaces, each number in one spelling. Two plans that expect and answer the same in
// the same way have the same. It is a [*PlanError] unless the plan is complete.
func (p *Plan) CanonicalJSON() (string, error) { panic("todo") }

// MarshalJSON writes the plan; numbers stay as they were given. It is a [*PlanError] unless the plan is complete.
func (p *Plan) MarshalJSON() ([]byte, error) { panic("todo") }

// UnmarshalJSON reads a complete plan into a zero one. See [Parse] for what it refuses.
func (p *Plan) UnmarshalJSON(b []byte) error { panic("todo") }

// Parse reads a complete plan from JSON. What is no JSON, an unknown member, a member twice, nesting beyond reason, and everything that
// the builders refuse is a [*PlanError].
func Parse(b []byte) (*Plan, error) { panic("todo") }
