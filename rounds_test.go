package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// A planned call goes on until there is a result: a new id each time, the same operation, the state of the round exactly as it came or none, and the responses of the
// round alone. The trace shows one call with its attempts, and an elicitation for each request.
func TestPlannedRounds(t *testing.T) {
	t.Parallel()
	const odd = `"\u0041 st\/ate\n\"é\u00e9"`
	for kind, perform := range operations {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			a := newAsker(round(where), round(payHere, form("note", "Note?", `{"type":"object"}`)), nil)
			a.state = func(n int) string { return map[int]string{1: odd, 2: "", 3: `""`}[n] }
			client := modern(t, a.peer, nil)
			plan := elicit.Sequence(toPune, elicit.Round(payment, elicit.Form("note").Decline(elicit.Meta{"why": "none"})))
			text, err := perform(t, client, &m3.CallOptions{Elicitation: plan, Meta: map[string]any{"mine": 1}})
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"address":{"action":"accept","content":{"city":"Pune"}}} {"checkout":{"action":"accept"},"note":{"_meta":{"why":"none"},"action":"decline"}} null`; text != want {
				t.Errorf("the server was answered\n%s, want\n%s", text, want)
			}
			calls := a.calls()
			if len(calls) != 4 {
				t.Fatalf("%d attempts", len(calls))
			}
			ids := map[string]bool{}
			for i, m := range calls {
				in := m.asked()
				ids[string(m.ID)] = true
				if string(in.State) != []string{"", odd, "", `""`}[i] {
					t.Errorf("attempt %d sent the state %s", i, in.State)
				}
				if string(in.Meta["mine"]) != "1" || in.Name+in.URI != calls[0].asked().Name+calls[0].asked().URI || string(in.Arguments) != string(calls[0].asked().Arguments) {
					t.Errorf("attempt %d is another operation: %s", i, m.Params)
				}
				if got := string(in.Meta["io.modelcontextprotocol/clientCapabilities"]); got != `{"elicitation":{"form":{},"url":{}}}` {
					t.Errorf("attempt %d declared %s", i, got)
				}
			}
			if len(ids) != 4 || strings.Contains(string(calls[3].Params), "inputResponses") {
				t.Errorf("%d ids; the last attempt was %s", len(ids), calls[3].Params)
			}
			checkAttempts(t, finish(t, client), kind, odd)
		})
	}
}

func checkAttempts(t *testing.T, view trace.View, kind trace.OperationKind, state string) {
	t.Helper()
	var decoded string
	_ = json.Unmarshal([]byte(state), &decoded)
	type attempt struct {
		index              int
		paused             bool
		status             string
		sent, continuation trace.Observation[string]
		responses          trace.Observation[trace.JSON]
		result, raw        bool
		start, end         int64
		duration           time.Duration
		params             trace.Observation[trace.JSON]
		id                 trace.RPCID
	}
	var got []attempt
	id := ""
	if kind == trace.OperationTool {
		if view.ToolCalls().Len() != 1 {
			t.Fatalf("%d tool calls", view.ToolCalls().Len())
		}
		c := view.ToolCalls().At(0)
		id = c.EntryID
		for _, a := range c.Attempts {
			got = append(got, attempt{a.AttemptIndex, a.InputRequired, string(a.Status), a.RequestState, a.ContinuationState, a.InputResponses, a.Result.OK(), a.RawResult.OK(), a.SequenceStart, a.SequenceEnd, a.Timing.Duration(), a.OperationParams, a.RPCID.Value})
		}
		if c.ToolStatus != trace.ToolSuccess || c.Status != trace.StatusCompleted {
			t.Errorf("the call reads %s, %s", c.ToolStatus, c.Status)
		}
	} else {
		for _, p := range view.Protocol().All() {
			if p.OperationKind != kind {
				continue
			}
			id = p.EntryID
			for _, a := range p.Attempts {
				got = append(got, attempt{a.AttemptIndex, a.InputRequired, string(a.Status), a.RequestState, a.ContinuationState, a.InputResponses, a.Result.OK(), a.RawResult.OK(), a.SequenceStart, a.SequenceEnd, a.Timing.Duration(), a.OperationParams, a.RPCID.Value})
			}
		}
	}
	if len(got) != 4 {
		t.Fatalf("%d attempts in the trace", len(got))
	}
	for i, a := range got {
		last := i == 3
		status := "incomplete"
		if last {
			status = "completed"
		}
		if a.index != i || a.paused == last || a.status != status || a.result != last || !a.raw || a.end <= a.start || a.duration <= 0 || !a.params.OK() || a.id == "" {
			t.Errorf("attempt %d: %+v", i, a)
		}
		if i > 0 && a.start <= got[i-1].end {
			t.Errorf("attempt %d begins before the one before it ended", i)
		}
	}
	if got[0].sent.State != trace.NotEmitted || got[0].continuation != trace.Observe(decoded) || got[1].sent != trace.Observe(decoded) || got[1].continuation.State != trace.NotEmitted ||
		got[2].sent.State != trace.NotEmitted || got[2].continuation != trace.Observe("") || got[3].sent != trace.Observe("") {
		t.Errorf("states: %+v", got)
	}
	if got[0].responses.State != trace.NotEmitted || string(got[1].responses.Value) != `{"address":{"action":"accept","content":{"city":"Pune"}}}` || got[3].responses.State != trace.NotEmitted {
		t.Errorf("responses: %+v", got)
	}
	var lines []string
	for _, e := range view.Elicitations().All() {
		if e.LogicalOperationID != id || e.ParentID != id || e.OperationKind != kind || e.Server != "peer" || e.ElicitationID.State != trace.NotEmitted || e.Status != trace.StatusCompleted {
			t.Errorf("elicitation %+v", e)
		}
		lines = append(lines, fmt.Sprintf("%d %s %s %s %s %s", e.RoundIndex, e.RequestKey, e.Mode, e.Action, e.URL.Value, e.Content.Value))
	}
	if want := "1 address form accept  {\"city\":\"Pune\"}|2 checkout url accept https://example.test/pay/123 |2 note form decline  "; strings.Join(lines, "|") != want {
		t.Errorf("elicitations %s, want %s", strings.Join(lines, "|"), want)
	}
}

// A call that asks for nothing has no attempts, with a plan or without.
func TestOneShotCallsHaveNoAttempts(t *testing.T) {
	t.Parallel()
	client := modern(t, newAsker().peer, nil)
	for _, opts := range []*m3.CallOptions{nil, {Elicitation: elicit.Optional(toPune)}} {
		if _, err := client.CallTool(t.Context(), "book", nil, opts); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range finish(t, client).ToolCalls().All() {
		if len(c.Attempts) != 0 || c.ToolStatus != trace.ToolSuccess {
			t.Errorf("%d attempts, %s", len(c.Attempts), c.ToolStatus)
		}
	}
}

// So many rounds are answered, and then the server may complete; one more is an error, and nothing is sent. Rounds without elicitation count.
func TestRoundLimit(t *testing.T) {
	t.Parallel()
	again := func(n int, q ...question) (all [][]question) {
		for range n {
			all = append(all, q)
		}
		return all
	}
	poemQ := question{"motto", "sampling/createMessage", poem}
	for _, tc := range []struct {
		name   string
		limit  int
		rounds [][]question
		fails  int // rounds that the error names; 0: the call succeeds
	}{
		{"ten rounds and a result", 0, again(10, where), 0},
		{"eleven rounds", 0, again(11, where), 11},
		{"one", 1, again(2, where), 2},
		{"twelve of twelve", 12, again(12, where), 0},
		{"sampling and roots count", 3, append(again(2, poemQ, question{"roots", "roots/list", "{}"}), again(2, where)...), 4},
		{"rounds with a state only count", 2, again(3), 3},
		{"sampling alone has the limit", 0, again(11, poemQ), 11},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var plans []*elicit.Plan
			for range 13 {
				plans = append(plans, elicit.Optional(toPune))
			}
			a := newAsker(tc.rounds...)
			client := modern(t, a.peer, &m3.DirectOptions{Sampling: answerPoem, Roots: m3.Roots("file:///w")})
			_, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: elicit.Sequence(plans...), RoundLimit: tc.limit})
			if tc.fails == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *elicit.RoundLimitError
			if !errors.As(err, &e) || e.Code() != "elicitation_round_limit" || !e.Terminal() || e.Details["rounds"] != tc.fails || e.Details["operation"] != "call book" {
				t.Fatalf("%T %v, details %v", err, err, e.Details)
			}
			if n := len(a.calls()); n != tc.fails {
				t.Errorf("%d attempts were sent, want %d", n, tc.fails)
			}
			usable(t, client, a.peer, tc.fails)
		})
	}
}

func answerPoem(context.Context, *m3.SamplingRequest) (*m3.SamplingResult, error) {
	return &m3.SamplingResult{Text: "carpe diem"}, nil
}

// usable calls another tool, and checks that nothing else was sent meanwhile.
func usable(t *testing.T, client *m3.Client, p *peer, sent int) {
	t.Helper()
	if r, err := client.CallTool(t.Context(), "fine", nil, nil); err != nil || r.Text() != "fine" {
		t.Errorf("the connection is not usable afterwards: %v", err)
	}
	if calls := p.calls(); len(calls) != sent+1 {
		t.Errorf("%d calls were sent in all, want %d: %s", len(calls), sent+1, calls[len(calls)-2].Params)
	}
}

// badRound is an input_required result with something wrong with it.
type badRound struct {
	name, result string
	key, reason  string // of an *elicit.ExpectationError; reason "" for the other types
	other        string // field of a *m3.ProtocolError, or feature of an *m3.UnsupportedError
}

const (
	addressForm = `{"method":"elicitation/create","params":{"message":"Where?","requestedSchema":` + citySchema + `}}`
	plainForm   = `{"method":"elicitation/create","params":{"message":"Where?","requestedSchema":{"type":"object"}}}`
)

var badRounds = []badRound{
	{"unknown kind", `"inputRequests":{"a":{"method":"tasks/get","params":{}}},"requestState":"s"`, "a", "", "input_request"},
	{"state is a number", `"inputRequests":{"address":` + addressForm + `},"requestState":7`, "", "", "requestState"},
	{"state is null", `"inputRequests":{"address":` + addressForm + `},"requestState":null`, "", "", "requestState"},
	{"requests are a list", `"inputRequests":[],"requestState":"s"`, "", "", "inputRequests"},
	{"neither requests nor state", ``, "", "empty_round", ""},
	{"no requests and no state", `"inputRequests":{}`, "", "empty_round", ""},
	{"schema is text", `"inputRequests":{"address":{"method":"elicitation/create","params":{"message":"?","requestedSchema":"object"}}}`, "address", "bad_request", ""},
	{"schema is missing", `"inputRequests":{"address":{"method":"elicitation/create","params":{"message":"?"}}}`, "address", "bad_request", ""},
	{"schema is no schema", `"inputRequests":{"address":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"objekt","properties":7}}}}`, "address", "bad_schema", ""},
	{"schema elsewhere", `"inputRequests":{"address":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"$ref":"http://127.0.0.1:1/schema.json"}}}}`, "address", "bad_schema", ""},
	{"a key twice", `"inputRequests":{"address":` + addressForm + `,"b":` + plainForm + `,"address":` + addressForm + `}`, "address", "duplicate_key", ""},
	{"the same key, escaped", `"inputRequests":{"address":` + addressForm + `,"\u0061ddress":` + addressForm + `}`, "address", "duplicate_key", ""},
	{"empty key", `"inputRequests":{"":` + addressForm + `}`, "", "bad_request", ""},
	{"request is null", `"inputRequests":{"address":null}`, "address", "bad_request", ""},
	{"no method", `"inputRequests":{"address":{"params":{}}}`, "address", "bad_request", ""},
	{"method is a number", `"inputRequests":{"address":{"method":7}}`, "address", "bad_request", ""},
	{"no params", `"inputRequests":{"address":{"method":"elicitation/create"}}`, "address", "bad_request", ""},
	{"message is a number", `"inputRequests":{"address":{"method":"elicitation/create","params":{"message":7,"requestedSchema":{}}}}`, "address", "bad_request", ""},
	{"unknown mode", `"inputRequests":{"address":{"method":"elicitation/create","params":{"mode":"voice","message":"?","requestedSchema":{}}}}`, "address", "bad_request", ""},
	{"url is missing", `"inputRequests":{"address":{"method":"elicitation/create","params":{"mode":"url","message":"?"}}}`, "address", "bad_request", ""},
	{"another key", `"inputRequests":{"adress":` + addressForm + `}`, "adress", "no_match", ""},
	{"one more", `"inputRequests":{"address":` + addressForm + `,"b":` + plainForm + `}`, "", "no_match", ""},
	{"an answer of the wrong type", `"inputRequests":{"address":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"city":{"type":"integer"}}}}}}`, "address", "content_mismatch", ""},
	{"an answer too few", `"inputRequests":{"address":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","required":["zip"]}}}}`, "address", "content_mismatch", ""},
	{"sampling without a handler", `"inputRequests":{"address":` + addressForm + `,"motto":{"method":"sampling/createMessage","params":` + poem + `}}`, "motto", "", "sampling"},
	{"roots without any", `"inputRequests":{"r":{"method":"roots/list"}}`, "r", "", "roots"},
	{"ten thousand keys", manyKeys(10_000), "", "no_match", ""},
}

func manyKeys(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"key-%d":%s`, i, plainForm))
	}
	return `"inputRequests":{` + strings.Join(all, ",") + `}`
}

// What is wrong with a round is a typed error that names the key and the reason. Nothing is half sent, and the connection goes on.
func TestBadRounds(t *testing.T) {
	t.Parallel()
	for _, tc := range badRounds {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := &peer{handle: func(p *peer, m *message) bool {
				if m.Method != "tools/call" || m.tool() != "book" {
					return false
				}
				rest := tc.result
				if rest != "" {
					rest = "," + rest
				}
				p.result(m, `{"resultType":"input_required"%s}`, rest)
				return true
			}}
			client := modern(t, p, nil)
			began := time.Now()
			_, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: toPune, Timeout: 20 * time.Second})
			checkBadRound(t, err, tc)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			usable(t, client, p, 1)
			if strings.Contains(fmt.Sprint(err), "Pune") {
				t.Errorf("the error tells a value: %v", err)
			}
		})
	}
}

func checkBadRound(t *testing.T, err error, tc badRound) {
	t.Helper()
	if tc.reason != "" {
		e := wantError[*elicit.ExpectationError](t, err, "elicitation_expectation_failed", "call book: ")
		if key, _ := e.Details["request_key"].(string); e.Details["reason"] != tc.reason || key != tc.key || e.Details["round"] != 1 || e.Details["operation"] != "call book" {
			t.Errorf("details %v; %v", e.Details, err)
		}
		return
	}
	if tc.key == "" {
		if e := wantError[*m3.ProtocolError](t, err, "protocol_error", tc.other); e.Details["field"] != tc.other {
			t.Errorf("details %v", e.Details)
		}
		return
	}
	if e := wantError[*m3.UnsupportedError](t, err, "unsupported", fmt.Sprintf("%q", tc.key)); e.Details["feature"] != tc.other || e.Details["request_key"] != tc.key {
		t.Errorf("details %v", e.Details)
	}
}

// Without a plan a request for elicitation fails the call; sampling and roots are served. A well-behaved server was told that there is none.
func TestWithoutAPlan(t *testing.T) {
	t.Parallel()
	for kind, perform := range operations {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			a := newAsker(round(question{"motto", "sampling/createMessage", poem}, question{"roots", "roots/list", "{}"}), round(where, payHere))
			client := modern(t, a.peer, &m3.DirectOptions{Sampling: answerPoem, Roots: m3.Roots("file:///w")})
			_, err := perform(t, client, nil)
			e := wantError[*elicit.ExpectationError](t, err, "elicitation_expectation_failed", `the server asks for input ("address", "checkout"), and the call has no plan`)
			if e.Details["request_key"] != "address" || e.Details["round"] != 2 || e.Details["reason"] != "no_plan" {
				t.Errorf("details %v", e.Details)
			}
			calls := a.calls()
			if len(calls) != 2 {
				t.Fatalf("%d attempts", len(calls))
			}
			got := calls[1].asked().Responses
			if string(got["roots"]) != `{"roots":[{"uri":"file:///w"}]}` || !strings.Contains(string(got["motto"]), "carpe diem") || len(got) != 2 {
				t.Errorf("sampling and roots were answered %s", calls[1].Params)
			}
			if caps := string(calls[0].asked().Meta["io.modelcontextprotocol/clientCapabilities"]); caps != `{"roots":{},"sampling":{}}` {
				t.Errorf("declared %s", caps)
			}
			usable(t, client, a.peer, 2)
			view := finish(t, client)
			if n := view.Elicitations().Len(); n != 2 || view.Elicitations().At(0).Status != trace.StatusIncomplete {
				t.Errorf("%d elicitations", n)
			}
			if !hasFinding(client, "undeclared-capability") {
				t.Error("nothing tells that the server asked for what was not declared")
			}
		})
	}
}

// A plan that is not used up fails the call, though the operation succeeded: its result is there too. A handler's failure is told by type.
func TestUnusedPlan(t *testing.T) {
	t.Parallel()
	for kind, perform := range operations {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			a := newAsker(round(where))
			client := modern(t, a.peer, nil)
			text, err := perform(t, client, &m3.CallOptions{Elicitation: elicit.Sequence(toPune, payment)})
			e := wantError[*elicit.ExpectationError](t, err, "elicitation_expectation_failed", `url "checkout"`)
			if e.Details["reason"] != "incomplete" || !strings.Contains(text, "Pune") {
				t.Errorf("%v; the result is %q", e.Details, text)
			}
		})
	}
}

// Plans that cannot be used, and options that contradict each other, are refused before anything is sent.
func TestPlanOptionsAreChecked(t *testing.T) {
	t.Parallel()
	state := ""
	a := newAsker(round(where))
	client := modern(t, a.peer, nil)
	for name, opts := range map[string]*m3.CallOptions{
		"incomplete":                {Elicitation: elicit.Form("address")},
		"broken":                    {Elicitation: elicit.Form("").Decline()},
		"accept without":            {Elicitation: elicit.Form("address").Accept()},
		"zero plan":                 {Elicitation: &elicit.Plan{}},
		"negative limit":            {Elicitation: toPune, RoundLimit: -1},
		"negative alone":            {RoundLimit: -1},
		"and allowed":               {Elicitation: toPune, AllowInputRequired: true},
		"and a state":               {Elicitation: toPune, RequestState: &state},
		"and responses":             {Elicitation: toPune, InputResponses: map[string]elicit.Response{}},
		"and raw responses":         {Elicitation: toPune, RawInputResponses: map[string]any{}},
		"a response twice":          {InputResponses: map[string]elicit.Response{"a": elicit.Cancel()}, RawInputResponses: map[string]any{"a": 1}},
		"a response that is none":   {InputResponses: map[string]elicit.Response{"a": {}}},
		"a raw one that is no JSON": {RawInputResponses: map[string]any{"a": make(chan int)}},
	} {
		for kind, perform := range operations {
			if _, err := perform(t, client, opts); !errors.Is(err, m3.ErrValidation) {
				t.Errorf("%s, %s: %T %v", name, kind, err, err)
			}
		}
		for what, err := range map[string]error{"ping": client.Ping(t.Context(), opts), "subscribe": client.SubscribeResource(t.Context(), "test://x", opts), "log": client.SetLoggingLevel(t.Context(), m3.LogInfo, opts)} {
			if !errors.Is(err, m3.ErrValidation) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if n := len(a.calls()); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
}

// By hand: the first demand comes back typed, nothing is answered, and what the test sends goes out as it is.
func TestContinueByHand(t *testing.T) {
	t.Parallel()
	a := newAsker(round(where, payHere, question{"motto", "sampling/createMessage", poem}, question{"odd", "tasks/get", `{"n":1e400}`}), round(where))
	client := modern(t, a.peer, &m3.DirectOptions{Sampling: answerPoem})
	pending, err := client.CallTool(t.Context(), "book", m3.Args{"weight_kg": 2}, &m3.CallOptions{AllowInputRequired: true})
	if err != nil {
		t.Fatal(err)
	}
	in := pending.InputRequired
	if in == nil || *in.RequestState != "round-1" || pending.Text() != "" || len(in.Requests) != 2 || len(in.Others) != 2 || string(in.Raw) != string(pending.Raw) {
		t.Fatalf("%+v", in)
	}
	address, ok := in.Requests["address"].(*elicit.FormRequest)
	if !ok || address.Message != "Where to?" || address.RequestedSchema["type"] != "object" || address.Server != "peer" || address.OperationKind != trace.OperationTool || address.OperationName != "book" || address.Mode() != "form" {
		t.Errorf("%+v", address)
	}
	if u, ok := in.Requests["checkout"].(*elicit.URLRequest); !ok || u.URL != "https://example.test/pay/123" || u.ElicitationID != "" {
		t.Errorf("%+v", u)
	}
	if string(in.Others["odd"]) != `{"method":"tasks/get","params":{"n":1e400}}` {
		t.Errorf("%s", in.Others["odd"])
	}
	if n := len(a.calls()); n != 1 {
		t.Fatalf("%d attempts: it was retried", n)
	}
	wrong := "tampered"
	again, err := client.CallTool(t.Context(), "book", m3.Args{"weight_kg": 2}, &m3.CallOptions{AllowInputRequired: true, RequestState: &wrong,
		InputResponses:    map[string]elicit.Response{"address": elicit.Accept(elicit.Content{"city": 7}), "unknown": elicit.Cancel(elicit.Meta{"m": 1})},
		RawInputResponses: map[string]any{"motto": "no object at all", "null": nil, "raw": json.RawMessage(`{"n":1e400}`)}})
	if err != nil || again.InputRequired == nil {
		t.Fatalf("%+v, %v", again, err)
	}
	sent := a.calls()[1].asked()
	for key, want := range map[string]string{"address": `{"action":"accept","content":{"city":7}}`, "unknown": `{"_meta":{"m":1},"action":"cancel"}`, "motto": `"no object at all"`, "null": "null", "raw": `{"n":1e400}`} {
		if string(sent.Responses[key]) != want {
			t.Errorf("%s went out as %s, want %s", key, sent.Responses[key], want)
		}
	}
	if string(sent.State) != `"tampered"` || len(sent.Responses) != 5 {
		t.Errorf("sent %s", a.calls()[1].Params)
	}
	done, err := client.CallTool(t.Context(), "book", m3.Args{"weight_kg": 2}, &m3.CallOptions{RequestState: again.InputRequired.RequestState, InputResponses: map[string]elicit.Response{}})
	if err != nil || done.InputRequired != nil || !strings.Contains(done.Text(), "no object at all") {
		t.Fatalf("%+v, %v", done, err)
	}
	if string(a.calls()[2].Params) == "" || !strings.Contains(string(a.calls()[2].Params), `"inputResponses":{}`) {
		t.Errorf("an empty map went out as %s", a.calls()[2].Params)
	}
	view := finish(t, client)
	if view.ToolCalls().Len() != 1 || len(view.ToolCalls().At(0).Attempts) != 3 {
		t.Errorf("%d calls in the trace", view.ToolCalls().Len())
	}
}

// The demands of prompts and resources come back as those of tools do, and a demand that is none is an error there too.
func TestAllowInputRequired(t *testing.T) {
	t.Parallel()
	a := newAsker(round(where))
	client := modern(t, a.peer, nil)
	allow := &m3.CallOptions{AllowInputRequired: true}
	prompt, err := client.GetPrompt(t.Context(), "book", nil, allow)
	if err != nil || prompt.InputRequired == nil || prompt.InputRequired.Requests["address"].(*elicit.FormRequest).OperationKind != trace.OperationPrompt {
		t.Errorf("%+v, %v", prompt, err)
	}
	resource, err := modern(t, newAsker(round(payHere)).peer, nil).ReadResource(t.Context(), "test://book", allow)
	if err != nil || resource.InputRequired == nil || resource.InputRequired.Requests["checkout"].(*elicit.URLRequest).OperationName != "test://book" {
		t.Errorf("%+v, %v", resource, err)
	}
	for _, result := range []string{`"requestState":7`, `"inputRequests":7,"requestState":"s"`, `"x":1`, `"inputRequests":{"a":` + plainForm + `,"a":` + plainForm + `}`} {
		p := &peer{handle: func(p *peer, m *message) bool {
			if m.Method != "tools/call" {
				return false
			}
			p.result(m, `{"resultType":"input_required",%s}`, result)
			return true
		}}
		if r, err := modern(t, p, nil).CallTool(t.Context(), "book", nil, allow); err == nil || r != nil {
			t.Errorf("%s: %+v, %v", result, r, err)
		}
	}
}

// URLs are compared: nothing ever comes to the one that a server names.
func TestURLsAreNeverOpened(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan string, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(opened)
				return
			}
			opened <- c.RemoteAddr().String()
			c.Close()
		}
	}()
	url := "http://" + ln.Addr().String() + "/pay?token=1"
	schema := fmt.Sprintf(`{"type":"object","properties":{"city":{"$ref":"http://%s/schema.json"}}}`, ln.Addr())
	for _, protocol := range []string{newest, legacy5} {
		a := newAsker(round(visit("pay", "Pay", url)), round(form("address", "Where?", schema)))
		client := connect(t, newKit(t, m3.Config{}), a.server(), &m3.DirectOptions{Protocol: protocol, Elicitation: m3.ElicitForm | m3.ElicitURL})
		_, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: elicit.Sequence(elicit.URL("pay", elicit.Address(url)).Accept(), toPune)})
		wantError[*elicit.ExpectationError](t, err, "elicitation_expectation_failed", "never fetches")
		view := finish(t, client)
		if e := view.Elicitations().At(0); e.URL.Value != url || e.Action != "accept" {
			t.Errorf("%+v", e)
		}
	}
	ln.Close()
	for who := range opened {
		t.Errorf("%s opened the URL", who)
	}
}

// Elicitation is declared where something can answer: with a request that has a plan, the modes of the plan; by hand, both; and everywhere what DirectOptions says.
func TestElicitationIsDeclaredPerCall(t *testing.T) {
	t.Parallel()
	state := "s"
	for _, tc := range []struct {
		name    string
		options m3.ElicitModes
		call    *m3.CallOptions
		want    string
	}{
		{"nothing", 0, nil, ``},
		{"form", 0, &m3.CallOptions{Elicitation: elicit.Optional(toPune)}, `{"form":{}}`},
		{"url", 0, &m3.CallOptions{Elicitation: elicit.Optional(payment)}, `{"url":{}}`},
		{"both", 0, &m3.CallOptions{Elicitation: elicit.Optional(elicit.Round(toPune, payment))}, `{"form":{},"url":{}}`},
		{"allowed", 0, &m3.CallOptions{AllowInputRequired: true}, `{"form":{},"url":{}}`},
		{"by hand", 0, &m3.CallOptions{RequestState: &state}, `{"form":{},"url":{}}`},
		{"said once and for all", m3.ElicitForm, nil, `{"form":{}}`},
		{"said, and allowed", m3.ElicitURL, &m3.CallOptions{AllowInputRequired: true}, `{"url":{}}`},
		{"said more than the plan has", m3.ElicitForm | m3.ElicitURL, &m3.CallOptions{Elicitation: elicit.Optional(toPune)}, `{"form":{},"url":{}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := &peer{}
			client := modern(t, p, &m3.DirectOptions{Elicitation: tc.options})
			for range 2 {
				if _, err := client.CallTool(t.Context(), "book", nil, tc.call); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := client.CallTool(t.Context(), "book", nil, nil); err != nil {
				t.Fatal(err)
			}
			for i, m := range p.calls() {
				var caps struct {
					Elicitation json.RawMessage `json:"elicitation"`
				}
				_ = json.Unmarshal(m.asked().Meta["io.modelcontextprotocol/clientCapabilities"], &caps)
				want := tc.want
				if i == 2 && tc.options == 0 {
					want = ""
				}
				if string(caps.Elicitation) != want {
					t.Errorf("call %d declared %s, want %s", i, caps.Elicitation, want)
				}
			}
		})
	}
	p := &peer{}
	client := modern(t, p, &m3.DirectOptions{Elicitation: m3.ElicitForm})
	_, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: payment})
	wantError[*m3.ValidationError](t, err, "invalid_argument", "the plan has requests of mode url, and DirectOptions.Elicitation declares form")
	_, err = newKit(t, m3.Config{}).Direct(t.Context(), p.server(), &m3.DirectOptions{Elicitation: 4})
	wantError[*m3.ValidationError](t, err, "invalid_argument", "Elicitation is 4")
}

// One plan serves many calls at once, each with its own progress through it.
func TestOnePlanManyCalls(t *testing.T) {
	t.Parallel()
	a := newAsker(round(where), round(payHere), round(where, form("note", "?", `{"type":"object"}`)))
	client := modern(t, a.peer, nil)
	plan := elicit.Sequence(toPune, payment, elicit.Round(toPune, elicit.Form("note").Cancel()))
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			r, err := client.CallTool(t.Context(), "book", m3.Args{"n": i}, &m3.CallOptions{Elicitation: plan})
			if err != nil || strings.Count(r.Text(), "Pune") != 2 || !strings.Contains(r.Text(), `"note":{"action":"cancel"}`) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
	view := finish(t, client)
	if view.ToolCalls().Len() != 64 || view.Elicitations().Len() != 4*64 {
		t.Errorf("%d calls, %d elicitations", view.ToolCalls().Len(), view.Elicitations().Len())
	}
	for _, c := range view.ToolCalls().All() {
		if len(c.Attempts) != 4 || c.ToolStatus != trace.ToolSuccess {
			t.Errorf("%d attempts, %s", len(c.Attempts), c.ToolStatus)
		}
	}
}

// All attempts of a call together have its time; a handler that does not come back is left behind, and named.
func TestDeadlineOfAllRounds(t *testing.T) {
	t.Parallel()
	t.Run("a handler", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		defer close(release)
		a := newAsker(round(question{"motto", "sampling/createMessage", poem}))
		client := modern(t, a.peer, &m3.DirectOptions{Sampling: func(context.Context, *m3.SamplingRequest) (*m3.SamplingResult, error) {
			<-release
			return nil, errors.New("too late")
		}})
		_, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Timeout: 50 * time.Millisecond})
		wantError[*m3.TimeoutError](t, err, "timeout", `the handler of sampling/createMessage had not answered "motto" within 50ms`)
		usable(t, client, a.peer, 1)
	})
	t.Run("the server", func(t *testing.T) {
		t.Parallel()
		p := &peer{}
		p.handle = func(p *peer, m *message) bool {
			if m.tool() == "book" {
				time.AfterFunc(60*time.Millisecond, func() { p.result(m, `{"resultType":"input_required","requestState":"again"}`) })
			}
			return m.tool() == "book"
		}
		client := modern(t, p, nil)
		began := time.Now()
		_, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Timeout: 200 * time.Millisecond})
		wantError[*m3.TimeoutError](t, err, "timeout", "within 200ms")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("the caller", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		a := newAsker(round(question{"motto", "sampling/createMessage", poem}))
		client := modern(t, a.peer, &m3.DirectOptions{Sampling: func(ctx context.Context, _ *m3.SamplingRequest) (*m3.SamplingResult, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		_, err := client.CallTool(ctx, "book", nil, nil)
		var cancelled *m3.CancelledError
		var declined *m3.UnsupportedError // whichever of the two is seen first
		if !errors.As(err, &cancelled) && !errors.As(err, &declined) {
			t.Errorf("%T %v", err, err)
		}
	})
}
