package expect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

// fakeT notes what a matcher does to a test.
type fakeT struct {
	name    string
	errors  []string
	stopped bool
}

func (f *fakeT) Helper()      {}
func (f *fakeT) Name() string { return f.name }
func (f *fakeT) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
func (f *fakeT) FailNow() { f.stopped = true }

// story builds the trace of a direct execution, one event a millisecond.
type story struct {
	arena *trace.Arena
	n     int
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newStory() *story {
	s := &story{arena: trace.NewArena()}
	s.event(&trace.Event{Kind: trace.KindExecutionCreated, Phase: trace.PhasePreflight, Payload: trace.JSON(`{"kind":"direct"}`)})
	return s
}

func (s *story) event(ev *trace.Event) {
	ev.Server, ev.ConnectionID = "shipping", "c1"
	ev.Source = trace.Source{Origin: trace.OriginWire, Source: "mcp"}
	ev.Offset = time.Duration(s.n) * time.Millisecond
	ev.Time = began.Add(ev.Offset)
	s.n++
	s.arena.Append(ev)
}

func (s *story) frame(kind trace.Kind, dir trace.Direction, id, method, body string, edit ...func(*trace.Event)) {
	ev := &trace.Event{Kind: kind, Phase: trace.PhaseMCPCall, RPCID: trace.RPCID(id), Method: method,
		Frame: &trace.Frame{Direction: dir, Framing: trace.FramingLine, Bytes: []byte(body + "\n")}}
	for _, f := range edit {
		f(ev)
	}
	s.event(ev)
}

// call adds a call and its result.
func (s *story) call(id, tool, args, result string, edit ...func(*trace.Event)) *story {
	s.frame(trace.KindMCPRequest, trace.ClientToServer, id, "tools/call", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args), edit...)
	if result != "" {
		s.frame(trace.KindMCPResponse, trace.ServerToClient, id, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result), edit...)
	}
	return s
}

func (s *story) view(t *testing.T, limitations string) trace.View {
	t.Helper()
	if limitations == "" {
		limitations = "[]"
	}
	s.event(&trace.Event{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Payload: trace.JSON(`{"outcome":"completed","limitations":` + limitations + `}`)})
	view, err := trace.New("e1", s.arena).View()
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// own marks an event as m3's.
func own(ev *trace.Event) { ev.Own = true }

// hidden marks the byte range of a text in a frame as redacted.
func hidden(text string) func(*trace.Event) {
	return func(ev *trace.Event) {
		if i := strings.Index(string(ev.Frame.Bytes), text); i >= 0 {
			ev.Redactions = append(ev.Redactions, trace.Redaction{Offset: int64(i), Length: int64(len(text)), OriginalOffset: int64(i), OriginalLength: 12})
		}
	}
}

const okResult = `{"content":[{"type":"text","text":"7.00 EUR"},{"type":"text","text":"in 2 days"}],"structuredContent":{"price":7,"id":9007199254740993}}`

func twoQuotes() *story {
	return newStory().
		call("1", "quote", `{"weight_kg":2}`, okResult).
		call("2", "quote", `{"weight_kg":-1}`, `{"content":[{"type":"text","text":"too light"}],"isError":true}`).
		call("3", "echo", `{}`, `{"content":[]}`).
		call("4", "quote", `{"weight_kg":99}`, okResult, own)
}

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
		"m3's own":         {tool: "quote", opts: []expect.CallOption{expect.WithArguments(m3.Args{"weight_kg": 99})}, failure: []string{"2 calls of \"quote\", 0 as expected", "call 1, at +1ms: arguments (-want +got)", `"99"`}},
		"wrong status":     {tool: "echo", opts: []expect.CallOption{expect.ToolError()}, failure: []string{"status is success, want tool_error"}},
		"why it failed":    {tool: "quote", opts: []expect.CallOption{expect.Succeeded(), expect.WithArguments(m3.Args{"weight_kg": -1})}, failure: []string{`status is tool_error, want success: "too light"`}},
		"big numbers":      {tool: "quote", opts: []expect.CallOption{expect.ResultStructured(map[string]any{"price": 7, "id": int64(9007199254740992)})}, failure: []string{"9007199254740993"}},
		"no structured":    {tool: "echo", opts: []expect.CallOption{expect.ResultStructured(nil)}, failure: []string{"there is no structured content"}},
		"slow":             {tool: "quote", opts: []expect.CallOption{expect.Latency(expect.Below(time.Millisecond))}, failure: []string{"latency is 1ms, want below 1ms"}},
		"too many":         {tool: "quote", opts: []expect.CallOption{expect.Times(1)}, failure: []string{"2 calls of \"quote\", want exactly 1"}},
		"too few":          {tool: "quote", opts: []expect.CallOption{expect.Times(3)}, failure: []string{"want exactly 3"}},
		"unwanted":         {tool: "echo", opts: []expect.CallOption{expect.Times(0)}, failure: []string{"1 call of \"echo\", want exactly 0"}},
		"not JSON":         {tool: "quote", opts: []expect.CallOption{expect.WithArguments(make(chan int))}, failure: []string{"cannot tell", "the expected arguments cannot be written as JSON"}},
		"negative times":   {tool: "quote", opts: []expect.CallOption{expect.Times(-1)}, failure: []string{"cannot tell", "Times(-1)"}},
		"negative latency": {tool: "quote", opts: []expect.CallOption{expect.Latency(expect.Below(-1))}, failure: []string{"the bound must be positive"}},
	} {
		tc.name = name
		t.Run(name, func(t *testing.T) { run(t, tc) })
	}
}

func checkFailure(t *testing.T, f *fakeT, got bool, want []string) {
	t.Helper()
	if got != (len(want) == 0) || got != (len(f.errors) == 0) {
		t.Fatalf("held = %v with %d errors, want %v: %q", got, len(f.errors), len(want) == 0, f.errors)
	}
	for _, part := range want {
		if !strings.Contains(f.errors[0], part) {
			t.Errorf("the message lacks %q:\n%s", part, f.errors[0])
		}
	}
	if f.stopped {
		t.Error("That stopped the test")
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
	checkFailure(t, f, got, []string{"did not hold", "status is success"})
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
		"not containing":  {check: func(e *expect.Expectation) bool { return e.TextContaining("three") }, failure: []string{`"three" does not occur in the text "one\ntwo"`}},
		"other structure": {check: func(e *expect.Expectation) bool { return e.StructuredContent(m3.Args{"n": 2}) }, failure: []string{"structured content (-want +got)", "list"}},
		"a tool call":     {check: func(e *expect.Expectation) bool { return e.ToolCall("x") }, failure: []string{"cannot tell", "give it the view"}},
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
		"text":       {"hello", "string is no subject"},
		"nil client": {(*m3.Client)(nil), "the client is nil"},
		"nil result": {(*m3.ToolCallResult)(nil), "the result is nil"},
		"nil view":   {(*trace.View)(nil), "the view is nil"},
		"a view":     {newStory().view(t, ""), "ask ToolCall with expect.ResultText"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeT{name: t.Name()}
			checkFailure(t, f, expect.That(f, tc.subject).Text("x"), []string{"cannot tell", tc.want})
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
	var failures []expect.Failure
	kept := map[trace.ExecutionID]string{"e7": "m3 show e7"}
	outer := &fakeT{name: t.Name()}
	stop := expect.Observe(outer, &expect.Observer{
		Redact:     func(s string) string { return strings.ReplaceAll(s, "hunter22", "[redacted]") },
		Executions: func() []trace.ExecutionID { return []trace.ExecutionID{"e7"} },
		Command:    func(id trace.ExecutionID) string { return kept[id] },
		Failed:     func(f expect.Failure) { failures = append(failures, f) },
	})
	inner := &fakeT{name: t.Name() + "/sub"}
	r := &m3.ToolCallResult{Content: []m3.Content{{Type: "text", Text: "hunter22"}}, StructuredContent: trace.JSON(`{"key":"hunter22"}`)}
	expect.That(inner, r).Text("other")
	expect.That(inner, r).StructuredContent(m3.Args{"key": "hunter23"})
	expect.That(inner, r).Text("hunter22")
	expect.That(inner, newStory().view(t, "")).ToolCall("x")
	stop()
	expect.That(inner, r).Text("unobserved")
	if len(failures) != 3 || failures[0].Check != "text" || failures[0].Execution != "e7" || failures[0].Message != inner.errors[0] {
		t.Fatalf("failures: %+v", failures)
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
