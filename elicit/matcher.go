package elicit

// Matcher follows one call through a plan. It is for one call, and one goroutine at a time.
type Matcher struct{}

// NewMatcher starts at the beginning of a plan. A plan that is nil, broken or incomplete is a [*PlanError].
func NewMatcher(plan *Plan) (*Matcher, error) { panic("todo") }

// Round answers one round: the requests that a server makes at once, each with a key of its own. It returns the response to each key, as copies. A round that the plan does
// not expect, or that two ways through it answer differently, is an [*ExpectationError], and so is everything after it.
func (m *Matcher) Round(requests []Request) (map[string]Response, error) { panic("todo") }

// Complete says, after the operation's result, whether the plan is used up: an [*ExpectationError] when a required leaf was not asked for.
func (m *Matcher) Complete() error { panic("todo") }
