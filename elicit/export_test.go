package elicit

import "encoding/json"

// Rule is one rule of matching, for the tests that leave one out.
type Rule = rule

// Rules are all rules of matching, by name.
var Rules = map[string]Rule{
	"key": ruleKey, "mode": ruleMode, "message": ruleMessage, "schema": ruleSchema, "url": ruleURL, "elicitation id": ruleElicitationID,
	"server": ruleServer, "operation kind": ruleKind, "operation name": ruleName, "a round is never ignored": ruleConsume,
	"a leaf is one request": ruleOneRequest, "Round takes the whole round": ruleWholeRound, "optional may be skipped": ruleSkip,
	"every branch is tried": ruleEveryBranch, "different answers are ambiguous": ruleAmbiguous, "equal answers are not": ruleEqual,
	"every candidate goes on": ruleKeepAll, "required leaves are used": ruleComplete, "a sequence is in order": ruleOrder,
}

// LastRule is the highest rule.
const LastRule = ruleOrder

// NewMatcherWithout is a matcher that leaves a rule out.
func NewMatcherWithout(plan *Plan, dropped Rule) (*Matcher, error) { return newMatcher(plan, dropped) }

// Visited is how much the matcher has looked at so far: places walked through and leaves compared.
func (m *Matcher) Visited() int { return m.visited }

// Candidates is how many items may come next.
func (m *Matcher) Candidates() int { return len(m.next) }

// CanonicalNumber is the one spelling of a number.
func CanonicalNumber(s string) string { return string(appendCanonicalNumber(nil, json.Number(s))) }

// CheckNumber says whether s is a number.
func CheckNumber(s string) error { return checkNumber(s) }

// ParseValue reads one JSON value strictly.
func ParseValue(b []byte) (any, error) { return parse(b, maxText) }

// Canonical is the one spelling of a value that ParseValue read.
func Canonical(v any) string { return canonical(v) }

// The bounds of plans.
const (
	MaxPlanDepth = maxPlanDepth
	MaxPlanSize  = maxPlanSize
	MaxDepth     = maxDepth
)
