package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// Every JSON-RPC error is a protocol error, whatever its code: never a timeout, a cancellation or a transport error (decision 4).
func TestEveryRPCErrorIsAProtocolError(t *testing.T) {
	t.Parallel()
	codes := map[string]int64{"-32000": -32000, "-32001": -32001, "-32602": -32602, "-32601": -32601, "0": 0, "404": 404, "-32000.5": 0, `"E1"`: 0}
	tools := map[string]func(*peer, *message){}
	for code := range codes {
		tools[code] = func(p *peer, m *message) {
			p.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"not today","data":{"retry":1e400}}}`, m.ID, code)
		}
	}
	for code, number := range codes {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			client := connect(t, newKit(t, m3.Config{}), on(tools).server(), old())
			_, err := client.CallTool(t.Context(), code, nil, nil)
			e := wantError[*m3.ProtocolError](t, err, "protocol_error", "not today")
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%v is an end of time", err)
			}
			if e.RPC == nil || string(e.RPC.Code) != code || string(e.RPC.Data.Value) != `{"retry":1e400}` || e.Details["protocol_code"] != code || e.Details["error_kind"] != "remote" {
				t.Fatalf("%+v, details %v", e.RPC, e.Details)
			}
			integer := !strings.ContainsAny(code, `."`)
			if n, ok := e.RPCCode(); ok != integer || n != number {
				t.Errorf("RPCCode is %d, %v", n, ok)
			}
			if status := finish(t, client).ToolCalls().At(0).ToolStatus; status != trace.ToolProtocolError {
				t.Errorf("the call reads %s", status)
			}
		})
	}
}

// What is no proper answer is a protocol error too, and the connection lives.
func TestAnswersThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	results := map[string]string{
		"a number":        `7`,
		"no content list": `{"content":"text"}`,
		"a number block":  `{"content":[7]}`,
		"isError is text": `{"content":[],"isError":"yes"}`,
	}
	tools := map[string]func(*peer, *message){}
	for name, r := range results {
		tools[name] = func(p *peer, m *message) { p.result(m, "%s", r) }
	}
	client := connect(t, newKit(t, m3.Config{}), on(tools).server(), old())
	for name := range results {
		_, err := client.CallTool(t.Context(), name, nil, nil)
		if e := wantError[*m3.ProtocolError](t, err, "protocol_error", name); e.RPC != nil || e.Details["error_kind"] != "malformed" {
			t.Errorf("%s: %+v, %v", name, e.RPC, e.Details)
		}
	}
	if _, err := client.CallTool(t.Context(), "fine", nil, nil); err != nil {
		t.Error(err)
	}
}

// A call has a deadline of its own, the client's, or the caller's; each error says which. The server is told.
func TestDeadlinesOfACall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		client  time.Duration
		call    *m3.CallOptions
		context time.Duration
		say     string
		seconds any
	}{
		{"the call's", 0, &m3.CallOptions{Timeout: 30 * time.Millisecond}, time.Hour, "no answer to tools/call within 30ms", 0.03},
		{"the client's", 40 * time.Millisecond, nil, time.Hour, "no answer to tools/call within 40ms", 0.04},
		{"the call's before the client's", time.Nanosecond, &m3.CallOptions{Timeout: 30 * time.Millisecond}, time.Hour, "within 30ms", 0.03},
		{"the caller's", 0, nil, 30 * time.Millisecond, "call silent", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := silent()
			client := connect(t, newKit(t, m3.Config{}), p.server(), &m3.DirectOptions{Protocol: legacy5, Timeout: tc.client})
			ctx, cancel := context.WithTimeout(t.Context(), tc.context)
			defer cancel()
			_, err := client.CallTool(ctx, "silent", nil, tc.call)
			e := wantError[*m3.TimeoutError](t, err, "timeout", tc.say)
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || !e.Timeout() || e.Details["timeout_seconds"] != tc.seconds {
				t.Errorf("%v, details %v", err, e.Details)
			}
			called, told := p.await(t, "tools/call", 1)[0], p.await(t, "notifications/cancelled", 1)[0]
			if !strings.Contains(string(told.Params), `"requestId":`+string(called.ID)) {
				t.Errorf("the request %s was cancelled as %s", called.ID, told.Params)
			}
			view := finish(t, client)
			if call := view.ToolCalls().At(0); call.ToolStatus != trace.ToolTimedOut || call.Result.OK() || view.Outcome() != trace.OutcomeCompleted {
				t.Errorf("the call reads %s, the execution %s", call.ToolStatus, view.Outcome())
			}
		})
	}
	client := connect(t, newKit(t, m3.Config{}), silent().server(), old())
	_, err := client.CallTool(t.Context(), "x", nil, &m3.CallOptions{Timeout: -1})
	wantError[*m3.ValidationError](t, err, "invalid_argument", "negative")
}

// Cancelling a call's context tells the server, and the client lives on. The cause is told.
func TestCancellationOfACall(t *testing.T) {
	t.Parallel()
	p := silent()
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	ctx, cancel := context.WithCancelCause(t.Context())
	done := during(func() error { _, err := client.CallTool(ctx, "silent", nil, nil); return err })
	p.await(t, "tools/call", 1)
	why := errors.New("the shop has closed")
	cancel(why)
	err := <-done
	wantError[*m3.CancelledError](t, err, "cancelled", why.Error())
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	p.await(t, "notifications/cancelled", 1)
	if _, err := client.CallTool(t.Context(), "next", nil, nil); err != nil {
		t.Error(err)
	}
	if calls := finish(t, client).ToolCalls(); calls.At(0).ToolStatus != trace.ToolCancelled || calls.At(1).ToolStatus != trace.ToolSuccess {
		t.Errorf("the calls read %s and %s", calls.At(0).ToolStatus, calls.At(1).ToolStatus)
	}
}

// The end of the context of Direct does not end the client.
func TestContextOfDirectBoundsTheOpening(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	client, err := kit.Direct(ctx, silent().server(), old())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := client.CallTool(t.Context(), "echo", nil, nil); err != nil {
		t.Error(err)
	}
	_, err = kit.Direct(ctx, silent().server(), old())
	wantError[*m3.CancelledError](t, err, "cancelled", "connect to peer")
}

// 64 calls at once on one connection each get their own answer.
func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	client := connect(t, newKit(t, m3.Config{}), fixture(t, "plain"), nil)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			name := fmt.Sprintf("tool-%d", i)
			for range 3 {
				if r, err := client.CallTool(t.Context(), name, m3.Args{"i": i}, nil); err != nil || r.Text() != name {
					t.Errorf("%s: %v, %v", name, r, err)
				}
			}
		})
	}
	wg.Wait()
	view := finish(t, client)
	if s := view.Summary(); s.ToolCallCount != 192 || s.SuccessfulToolCalls != 192 || view.Completeness() != trace.Complete {
		t.Errorf("%+v, %s", s, view.Completeness())
	}
}

// A tool's own failure is a result, with what the tool said.
func TestToolErrorIsAResult(t *testing.T) {
	t.Parallel()
	p := on(map[string]func(*peer, *message){"fail": func(p *peer, m *message) {
		p.result(m, `{"content":[{"type":"text","text":"no such"},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"customer"}],"isError":true}`)
	}})
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	r, err := client.CallTool(t.Context(), "fail", nil, nil)
	if err != nil || !r.IsError || r.Text() != "no such\ncustomer" || len(r.Content) != 3 || !strings.Contains(string(r.Content[1].Raw), `"data":"AAAA"`) {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := r.Decode(new(any)); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("Decode without structured content: %v", err)
	}
	if call := finish(t, client).ToolCalls().At(0); call.ToolStatus != trace.ToolError || call.SequenceStart != r.Sequence {
		t.Errorf("the call reads %s at %d, want %d", call.ToolStatus, call.SequenceStart, r.Sequence)
	}
}

// Decode keeps numbers exact where anything is asked for, and says what does not fit where something is.
func TestDecodeIsExact(t *testing.T) {
	t.Parallel()
	const structured = `{"id":9223372036854775809,"far":1e400,"price":0.1000000000000000055511151231257827,"tags":["a",null]}`
	p := on(map[string]func(*peer, *message){"numbers": func(p *peer, m *message) {
		p.result(m, `{"content":[],"structuredContent":%s}`, structured)
	}})
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	r, err := client.CallTool(t.Context(), "numbers", nil, nil)
	if err != nil || string(r.StructuredContent) != structured {
		t.Fatalf("%s, %v", r.StructuredContent, err)
	}
	var loose map[string]any
	if err := r.Decode(&loose); err != nil || loose["id"] != json.Number("9223372036854775809") || loose["far"] != json.Number("1e400") || loose["price"] != json.Number("0.1000000000000000055511151231257827") {
		t.Errorf("%v, %v", loose, err)
	}
	var fits struct {
		ID    uint64      `json:"id"`
		Far   json.Number `json:"far"`
		Price float64     `json:"price"`
	}
	if err := r.Decode(&fits); err != nil || fits.ID != 1<<63+1 || fits.Far != "1e400" || fits.Price != 0.1 {
		t.Errorf("%+v, %v", fits, err)
	}
	var tight struct {
		ID int64 `json:"id"`
	}
	wantError[*m3.ValidationError](t, r.Decode(&tight), "invalid_argument", "int64")
	wantError[*m3.ValidationError](t, r.Decode(tight), "invalid_argument", "does not fit")
}

// Arguments go out as they were given: raw JSON byte for byte, on one line; what cannot be arguments is found before it is sent.
func TestArguments(t *testing.T) {
	t.Parallel()
	p := silent()
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	type quote struct {
		Weight float64 `json:"weight_kg"`
	}
	for _, tc := range []struct {
		args any
		want string // the arguments member; empty: absent
	}{
		{nil, ""}, {m3.Args(nil), ""}, {(*quote)(nil), ""}, {json.RawMessage(nil), ""},
		{m3.Args{}, `{}`}, {quote{2.5}, `{"weight_kg":2.5}`}, {&quote{1}, `{"weight_kg":1}`},
		{json.RawMessage(`{"a":1e400, "a":"twice","b":null}`), `{"a":1e400, "a":"twice","b":null}`},
		{json.RawMessage("{\n\"a\": 1}"), `{ "a": 1}`}, {json.RawMessage(`[1]`), `[1]`}, {json.RawMessage(`null`), `null`},
	} {
		before := len(p.got("tools/call"))
		if _, err := client.CallTool(t.Context(), "echo", tc.args, nil); err != nil {
			t.Fatalf("%#v: %v", tc.args, err)
		}
		var sent struct {
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(p.await(t, "tools/call", before+1)[before].Params, &sent); err != nil || string(sent.Arguments) != tc.want {
			t.Errorf("%#v went out as %s, %v", tc.args, sent.Arguments, err)
		}
	}
	sent := len(p.got("tools/call"))
	for _, bad := range []any{json.RawMessage(`{`), json.RawMessage{}, "text", 7, []int{1}, []byte(`{}`), make(chan int), m3.Args{"x": infinity()}} {
		_, err := client.CallTool(t.Context(), "echo", bad, nil)
		wantError[*m3.ValidationError](t, err, "invalid_argument", "call echo")
	}
	_, err := client.CallTool(t.Context(), "echo", nil, &m3.CallOptions{Meta: map[string]any{"x": make(chan int)}})
	wantError[*m3.ValidationError](t, err, "invalid_argument", "_meta")
	if n := len(p.got("tools/call")); n != sent {
		t.Errorf("%d bad calls were sent", n-sent)
	}
}

// A result that is not final is named, and kept. One that asks for input in an operation that has none, or in an old version, cannot be answered.
func TestResultsThatAreNotFinal(t *testing.T) {
	t.Parallel()
	const paused = `{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object"}}}},"requestState":"s"}`
	const odd = `{"resultType":"deferred","content":[]}`
	p := func() *peer {
		return &peer{handle: func(p *peer, m *message) bool {
			switch m.Method {
			case "tools/call", "prompts/get", "resources/read", "tools/list":
				p.result(m, "%s", map[bool]string{true: paused, false: odd}[strings.Contains(string(m.Params), "paused") || m.Method == "tools/list"])
			default:
				return false
			}
			return true
		}}
	}
	for _, protocol := range []string{newest, legacy5} {
		client := connect(t, newKit(t, m3.Config{}), p().server(), &m3.DirectOptions{Protocol: protocol})
		for name, op := range map[string]func(what string) error{
			"call": func(what string) error { _, err := client.CallTool(t.Context(), what, nil, nil); return err },
			"get":  func(what string) error { _, err := client.GetPrompt(t.Context(), what, nil, nil); return err },
			"read": func(what string) error { _, err := client.ReadResource(t.Context(), what, nil); return err },
		} {
			if e := wantError[*m3.UnsupportedError](t, op("odd"), "unsupported", `"deferred"`); string(e.Raw) != odd || e.Details["feature"] != "resultType" {
				t.Errorf("%s: %s, %v", name, e.Raw, e.Details)
			}
			if err := op("paused"); protocol == newest {
				wantError[*elicit.ExpectationError](t, err, "elicitation_expectation_failed", "no plan")
			} else if e := wantError[*m3.UnsupportedError](t, err, "unsupported", "input_required"); string(e.Raw) != paused || e.Details["feature"] != "input_required" {
				t.Errorf("%s: %s, %v", name, e.Raw, e.Details)
			}
		}
		_, err := client.ListTools(t.Context(), nil)
		wantError[*m3.UnsupportedError](t, err, "unsupported", "input_required")
	}
}

// What a server says of itself in an error passes the redactor, as everything does.
func TestErrorTextsAreRedacted(t *testing.T) {
	t.Parallel()
	server := fixture(t, "plain")
	server.Secrets = map[string]m3.SecretRef{"API_TOKEN": m3.EnvSecret(secretName)}
	kit := newKit(t, m3.Config{})
	connect(t, kit, server, nil)
	leaky := &peer{handle: func(p *peer, m *message) bool {
		if m.Method == "tools/call" {
			p.fail(m, "-32000", "bad token "+secretValue)
			return true
		}
		return false
	}}
	_, err := connect(t, kit, leaky.server(), old()).CallTool(t.Context(), "x", nil, nil)
	wantError[*m3.ProtocolError](t, err, "protocol_error", "bad token [REDACTED]")
	if strings.Contains(err.Error(), secretValue) {
		t.Errorf("%v", err)
	}
}
