package expect_test

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

// ended is like the result of an agent: finished, with a final answer.
type ended struct{ view trace.View }

func (r *ended) View() trace.View { return r.view }
func (r *ended) Text() string     { return "It costs 7.00 EUR." }

// turnOf is like a turn of it.
type turnOf struct {
	id   trace.TurnID
	text string
}

func (t *turnOf) SelectTurn() trace.TurnID { return t.id }
func (t *turnOf) Text() string             { return t.text }

// session is like one that may be open.
type session struct {
	view trace.View
	err  error
}

func (s *session) View() (trace.View, error) { return s.view, s.err }

// TestAgentSubjects asks of results, turns and sessions.
func TestAgentSubjects(t *testing.T) {
	t.Parallel()
	view := agent().view(t, "")
	first, second := &turnOf{"t1", "7.00 EUR"}, &turnOf{"t2", "Paid."}
	for name, tt := range map[string]struct {
		subject any
		check   check
		failure []string
	}{
		"a result":                 {subject: &ended{view}, check: call("quote", expect.Times(3))},
		"its answer":               {subject: &ended{view}, check: func(e *expect.Expectation) bool { return e.Text("It costs 7.00 EUR.") }},
		"another answer":           {subject: &ended{view}, check: func(e *expect.Expectation) bool { return e.TextContaining("9.00") }, failure: []string{"did not hold", "7.00 EUR", "execution e1"}},
		"a turn of it":             {subject: &ended{view}, check: call("quote", expect.InTurn(first), expect.Times(2))},
		"the other turn":           {subject: &ended{view}, check: call("quote", expect.InTurn(second), expect.Times(1))},
		"an answer in its turn":    {subject: &ended{view}, check: call("pay", expect.InTurn(first)), failure: []string{"no call of \"pay\""}},
		"what a turn says":         {subject: second, check: func(e *expect.Expectation) bool { return e.TextMatching("^Paid") }},
		"a turn has no view":       {subject: second, check: call("pay"), failure: []string{"wrong use", "a turn has no view of its own", "expect.InTurn(turn)"}},
		"a finished session":       {subject: &session{view: view}, check: call("pay", expect.Times(2))},
		"an open session":          {subject: &session{err: trace.ErrNotFinalized}, check: call("pay"), failure: []string{"not finalized", "close it first"}},
		"no result":                {subject: (*ended)(nil), check: call("pay"), failure: []string{"nil *expect_test.ended", "did the call return an error?"}},
		"told":                     {subject: view, check: call("quote", expect.Reported(), expect.Times(3))},
		"told with another result": {subject: view, check: call("quote", expect.Reported(), expect.ResultText("1.00 EUR"), expect.Times(1))},
		"what really came":         {subject: view, check: call("quote", expect.WithArguments(m3.Args{"kg": 2}), expect.ResultTextContaining("7.00 EUR"))},
		"a hidden call":            {subject: view, check: call("quote", expect.Reported(), expect.WithArguments(m3.Args{"kg": 3})), failure: []string{"did not hold"}},
		"a call never made":        {subject: view, check: call("quote", expect.WithArguments(m3.Args{"kg": 4})), failure: []string{"did not hold", "the agent reported 1 such call that did not pass on the wire"}},
		"either":                   {subject: view, check: call("quote", expect.Any(), expect.Times(4))},
		"equal calls on the wire":  {subject: view, check: call("pay", expect.Times(2))},
		"equal calls as told":      {subject: view, check: call("pay", expect.Reported(), expect.Times(2))},
		"equal calls on either":    {subject: view, check: call("pay", expect.Any(), expect.Times(2)), failure: []string{"cannot tell", "may be one of the calls on the wire (ambiguous)"}},
		"at least those":           {subject: view, check: call("pay", expect.Any(), expect.MinTimes(2))},
		"by the agent's name":      {subject: view, check: call("bash", expect.Reported(), expect.Times(1))},
		"a refused call":           {subject: view, check: call("cancel_order", expect.Times(1)), failure: []string{"m3 refused 2 such calls", "expect.Denied()"}},
		"a refused call, told":     {subject: view, check: call("cancel_order", expect.Reported(), expect.Times(1), expect.ToolError())},
		"refused, on either":       {subject: view, check: call("cancel_order", expect.Any(), expect.Times(1))},
		"no refused call":          {subject: view, check: func(e *expect.Expectation) bool { return e.NoToolCall("quote", expect.Denied()) }},
		"all on the wire":          {subject: view, check: list([]string{"quote", "quote", "quote", "pay", "pay"})},
		"all refused":              {subject: view, check: list([]string{"cancel_order", "cancel_order"}, expect.Denied())},
		"all told":                 {subject: view, check: list([]string{"quote", "quote", "quote", "pay", "pay", "cancel_order", "bash"}, expect.Reported(), expect.Unordered())},
		"all of one turn":          {subject: view, check: list([]string{"quote", "quote"}, expect.Any(), expect.InTurn(first))},
		"all on either":            {subject: view, check: list([]string{"quote", "quote", "quote", "quote", "pay", "pay", "cancel_order", "bash"}, expect.Any(), expect.Unordered()), failure: []string{"cannot tell", "2 calls that may be calls on the wire"}},
		"too few on either":        {subject: view, check: list([]string{"quote"}, expect.Any()), failure: []string{"did not hold"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeT{name: t.Name()}
			checkFailure(t, f, tt.check(expect.That(f, tt.subject)), tt.failure)
		})
	}
}

func list(names []string, opts ...expect.CallsOption) check {
	return func(e *expect.Expectation) bool { return e.ToolCalls(names, opts...) }
}
