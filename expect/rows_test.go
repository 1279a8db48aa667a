package expect_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

type check = func(e *expect.Expectation) bool

// try is a subject and what is asked about it.
type try struct {
	subject any
	check   check
}

// row is what the suite knows of a matcher or of an option.
type row struct {
	holds []try // what passes
	fails []try // what does not: the messages are in testdata/messages.txt
	// unknown is what cannot be told, by what became of the evidence: unavailable, redacted, truncated. Where that cannot be, always says why.
	unknown map[string]try
	always  string
	misuse  map[string]try // wrong arguments, by a part of the message
}

const (
	inHand = "the subject is in hand, all of it"
	counts = "it only counts what others have judged"
	scopes = "where to look is not a matter of evidence"
)

// world is what the rows ask about.
type world struct {
	t         *testing.T
	shop      trace.View // something of everything
	lossy     trace.View // the same, and something was lost
	failed    trace.View // ended with an error
	open      trace.View // a snapshot
	two       trace.View // two servers
	redacted  trace.View // one call, all of it redacted
	truncated trace.View // one call, its answer cut off
	cut       trace.View // one call, its request cut off
	gone      trace.View // one call, its answer lost
	goneAll   trace.View // one call, its request lost
	hidden    trace.View // payloads that say what they do not show
	bare      trace.View // nothing happened
	quote     *m3.ToolCallResult
	sorry     *m3.ToolCallResult
	prompt    *m3.PromptResult
	tools     []m3.ToolInfo
}

func newWorld(t *testing.T) *world {
	t.Helper()
	const secret = `"hunter22"`
	hide := hidden(secret)
	w := &world{
		t: t, shop: shop().view(t, ""),
		lossy:  shop().view(t, lossy),
		failed: newStory().call("1", "quote", `{}`, "").end(t, `{"outcome":"timed_out","limitations":[],"error":{"code":"timeout","message":"no answer within 1s"}}`),
		open:   shop().snapshot(t),
		two: newStory().add(trace.KindTransportConnected, `{"phase":"connected","transport":"stdio"}`).
			add(trace.KindMCPInitialized, `{"protocol_version":{"state":"observed","value":"2025-11-25"},"capabilities":{"state":"observed","value":{"tools":{}}}}`).
			call("1", "quote", `{}`, okResult).call("2", "only", `{}`, okResult).on("billing").
			add(trace.KindTransportConnected, `{"phase":"connected","transport":"pipe"}`).
			add(trace.KindMCPInitialized, `{"protocol_version":{"state":"observed","value":"2025-06-18"},"capabilities":{"state":"observed","value":{"prompts":{}}}}`).
			call("1", "quote", `{}`, okResult).ask("3", "tools/list", `{}`, `"result":{"tools":[{"name":"only"},{"name":"pay"}]}`).view(t, ""),
		redacted: newStory().call("1", "quote", `{"key":`+secret+`}`, `{"content":[{"type":"text","text":`+secret+`}],"structuredContent":{"key":`+secret+`}}`, hide).
			ask("6", "tools/call", `{"name":"book"}`, `"result":{"resultType":"input_required","inputRequests":{"address":{"method":"elicitation/create","params":{"message":`+secret+`}}},"requestState":"s1"}`, hide).
			ask("7", "tools/call", `{"name":"book","requestState":"s1","inputResponses":{"address":{"action":`+secret+`,"content":`+secret+`}}}`, `"result":{"content":[]}`, hide).view(t, ""),
		truncated: newStory().call("1", "quote", `{}`, okResult, cutOff).view(t, ""),
		cut:       newStory().call("1", "quote", `{}`, okResult, cutRequest).view(t, ""),
		gone:      newStory().call("1", "quote", `{}`, okResult, gone(trace.ServerToClient)).view(t, ""),
		goneAll: newStory().call("1", "quote", `{}`, okResult, gone(trace.ClientToServer)).
			ask("6", "tools/call", `{"name":"book","arguments":{}}`, asked).
			ask("7", "tools/call", retried, `"result":{"content":[]}`).view(t, ""),
		hidden: newStory().
			add(trace.KindTransportConnected, `{"phase":"connected"}`).
			add(trace.KindMCPInitialized, `{"protocol_version":{"state":"redacted","reason":"redacted_by_policy"},"capabilities":{"state":"unavailable","reason":"capture_failed"}}`).
			add(trace.KindToolCallRequested, `{"call_id":"r1","tool":{"state":"observed","value":"search"},"arguments":{"state":"truncated","reason":"evidence_truncated"}}`).
			add(trace.KindArtifactRecorded, `{"media_type":"text/plain"}`).
			add(trace.KindWorkspaceChanged, `{"change":{"state":"truncated","reason":"evidence_truncated"}}`).view(t, ""),
		bare:  newStory().view(t, ""),
		quote: &m3.ToolCallResult{Content: []m3.Content{{Type: "text", Text: "7.00 EUR"}, {Type: "image", Raw: trace.JSON(`{"type":"image","data":"AA==","mimeType":"image/png"}`)}, {Type: "text", Text: "in 2 days"}}, StructuredContent: trace.JSON(`{"price":7.0,"tags":["a","b"],"code":"EUR-1"}`)},
		sorry: &m3.ToolCallResult{Content: []m3.Content{{Type: "text", Text: "too light"}}, IsError: true},
		prompt: &m3.PromptResult{Messages: []m3.PromptMessage{{Role: "user", Content: m3.Content{Type: "text", Text: "Hello"}}},
			Raw: trace.JSON(`{"messages":[{"role":"user","content":{"type":"text","text":"Hello"}}]}`)},
		tools: []m3.ToolInfo{{Name: "quote", Raw: trace.JSON(`{"name":"quote","inputSchema":{}}`)}, {Name: "echo", Raw: trace.JSON(`{"name":"echo","inputSchema":{}}`)}},
	}
	return w
}

// failedBy is an execution that ended with the error.
func (w *world) failedBy(err string) trace.View {
	return newStory().end(w.t, `{"outcome":"failed","limitations":[],"error":`+err+`}`)
}

// flooded is an execution with more findings than are kept.
func (w *world) flooded() trace.View {
	return newStory().add(trace.KindFinding, `{"code":"findings-truncated","severity":"note","message":"12 more","frame_sequence":-1,"offset":-1}`).view(w.t, "")
}

// pending is an execution with a request that nobody answered.
func (w *world) pending() trace.View {
	return newStory().ask("6", "tools/call", `{"name":"book","arguments":{}}`, asked).view(w.t, "")
}

// unanswered is an execution with a request whose answer is not JSON any more.
func (w *world) unanswered() trace.View {
	return newStory().add(trace.KindElicitationRequest, `{"round_index":1,"request_key":"address","mode":"form","input_responses":{"state":"unavailable","reason":"capture_failed"}}`).view(w.t, "")
}

func call(name string, opts ...expect.CallOption) check {
	return func(e *expect.Expectation) bool { return e.ToolCall(name, opts...) }
}

func structured(v any, opts ...expect.CompareOption) check {
	return func(e *expect.Expectation) bool { return e.StructuredContent(v, opts...) }
}

func asking(key string, opts ...expect.ElicitationOption) check {
	return func(e *expect.Expectation) bool { return e.Elicitation(key, opts...) }
}

func failing(opts ...expect.ErrorOption) check {
	return func(e *expect.Expectation) bool { return e.Error(opts...) }
}

func lasting(b expect.Bound) check {
	return func(e *expect.Expectation) bool { return e.Duration(b) }
}

var errShop = errors.New("the shop is closed")

// coded is an error with a code.
type coded struct{ error }

func (coded) Code() string { return "timeout" }

// rows has a row for each matcher and each option: TestEveryMatcherHasARow compares it with what the package exports.
func (w *world) rows() map[string]row {
	all := map[string]row{}
	for _, part := range []map[string]row{w.resultRows(), w.compareRows(), w.callRows(), w.callResultRows(), w.countRows(), w.executionRows(), w.errorRows(), w.serverRows(), w.traceRows(), w.elicitationRows()} {
		for name, r := range part {
			if _, twice := all[name]; twice {
				panic("two rows for " + name)
			}
			all[name] = r
		}
	}
	return all
}

func (w *world) resultRows() map[string]row {
	type E = *expect.Expectation
	noText := map[string]try{"a list has no text": {w.tools, func(e E) bool { return e.Text("x") }}}
	return map[string]row{
		"Expectation.Text": {
			holds:  []try{{w.quote, func(e E) bool { return e.Text("7.00 EUR\nin 2 days") }}, {"hello", func(e E) bool { return e.Text("hello") }}, {w.prompt, func(e E) bool { return e.Text("Hello") }}},
			fails:  []try{{w.quote, func(e E) bool { return e.Text("7.00 EUR") }}, {"hello", func(e E) bool { return e.Text("") }}},
			always: inHand, misuse: noText,
		},
		"Expectation.TextContaining": {
			holds:  []try{{w.quote, func(e E) bool { return e.TextContaining("EUR\nin") }}},
			fails:  []try{{w.quote, func(e E) bool { return e.TextContaining("USD") }}},
			always: inHand,
		},
		"Expectation.TextMatching": {
			holds:  []try{{w.quote, func(e E) bool { return e.TextMatching(`(?i)\d+\.\d\d eur`) }}},
			fails:  []try{{w.quote, func(e E) bool { return e.TextMatching(`^\d+ days`) }}},
			always: inHand,
			misuse: map[string]try{"TextMatching: \"(\" is no regular expression": {w.quote, func(e E) bool { return e.TextMatching("(") }}},
		},
		"Expectation.Not": {
			holds: []try{{w.quote, func(e E) bool { return e.Not().Text("8.00 EUR") }}, {w.shop, func(e E) bool { return e.Not().ToolCall("pay") }}, {w.quote, func(e E) bool { return e.Not().Not().TextContaining("EUR") }}},
			fails: []try{{w.quote, func(e E) bool { return e.Not().Text("7.00 EUR\nin 2 days") }}, {w.quote, func(e E) bool { return e.Not().TextContaining("EUR") }},
				{w.quote, func(e E) bool { return e.Not().TextMatching("EUR") }}, {w.shop, func(e E) bool { return e.Not().ToolCall("quote", expect.Succeeded()) }}, {w.sorry, func(e E) bool { return e.Not().Error() }}},
			unknown: map[string]try{
				"redacted":    {w.redacted, func(e E) bool { return e.Not().ToolCall("quote", expect.ResultText("x")) }},
				"truncated":   {w.truncated, func(e E) bool { return e.Not().ToolCall("quote", expect.ResultText("x")) }},
				"unavailable": {w.lossy, func(e E) bool { return e.Not().ToolCall("pay") }},
			},
			misuse: map[string]try{"Times(-1)": {w.shop, func(e E) bool { return e.Not().ToolCall("quote", expect.Times(-1)) }}},
		},
		"Expectation.StructuredContent": {
			holds: []try{
				{w.quote, structured(m3.Args{"code": "EUR-1", "price": 7, "tags": []string{"a", "b"}})},
				{w.quote, structured(trace.JSON(`{"code":"EUR-1","price":70e-1,"tags":["a","b"]}`))},
				{w.prompt, structured(m3.Args{"messages": []m3.Args{{"role": "user", "content": m3.Args{"type": "text", "text": "Hello"}}}})},
				{w.tools, structured([]m3.Args{{"name": "quote", "inputSchema": m3.Args{}}, {"name": "echo", "inputSchema": m3.Args{}}})},
				{m3.Args{"a": 1}, structured(map[string]int{"a": 1})},
				{&m3.ToolCallResult{StructuredContent: trace.JSON("null")}, structured(nil)},
			},
			fails: []try{
				{w.quote, structured(m3.Args{"code": "EUR-1", "price": 8, "tags": []string{"a", "b"}})},
				{w.sorry, structured(nil)}, // what is not there equals nothing
				{"a text", structured("a text")},
			},
			always: inHand,
			misuse: map[string]try{
				"StructuredContent: the expected value, a chan int, cannot be written as JSON": {w.quote, structured(make(chan int))},
				"ask ToolCall with expect.ResultStructured":                                    {w.shop, structured(nil)},
				"cannot be written as JSON: json: unsupported type":                            {map[string]any{"f": func() {}}, structured(nil)},
			},
		},
		"Expectation.Content": {
			holds: []try{
				{w.quote, func(e E) bool { return e.Content(w.quote.Content) }},
				{w.sorry, func(e E) bool { return e.Content([]m3.Content{{Type: "text", Text: "too light"}}) }},
				{w.quote, func(e E) bool {
					return e.Content([]m3.Args{{"type": "image"}, {"type": "text", "text": "in 2 days"}, {"text": "7.00 EUR"}}, expect.Unordered(), expect.Partial())
				}},
				{w.prompt, func(e E) bool { return e.Content([]m3.Content{{Type: "text", Text: "Hello"}}) }},
			},
			fails:  []try{{w.quote, func(e E) bool { return e.Content([]m3.Content{{Type: "text", Text: "7.00 EUR"}}) }}},
			always: inHand,
			misuse: map[string]try{"Content: the expected value is no list of blocks": {w.quote, func(e E) bool { return e.Content("text") }}, "a text has no content blocks": {"x", func(e E) bool { return e.Content([]m3.Content{}) }}},
		},
	}
}

func (w *world) compareRows() map[string]row {
	price := func(f func(float64) bool) expect.Predicate {
		return expect.Satisfying(func(q struct{ Price float64 }) bool { return f(q.Price) })
	}
	return map[string]row{
		"Partial": {
			holds:  []try{{w.quote, structured(m3.Args{"price": 7}, expect.Partial())}},
			fails:  []try{{w.quote, structured(m3.Args{"price": 8}, expect.Partial())}, {w.quote, structured(m3.Args{"tags": []string{"a"}}, expect.Partial())}, {w.quote, structured(m3.Args{"days": nil}, expect.Partial())}},
			always: "it loosens a comparison",
		},
		"Unordered": {
			holds: []try{{w.quote, structured(m3.Args{"tags": []string{"b", "a"}}, expect.Unordered(), expect.Partial())}, {w.two, func(e *expect.Expectation) bool {
				return e.ToolCalls([]string{"only", "quote"}, expect.Unordered(), expect.OnServer("shipping"))
			}}},
			fails:  []try{{w.quote, structured(m3.Args{"tags": []string{"b", "c"}}, expect.Unordered(), expect.Partial())}},
			always: "it loosens a comparison",
		},
		"Tolerance": {
			holds:  []try{{w.quote, structured(m3.Args{"price": 7.1}, expect.Tolerance(0.1), expect.Partial())}},
			fails:  []try{{w.quote, structured(m3.Args{"price": 7.11}, expect.Tolerance(0.1), expect.Partial())}},
			always: "it loosens a comparison",
			misuse: map[string]try{
				"Tolerance(NaN)":  {w.quote, structured(1, expect.Tolerance(math.NaN()))},
				"Tolerance(-1)":   {w.quote, structured(1, expect.Tolerance(-1))},
				"Tolerance(+Inf)": {w.shop, call("quote", expect.WithArguments(1, expect.Tolerance(math.Inf(1))))},
			},
		},
		"Regex": {
			holds:  []try{{w.quote, structured(m3.Args{"code": `[A-Z]{3}-\d`}, expect.Regex(), expect.Partial())}},
			fails:  []try{{w.quote, structured(m3.Args{"code": `[A-Z]{3}`}, expect.Regex(), expect.Partial())}},
			always: "it loosens a comparison",
			misuse: map[string]try{"StructuredContent: Regex: \"[\" is no regular expression": {w.quote, structured(m3.Args{"code": []string{"["}}, expect.Regex())}},
		},
		"Satisfying": {
			holds: []try{{w.quote, structured(price(func(p float64) bool { return p == 7 }))}, {w.shop, call("quote", expect.WithArguments(expect.Satisfying(func(a map[string]any) bool { return len(a) == 2 })))}},
			fails: []try{{w.quote, structured(price(func(p float64) bool { return p > 7 }))}, {w.quote, structured(price(func(float64) bool { panic(errShop) }))},
				{w.quote, structured(expect.Satisfying(func([]int) bool { return true }))}},
			unknown: map[string]try{
				"redacted":    {w.redacted, call("quote", expect.WithArguments(expect.Satisfying(func(any) bool { return true })))},
				"truncated":   {w.truncated, call("quote", expect.ResultStructured(expect.Satisfying(func(any) bool { return true })))},
				"unavailable": {w.gone, call("quote", expect.ResultStructured(expect.Satisfying(func(any) bool { return true })))},
			},
			misuse: map[string]try{
				"StructuredContent: the function of Satisfying is nil": {w.quote, structured(expect.Satisfying[int](nil))},
				"Satisfying decides alone":                             {w.quote, structured(expect.Satisfying(func(int) bool { return true }), expect.Partial())},
				"Satisfying stands alone":                              {w.quote, structured(m3.Args{"price": expect.Satisfying(func(int) bool { return true })})},
			},
		},
	}
}

func (w *world) callRows() map[string]row {
	type E = *expect.Expectation
	lost := func(opt expect.CallOption) map[string]try {
		return map[string]try{"redacted": {w.redacted, call("quote", opt)}, "truncated": {w.truncated, call("quote", opt)}, "unavailable": {w.gone, call("quote", opt)}}
	}
	ended := func(opt expect.CallOption) map[string]try { // the status of a redacted result is there
		return map[string]try{"truncated": {w.truncated, call("quote", opt)}, "unavailable": {w.gone, call("quote", opt)}}
	}
	return map[string]row{
		"Expectation.ToolCall": {
			holds: []try{{w.shop, call("quote")}, {w.shop, call(expect.AnyTool, expect.Times(6))}},
			fails: []try{{w.shop, call("pay")}, {w.shop, call("search")}, {w.bare, call(expect.AnyTool)}},
			unknown: map[string]try{
				"unavailable":                  {w.lossy, call("pay")},
				"truncated":                    {w.cut, call("quote")},
				"redacted":                     {w.redacted, call("quote", expect.NoArguments())},
				"ambiguous":                    {w.two, call("quote")},
				"ambiguous by what was listed": {w.two, call("only")},
			},
			misuse: map[string]try{"the tool's name is empty": {w.shop, call("")}, "an option is nil": {w.shop, call("quote", nil)}, "ToolCall asks about an execution": {w.quote, call("quote")}},
		},
		"Expectation.NoToolCall": {
			holds: []try{{w.shop, func(e E) bool { return e.NoToolCall("pay") }}, {w.shop, func(e E) bool { return e.NoToolCall("quote", expect.InTurn(trace.TurnID("t2"))) }}, {w.shop, func(e E) bool { return e.NoToolCall("search") }}},
			fails: []try{{w.shop, func(e E) bool { return e.NoToolCall("quote", expect.ToolError()) }}},
			unknown: map[string]try{
				"unavailable": {w.lossy, func(e E) bool { return e.NoToolCall("pay") }},
				"redacted":    {w.redacted, func(e E) bool { return e.NoToolCall("quote", expect.ResultText("x")) }},
				"truncated":   {w.truncated, func(e E) bool { return e.NoToolCall("quote", expect.ToolError()) }},
			},
			misuse: map[string]try{"NoToolCall: it wants none": {w.shop, func(e E) bool { return e.NoToolCall("quote", expect.Times(1)) }}},
		},
		"Expectation.ToolCalls": {
			holds: []try{
				{w.shop, func(e E) bool { return e.ToolCalls([]string{"quote", "quote", "echo", "echo", "lookup", "book"}) }},
				{w.shop, func(e E) bool { return e.ToolCalls([]string{"quote", "quote"}, expect.InTurn(trace.TurnID("t1"))) }},
				{w.shop, func(e E) bool { return e.ToolCalls([]string{"search"}, expect.Reported()) }},
				{w.bare, func(e E) bool { return e.ToolCalls(nil) }},
			},
			fails: []try{
				{w.shop, func(e E) bool { return e.ToolCalls([]string{"quote", "echo"}) }},
				{w.lossy, func(e E) bool { return e.ToolCalls([]string{"pay", "pay", "pay", "pay", "pay", "pay", "pay"}) }},
				{w.shop, func(e E) bool { return e.ToolCalls(nil, expect.InTurn(trace.TurnID("t1"))) }},
			},
			unknown: map[string]try{
				"unavailable": {w.lossy, func(e E) bool {
					return e.ToolCalls([]string{"quote", "quote", "echo", "echo", "pay", "lookup", "book"})
				}},
				"truncated": {w.cut, func(e E) bool { return e.ToolCalls([]string{"quote"}) }},
				"lost":      {w.goneAll, func(e E) bool { return e.ToolCalls([]string{"quote", "book"}) }},
				"ambiguous": {w.two, func(e E) bool { return e.ToolCalls([]string{"quote"}) }},
			},
			misuse: map[string]try{"ToolCalls: the name of a tool is empty": {w.shop, func(e E) bool { return e.ToolCalls([]string{""}) }}, "an option is nil": {w.shop, func(e E) bool { return e.ToolCalls(nil, nil) }}},
		},
		"Succeeded": {
			holds:   []try{{w.shop, call("quote", expect.Succeeded())}},
			fails:   []try{{w.shop, call("lookup", expect.Succeeded())}, {w.failed, call("quote", expect.Succeeded())}},
			unknown: ended(expect.Succeeded()),
		},
		"ToolError": {
			holds:   []try{{w.shop, call("quote", expect.ToolError(), expect.ResultText("too light"))}},
			fails:   []try{{w.shop, call("lookup", expect.ToolError())}},
			unknown: ended(expect.ToolError()),
		},
		"Failed": {
			holds:   []try{{w.shop, call("lookup", expect.Failed())}, {w.shop, call("quote", expect.Failed(), expect.Times(1))}},
			fails:   []try{{w.shop, call("book", expect.Failed())}},
			unknown: ended(expect.Failed()),
		},
		"Status": {
			holds:   []try{{w.shop, call("lookup", expect.Status(trace.ToolProtocolError))}, {w.shop, call("book", expect.Status(trace.ToolCompleted))}, {w.failed, call("quote", expect.Status(trace.ToolIncomplete))}},
			fails:   []try{{w.shop, call("quote", expect.Status(trace.ToolTimedOut))}},
			unknown: ended(expect.Status(trace.ToolError)),
			misuse:  map[string]try{`Status("ok"): there is no such status`: {w.shop, call("quote", expect.Status("ok"))}},
		},
		"WithArguments": {
			holds: []try{{w.shop, call("quote", expect.WithArguments(m3.Args{"weight_kg": -1}))}, {w.shop, call("quote", expect.WithArguments(m3.Args{"tags": []string{"b", "a"}}, expect.Partial(), expect.Unordered()))},
				{w.shop, call("echo", expect.WithArguments(nil), expect.Times(1))}},
			fails:   []try{{w.shop, call("quote", expect.WithArguments(m3.Args{"weight_kg": 2}))}, {w.shop, call("echo", expect.WithArguments(m3.Args{}))}},
			unknown: map[string]try{"redacted": {w.redacted, call("quote", expect.WithArguments(m3.Args{"key": "x"}))}, "truncated": {w.hidden, call("search", expect.WithArguments(m3.Args{}), expect.Reported())}, "unavailable": {w.goneAll, call("quote", expect.WithArguments(m3.Args{}))}},
			misuse:  map[string]try{"WithArguments: the expected value, a func(), cannot": {w.shop, call("quote", expect.WithArguments(func() {}))}, "WithArguments: an option is nil": {w.shop, call("quote", expect.WithArguments(1, nil))}},
		},
		"NoArguments": {
			holds:   []try{{w.shop, call("echo", expect.NoArguments(), expect.Times(1))}},
			fails:   []try{{w.shop, call("quote", expect.NoArguments())}},
			unknown: map[string]try{"redacted": {w.redacted, call("quote", expect.NoArguments())}, "truncated": {w.hidden, call("search", expect.NoArguments(), expect.Reported())}, "unavailable": {w.goneAll, call("quote", expect.NoArguments())}},
		},
		"Latency": {
			holds:   []try{{w.shop, call("quote", expect.Latency(expect.Below(2*time.Millisecond)))}},
			fails:   []try{{w.shop, call("quote", expect.Latency(expect.AtLeast(time.Second)))}},
			unknown: map[string]try{"unsupported": {w.shop, call("search", expect.Latency(expect.Below(time.Second)), expect.Reported())}, "unavailable": {w.hidden, call("search", expect.Latency(expect.Below(time.Second)), expect.Any())}},
			misuse:  map[string]try{"Latency: the bound is empty": {w.shop, call("quote", expect.Latency(expect.Bound{}))}},
		},
		"Where": {
			holds:  []try{{w.shop, call("book", expect.Where(func(c trace.ToolCallEntry) bool { return len(c.Attempts) == 2 }))}},
			fails:  []try{{w.shop, call("book", expect.Where(func(trace.ToolCallEntry) bool { return false }))}, {w.shop, call("book", expect.Where(func(trace.ToolCallEntry) bool { panic("hunter22") }))}},
			always: "the function sees the states itself",
			misuse: map[string]try{"Where: the function is nil": {w.shop, call("book", expect.Where(nil))}},
		},
		"Reported": {
			holds:   []try{{w.shop, call("search", expect.Reported(), expect.Succeeded(), expect.WithArguments(m3.Args{"q": "parcel"}), expect.ResultText("one hit"))}},
			fails:   []try{{w.shop, call("quote", expect.Reported())}},
			unknown: map[string]try{"truncated": {w.hidden, call("search", expect.Reported(), expect.WithArguments(m3.Args{}))}, "unavailable": {w.lossy, call("quote", expect.Reported())}},
		},
		"Any": {
			holds:   []try{{w.shop, call("search", expect.Any())}, {w.shop, call("quote", expect.Any(), expect.Times(2))}},
			fails:   []try{{w.shop, call("pay", expect.Any())}},
			unknown: lost(expect.ResultText("x")),
		},
	}
}

func (w *world) callResultRows() map[string]row {
	lost := func(opt func() expect.CallOption) map[string]try {
		return map[string]try{"redacted": {w.redacted, call("quote", opt())}, "truncated": {w.truncated, call("quote", opt())}, "unavailable": {w.gone, call("quote", opt())}}
	}
	return map[string]row{
		"ResultText": {
			holds:   []try{{w.shop, call("quote", expect.ResultText("too light"))}},
			fails:   []try{{w.shop, call("book", expect.ResultText("booked"))}},
			unknown: lost(func() expect.CallOption { return expect.ResultText("x") }),
		},
		"ResultTextContaining": {
			holds:   []try{{w.shop, call("quote", expect.ResultTextContaining("light"))}},
			fails:   []try{{w.shop, call("book", expect.ResultTextContaining("booked"))}},
			unknown: lost(func() expect.CallOption { return expect.ResultTextContaining("x") }),
		},
		"ResultTextMatching": {
			holds:   []try{{w.shop, call("quote", expect.ResultTextMatching("^too"))}},
			fails:   []try{{w.shop, call("book", expect.ResultTextMatching("booked?"))}},
			unknown: lost(func() expect.CallOption { return expect.ResultTextMatching("x") }),
			misuse:  map[string]try{`ResultTextMatching: "*" is no regular expression`: {w.shop, call("book", expect.ResultTextMatching("*"))}},
		},
		"ResultStructured": {
			holds:   []try{{w.shop, call("quote", expect.ResultStructured(m3.Args{"price": 7}, expect.Partial()))}, {w.shop, call("echo", expect.ResultStructured(nil))}},
			fails:   []try{{w.shop, call("book", expect.ResultStructured(nil))}, {w.shop, call("quote", expect.ResultStructured(m3.Args{"price": 7, "id": 9007199254740992}))}},
			unknown: lost(func() expect.CallOption { return expect.ResultStructured(m3.Args{}) }),
			misuse:  map[string]try{"ResultStructured: the expected value, a chan int, cannot": {w.shop, call("quote", expect.ResultStructured(make(chan int)))}},
		},
		"ResultContent": {
			holds:   []try{{w.shop, call("quote", expect.ResultContent([]m3.Content{{Type: "text", Text: "in 2 days"}, {Type: "text", Text: "7.00 EUR"}}, expect.Unordered()))}},
			fails:   []try{{w.shop, call("book", expect.ResultContent([]m3.Content{{Type: "text", Text: "booked"}}))}},
			unknown: lost(func() expect.CallOption { return expect.ResultContent([]m3.Content{}) }),
			misuse:  map[string]try{"ResultContent: an option is nil": {w.shop, call("quote", expect.ResultContent(1, nil))}},
		},
		"Result": {
			holds: []try{
				{w.shop, call("quote", expect.Result(m3.Args{"content": []m3.Args{{"type": "text", "text": "too light"}}, "isError": true}))},
				{w.shop, call("book", expect.Result(m3.Args{"content": []any{}, "isError": false}))},
				{w.shop, call("quote", expect.Result(m3.Args{"structuredContent": m3.Args{"price": 7}}, expect.Partial()))},
				{w.shop, call("lookup", expect.Result(m3.Args{"error": m3.Args{"code": -32602, "message": "no such order"}}))},
				{w.shop, call("echo", expect.Result(nil), expect.Times(1))},
			},
			fails:   []try{{w.shop, call("book", expect.Result(m3.Args{"isError": true}))}},
			unknown: lost(func() expect.CallOption { return expect.Result(m3.Args{}) }),
			misuse:  map[string]try{"Result: the expected value, a chan int, cannot": {w.shop, call("quote", expect.Result(make(chan int)))}},
		},
	}
}

func (w *world) countRows() map[string]row {
	inTurn := func(turn trace.TurnSelector) check { return call("quote", expect.InTurn(turn)) }
	bad := func(part string, opts ...expect.CallOption) map[string]try {
		return map[string]try{part: {w.shop, call("quote", opts...)}}
	}
	var nobody *turn
	return map[string]row{
		"Times": {
			holds:   []try{{w.shop, call("quote", expect.Times(2))}, {w.shop, call("pay", expect.Times(0))}},
			fails:   []try{{w.shop, call("quote", expect.Times(1))}, {w.shop, call("quote", expect.Times(3))}},
			unknown: map[string]try{"unavailable": {w.lossy, call("quote", expect.Times(2))}, "truncated": {w.truncated, call("quote", expect.ToolError(), expect.Times(0))}, "redacted": {w.redacted, call("quote", expect.ResultText("x"), expect.Times(0))}},
			misuse: map[string]try{
				"Times(-1): a number of times is not negative": {w.shop, call("quote", expect.Times(-1))},
				"Times excludes MinTimes and MaxTimes":         {w.shop, call("quote", expect.Times(1), expect.MaxTimes(2))},
				"Times is given twice: 1 and 2":                {w.shop, call("quote", expect.Times(1), expect.Times(2))},
			},
		},
		"MinTimes": {
			holds:   []try{{w.shop, call("quote", expect.MinTimes(2))}, {w.shop, call("pay", expect.MinTimes(0))}},
			fails:   []try{{w.shop, call("quote", expect.MinTimes(3))}},
			unknown: map[string]try{"unavailable": {w.lossy, call("quote", expect.MinTimes(3))}},
			misuse:  bad("MinTimes(3) is more than MaxTimes(2)", expect.MinTimes(3), expect.MaxTimes(2)),
		},
		"MaxTimes": {
			holds:   []try{{w.shop, call("quote", expect.MaxTimes(2))}, {w.shop, call("pay", expect.MinTimes(0), expect.MaxTimes(2))}},
			fails:   []try{{w.shop, call("quote", expect.MaxTimes(1))}, {w.shop, call("pay", expect.MaxTimes(2))}},
			unknown: map[string]try{"unavailable": {w.lossy, call("quote", expect.MaxTimes(2))}},
			misuse:  bad("MaxTimes(-1)", expect.MaxTimes(-1)),
		},
		"InTurn": {
			holds:   []try{{w.shop, inTurn(trace.TurnID("t1"))}, {w.shop, inTurn(&turn{id: "t1"})}},
			fails:   []try{{w.shop, inTurn(trace.TurnID("t2"))}},
			unknown: map[string]try{"no such turn": {w.shop, func(e *expect.Expectation) bool { return e.NoToolCall("quote", expect.InTurn(trace.TurnID("t9"))) }}},
			misuse: map[string]try{"InTurn: the turn is nil": {w.shop, inTurn(nil)}, "InTurn: the turn has no id": {w.shop, inTurn(trace.TurnID(""))}, "turn is nil": {w.shop, inTurn(nobody)},
				"leave InTurn out": {w.shop, func(e *expect.Expectation) bool {
					return e.ProtocolVersion("2025-11-25", expect.InTurn(trace.TurnID("t1")))
				}}},
		},
		"OnServer": {
			holds:  []try{{w.two, call("quote", expect.OnServer("billing"), expect.Times(1))}, {w.two, call("only", expect.OnServer("shipping"))}},
			fails:  []try{{w.two, call("only", expect.OnServer("billing"))}},
			always: scopes,
			misuse: map[string]try{"OnServer: the name is empty": {w.two, call("only", expect.OnServer(""))}, `there is no such server in the view; it has: "shipping", "billing"`: {w.two, func(e *expect.Expectation) bool { return e.NoToolCall("only", expect.OnServer("biling")) }}},
		},
		"Below": {
			holds: []try{{w.shop, lasting(expect.Below(time.Second))}}, fails: []try{{w.failed, lasting(expect.Below(2 * time.Millisecond))}}, always: scopes,
			misuse: map[string]try{"Duration: Below(0s): the bound must be positive": {w.shop, lasting(expect.Below(0))}},
		},
		"AtLeast": {
			holds: []try{{w.failed, lasting(expect.AtLeast(2 * time.Millisecond))}}, fails: []try{{w.failed, lasting(expect.AtLeast(time.Hour))}}, always: scopes,
			misuse: map[string]try{"AtLeast(-1s): a duration is not negative": {w.shop, lasting(expect.AtLeast(-time.Second))}},
		},
		"Between": {
			holds: []try{{w.failed, lasting(expect.Between(2*time.Millisecond, 2*time.Millisecond))}}, fails: []try{{w.failed, lasting(expect.Between(3*time.Millisecond, time.Second))}}, always: scopes,
			misuse: map[string]try{"Between(2s, 1s): the lower bound is not negative, and not above the upper one": {w.shop, lasting(expect.Between(2*time.Second, time.Second))}},
		},
		"About": {
			holds: []try{{w.failed, lasting(expect.About(3*time.Millisecond, time.Millisecond))}}, fails: []try{{w.failed, lasting(expect.About(time.Second, time.Millisecond))}}, always: scopes,
			misuse: map[string]try{"About(1s, -1s): neither is negative": {w.shop, lasting(expect.About(time.Second, -time.Second))}},
		},
	}
}

// turn is a turn, as an agent's session will return it: it names itself, and has a text.
type turn struct{ id trace.TurnID }

func (t *turn) SelectTurn() trace.TurnID { return t.id }
func (t *turn) Text() string             { return "text of " + string(t.id) }

// played is a turn with the view of its execution.
type played struct {
	turn
	view trace.View
}

func (p *played) View() (trace.View, error) { return p.view, nil }

// running is an execution that is still open.
type running struct{}

func (running) View() (trace.View, error) {
	return trace.View{}, fmt.Errorf("agent: %w", trace.ErrNotFinalized)
}
