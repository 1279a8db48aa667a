package expect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

func TestToolCall(t *testing.T) {
	t.Parallel()
	type testCase struct {
		name    string
		tool    string
		opts    []expect.CallOption
		failure []string // parts of the message; none: it holds
	}
	run := func(t *testing.T, tc testCase) {
		t.Parallel()
		f := &fakeT{name: t.Name()}
		got := expect.That(f, twoQuotes().view(t, "")).ToolCall(tc.tool, tc.opts...)
		checkFailure(t, f, got, tc.failure)
	}
	quote := func(opts ...expect.CallOption) testCase { return testCase{tool: "quote", opts: opts} }
	for name, tc := range map[string]testCase{
		"present":    quote(),
		"succeeded":  quote(expect.Succeeded()),
		"tool error": quote(expect.ToolError(), expect.ResultTextContaining("light")),
		"failed":     quote(expect.Failed(), expect.WithArguments(m3.Args{"weight_kg": -1})),
		"arguments": quote(expect.WithArguments(struct {
			WeightKg float64 `json:"weight_kg"`
		}{2})),
		"text":            quote(expect.ResultText("7.00 EUR\nin 2 days")),
		"structured":      quote(expect.ResultStructured(map[string]any{"price": 7.0, "id": int64(9007199254740993)})),
		"latency":         quote(expect.Latency(expect.Below(2 * time.Millisecond))),
		"exactly two":     quote(expect.Times(2)),
		"one that failed": quote(expect.Failed(), expect.Times(1)),
		"none":            {tool: "add", opts: []expect.CallOption{expect.Times(0)}},

		"absent":           {tool: "add", failure: []string{`tool call "add": did not hold`, "no call of \"add\", want at least one", `called were: "quote" (2 times), "echo"`, "execution e1, if it is recorded: m3 show e1"}},
		"m3's own":         {tool: "quote", opts: []expect.CallOption{expect.WithArguments(m3.Args{"weight_kg": 99})}, failure: []string{"2 calls of \"quote\", 0 as expected", "call at +1ms: arguments (-want +got)", `- 	"weight_kg": 99,`}},
		"wrong status":     {tool: "echo", opts: []expect.CallOption{expect.ToolError()}, failure: []string{"- tool_error", "+ success"}},
		"why it failed":    {tool: "quote", opts: []expect.CallOption{expect.Succeeded(), expect.WithArguments(m3.Args{"weight_kg": -1})}, failure: []string{"- success", `+ tool_error: "too light"`}},
		"big numbers":      {tool: "quote", opts: []expect.CallOption{expect.ResultStructured(map[string]any{"price": 7, "id": int64(9007199254740992)})}, failure: []string{"9007199254740993"}},
		"no structured":    {tool: "echo", opts: []expect.CallOption{expect.ResultStructured(nil)}, failure: []string{"there is no structured content"}},
		"slow":             {tool: "quote", opts: []expect.CallOption{expect.Latency(expect.Below(time.Millisecond))}, failure: []string{"latency (-want +got)", "- below 1ms", "+ 1ms"}},
		"too many":         {tool: "quote", opts: []expect.CallOption{expect.Times(1)}, failure: []string{"2 calls of \"quote\", want exactly 1"}},
		"too few":          {tool: "quote", opts: []expect.CallOption{expect.Times(3)}, failure: []string{"want exactly 3"}},
		"unwanted":         {tool: "echo", opts: []expect.CallOption{expect.Times(0)}, failure: []string{"1 call of \"echo\", want exactly 0"}},
		"not JSON":         {tool: "quote", opts: []expect.CallOption{expect.WithArguments(make(chan int))}, failure: []string{"wrong use", "WithArguments: the expected value, a chan int, cannot be written as JSON"}},
		"negative times":   {tool: "quote", opts: []expect.CallOption{expect.Times(-1)}, failure: []string{"wrong use", "Times(-1)"}},
		"negative latency": {tool: "quote", opts: []expect.CallOption{expect.Latency(expect.Below(-1))}, failure: []string{"wrong use", "Latency: Below(-1ns): the bound must be positive"}},
	} {
		tc.name = name
		t.Run(name, func(t *testing.T) { run(t, tc) })
	}
}

// What is not in the evidence is never equal and never different.
func TestCannotTell(t *testing.T) {
	t.Parallel()
	secret := `"hunter22"`
	redacted := newStory().call("1", "login", `{"key":`+secret+`}`, `{"content":[{"type":"text","text":`+secret+`}],"structuredContent":{"key":`+secret+`}}`, hidden(secret))
	view := redacted.view(t, "")
	for name, tc := range map[string]struct {
		opt   expect.CallOption
		holds bool
	}{
		"arguments equal":  {opt: expect.WithArguments(m3.Args{"key": "hunter22"})},
		"arguments differ": {opt: expect.WithArguments(m3.Args{"key": "other"})},
		"text equal":       {opt: expect.ResultText("hunter22")},
		"text contained":   {opt: expect.ResultTextContaining("hunter")},
		"structured":       {opt: expect.ResultStructured(m3.Args{"key": "other"})},
		"status":           {opt: expect.Succeeded(), holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeT{name: t.Name()}
			var want []string
			if !tc.holds {
				want = []string{"cannot tell", "redacted"}
			}
			checkFailure(t, f, expect.That(f, view).ToolCall("login", tc.opt), want)
			if !tc.holds {
				again := &fakeT{name: t.Name()}
				// Nor is it known to be no match.
				checkFailure(t, again, expect.That(again, view).ToolCall("login", tc.opt, expect.Times(0)), want)
			}
		})
	}
}

func TestViolatedBeatsUnknown(t *testing.T) {
	t.Parallel()
	secret := `"hunter22"`
	view := newStory().call("1", "login", `{"key":`+secret+`}`, `{"content":[]}`, hidden(secret)).view(t, "")
	f := &fakeT{name: t.Name()}
	got := expect.That(f, view).ToolCall("login", expect.WithArguments(m3.Args{}), expect.ToolError())
	checkFailure(t, f, got, []string{"did not hold", "+ success"})
}

func TestPartialTrace(t *testing.T) {
	t.Parallel()
	view := newStory().call("1", "quote", `{}`, okResult).view(t, `[{"code":"capture_incomplete","message":"10 bytes were lost"}]`)
	f := &fakeT{name: t.Name()}
	checkFailure(t, f, expect.That(f, view).ToolCall("quote"), nil)
	for _, want := range []struct {
		tool string
		opt  expect.CallOption
	}{{"add", expect.Succeeded()}, {"add", expect.Times(0)}, {"quote", expect.Times(1)}} {
		f := &fakeT{name: t.Name()}
		checkFailure(t, f, expect.That(f, view).ToolCall(want.tool, want.opt), []string{"cannot tell", "the trace is partial (capture_incomplete: 10 bytes were lost)"})
	}
	f = &fakeT{name: t.Name()}
	checkFailure(t, f, expect.That(f, view).ToolCall("quote", expect.Times(0)), []string{"did not hold"})
}

func TestResult(t *testing.T) {
	t.Parallel()
	r := &m3.ToolCallResult{Content: []m3.Content{{Type: "text", Text: "one"}, {Type: "image"}, {Type: "text", Text: "two"}}, StructuredContent: trace.JSON(`{"n":1.0,"list":[1,2]}`)}
	for name, tc := range map[string]struct {
		check   func(e *expect.Expectation) bool
		failure []string
	}{
		"text":            {check: func(e *expect.Expectation) bool { return e.Text("one\ntwo") }},
		"containing":      {check: func(e *expect.Expectation) bool { return e.TextContaining("ne\nt") }},
		"structured":      {check: func(e *expect.Expectation) bool { return e.StructuredContent(m3.Args{"list": []int{1, 2}, "n": 1}) }},
		"raw":             {check: func(e *expect.Expectation) bool { return e.StructuredContent(trace.JSON(`{"n":10e-1,"list":[1,2]}`)) }},
		"other text":      {check: func(e *expect.Expectation) bool { return e.Text("one") }, failure: []string{"text: did not hold", `- "one"`, `+ "one\ntwo"`}},
		"not containing":  {check: func(e *expect.Expectation) bool { return e.TextContaining("three") }, failure: []string{`- containing "three"`, `+ "one\ntwo"`}},
		"other structure": {check: func(e *expect.Expectation) bool { return e.StructuredContent(m3.Args{"n": 2}) }, failure: []string{"structured content (-want +got)", "list"}},
		"a tool call":     {check: func(e *expect.Expectation) bool { return e.ToolCall("x") }, failure: []string{"wrong use", "give it the view"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeT{name: t.Name()}
			checkFailure(t, f, tc.check(expect.That(f, r)), tc.failure)
		})
	}
}

func TestUnusableSubjects(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		subject any
		want    string
	}{
		"nil":        {nil, "<nil> is no subject"},
		"number":     {42, "int is no subject"},
		"a turn":     {trace.TurnID("t1"), "use expect.InTurn(turn)"},
		"nil client": {(*m3.Client)(nil), "the client is nil"},
		"nil result": {(*m3.ToolCallResult)(nil), "the subject is a nil *m3.ToolCallResult"},
		"nil view":   {(*trace.View)(nil), "the view is nil"},
		"a view":     {newStory().view(t, ""), "ask ToolCall with expect.ResultText"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeT{name: t.Name()}
			checkFailure(t, f, expect.That(f, tc.subject).Text("x"), []string{"wrong use", tc.want})
		})
	}
}

func TestRequireStops(t *testing.T) {
	t.Parallel()
	f := &fakeT{name: t.Name()}
	if expect.Require(f, &m3.ToolCallResult{}).Text("x") || !f.stopped || len(f.errors) != 1 {
		t.Errorf("stopped = %v, errors %q", f.stopped, f.errors)
	}
	f = &fakeT{name: t.Name()}
	if !expect.Require(f, &m3.ToolCallResult{}).Text("") || f.stopped {
		t.Error("Require stopped a test whose expectation held")
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 50_000)
	f := &fakeT{name: t.Name()}
	expect.That(f, &m3.ToolCallResult{Content: []m3.Content{{Type: "text", Text: long}}}).Text(long + "!")
	list := make([]string, 5000)
	for i := range list {
		list[i] = fmt.Sprint("item ", i)
	}
	expect.That(f, &m3.ToolCallResult{StructuredContent: trace.JSON(`[]`)}).StructuredContent(list)
	expect.That(f, &m3.ToolCallResult{StructuredContent: trace.JSON(`{"text":"` + long + `"}`)}).StructuredContent(m3.Args{"text": long + "!"})
	if len(f.errors) != 3 {
		t.Fatalf("%d errors, want 3", len(f.errors))
	}
	mostBytes := []int{2*2000 + 300, 6000, 2*4000 + 300} // a diff is cut before it is indented
	for i, most := range mostBytes {
		if len(f.errors[i]) > most {
			t.Errorf("message %d has %d bytes, at most %d are allowed", i, len(f.errors[i]), most)
		}
	}
	if !strings.Contains(f.errors[1], "diff truncated") {
		t.Errorf("the long diff does not say that it is cut:\n%s", f.errors[1])
	}
}

func TestObserver(t *testing.T) {
	t.Parallel()
	var checks []*expect.Check
	kept := map[trace.ExecutionID]string{"e7": "m3 show e7"}
	outer := &fakeT{name: t.Name()}
	stop := expect.Observe(outer, &expect.Observer{
		Redact:     func(s string) string { return strings.ReplaceAll(s, "hunter22", "[redacted]") },
		Executions: func() []trace.ExecutionID { return []trace.ExecutionID{"e7"} },
		Command:    func(id trace.ExecutionID) string { return kept[id] },
		Checked:    func(c *expect.Check) { checks = append(checks, c) },
	})
	inner := &fakeT{name: t.Name() + "/sub"}
	r := &m3.ToolCallResult{Content: []m3.Content{{Type: "text", Text: "hunter22"}}, StructuredContent: trace.JSON(`{"key":"hunter22"}`)}
	expect.That(inner, r).Text("other")
	expect.That(inner, r).StructuredContent(m3.Args{"key": "hunter23"})
	expect.That(inner, r).Text("hunter22")
	expect.That(inner, newStory().view(t, "")).ToolCall("x", expect.OnServer("shop"))
	stop()
	expect.That(inner, r).Text("unobserved")
	if len(checks) != 4 || len(inner.errors) != 4 {
		t.Fatalf("%d checks, %d errors", len(checks), len(inner.errors))
	}
	want := expect.Check{Test: inner.name, Matcher: "text", Title: "text", Arguments: trace.JSON(`{"text":"other"}`), Status: eval.Failed, Message: inner.errors[0], Execution: "e7", SubjectKind: "tool_call_result"}
	if diff := cmp.Diff(&want, checks[0], cmpopts.IgnoreFields(expect.Check{}, "Began", "Duration")); diff != "" {
		t.Errorf("the first check (-want +got):\n%s", diff)
	}
	if c := checks[2]; c.Status != eval.Passed || c.Message != "" || string(c.Arguments) != `{"text":"[redacted]"}` || c.Began.IsZero() || c.Duration <= 0 {
		t.Errorf("the check that held: %+v", c)
	}
	if c := checks[3]; c.Matcher != "tool_call" || c.Selector != "shop/x" || c.SubjectKind != "view" || c.Execution != "e1" {
		t.Errorf("the check of a tool: %+v", c)
	}
	for _, text := range inner.errors[:2] {
		if strings.Contains(text, "hunter22") || !strings.Contains(text, "execution e7, open it with: m3 show e7") {
			t.Errorf("not redacted, or without the execution: %s", text)
		}
	}
	if !strings.Contains(inner.errors[2], "execution e1, not recorded") {
		t.Errorf("an execution that is not kept: %s", inner.errors[2])
	}
}
