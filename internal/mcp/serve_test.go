package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// asking is a legacy server that sends the request while tools/call is pending, and puts its answer, or its error, into the call's result.
func asking(method, params string) server {
	var call string
	return legacyServer(speaks(legacyVersions...), func(m *message, say func(string, ...any)) {
		switch {
		case m.Method == "tools/call":
			call = string(m.ID)
			say(`{"jsonrpc":"2.0","id":"ask-1","method":%q,"params":%s}`, method, params)
		case string(m.ID) == `"ask-1"` && m.Error != nil:
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"error":%s}}`, call, m.Error)
		case string(m.ID) == `"ask-1"`:
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"answer":%s}}`, call, m.Result)
		}
	})
}

const samplingParams = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`

// W-H01: the server asks for a sample and waits for it while it owes the answer to tools/call.
func TestSamplingInMidCall(t *testing.T) {
	t.Parallel()
	for _, version := range legacyVersions {
		r := newRig(t)
		cfg := r.config(asking("sampling/createMessage", samplingParams))
		cfg.Protocol, cfg.Capabilities = version, Capabilities{Sampling: true}
		cfg.Request = func(_ context.Context, method string, params trace.JSON) (any, *rpc.ErrorObject, bool) {
			if method != "sampling/createMessage" || params.String() != samplingParams {
				t.Errorf("asked %s %s", method, params)
			}
			return map[string]any{"role": "assistant", "model": "m", "content": map[string]any{"type": "text", "text": "yes"}}, nil, true
		}
		s := r.connect(cfg)
		resp, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}})
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"content":{"text":"yes","type":"text"},"model":"m","role":"assistant"}`; string(member(resp.Result, "answer")) != want {
			t.Errorf("%s: the server got %s, want %s", version, resp.Result, want)
		}
		r.noFindings()
	}
}

func TestServerRequests(t *testing.T) {
	t.Parallel()
	roots := func(context.Context, string, trace.JSON) (any, *rpc.ErrorObject, bool) {
		return trace.JSON(`{"roots":[]}`), nil, true
	}
	for _, tc := range []struct {
		name, version  string
		method, params string
		capabilities   Capabilities
		answer         func(context.Context, string, trace.JSON) (any, *rpc.ErrorObject, bool)
		want, finding  string
	}{
		{"ping", Version20250618, "ping", `{}`, Capabilities{}, nil, `"answer":{}`, ""},
		{"roots", Version20250618, "roots/list", `{}`, Capabilities{Roots: true}, roots, `"answer":{"roots":[]}`, ""},
		{"not declared", Version20250618, "roots/list", `{}`, Capabilities{}, roots, `"code":-32601`, "undeclared-capability"},
		{"not in the version", Version20250326, "elicitation/create", `{}`, Capabilities{ElicitForm: true}, roots, `"code":-32601`, "method-not-in-version"},
		{"mode not declared", Version20251125, "elicitation/create", `{"mode":"url","url":"x"}`, Capabilities{ElicitForm: true}, roots, `"code":-32602`, "undeclared-capability"},
		{"unknown", Version20250618, "no/such", `{}`, Capabilities{}, nil, `"code":-32601`, ""},
		{"not handled", Version20250618, "no/such", `{}`, Capabilities{}, func(context.Context, string, trace.JSON) (any, *rpc.ErrorObject, bool) { return nil, nil, false }, `"code":-32601`, ""},
		{"own error", Version20250618, "roots/list", `{}`, Capabilities{Roots: true}, func(context.Context, string, trace.JSON) (any, *rpc.ErrorObject, bool) {
			return nil, &rpc.ErrorObject{Code: trace.JSON("-1"), Message: "rejected by the user"}, true
		}, `"code":-1,"message":"rejected by the user"`, ""},
		{"no JSON", Version20250618, "roots/list", `{}`, Capabilities{Roots: true}, func(context.Context, string, trace.JSON) (any, *rpc.ErrorObject, bool) {
			return make(chan int), nil, true
		}, `"code":-32603`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cfg := r.config(asking(tc.method, tc.params))
			cfg.Protocol, cfg.Capabilities, cfg.Request = tc.version, tc.capabilities, tc.answer
			resp, err := r.connect(cfg).Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(resp.Result.String(), tc.want) {
				t.Errorf("the server got %s, want %s", resp.Result, tc.want)
			}
			if tc.finding == "" {
				r.noFindings()
			} else if f := r.finding(tc.finding); f.RPCID != `"ask-1"` || f.Sequence < 0 {
				t.Errorf("%+v", f)
			}
		})
	}
}

// From 2026-07-28 on servers send no requests, and clients no answers.
func TestModernServerRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(modernServer(func(m *message, say func(string, ...any)) {
		if m.Method == "tools/call" {
			say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
		}
	})))
	for range 2 {
		if _, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	if codes := r.codes(); !slices.Equal(codes, []string{"server-request", "server-request"}) {
		t.Errorf("findings %v", codes)
	}
	for _, m := range r.messages() {
		if !m.received && m.Method == "" {
			t.Errorf("m3 answered %s", m.raw)
		}
	}
}

// A server may speak before it answers initialize: the ping is answered, the rest is a finding.
func TestSpeaksBeforeInitialized(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var initialize string
	cfg := r.config(talk(func(m *message, say func(string, ...any)) {
		switch {
		case m.Method == "initialize":
			initialize = string(m.ID)
			say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"starting"}}`)
			say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		case string(m.ID) == "1" && m.Result != nil:
			say(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
		case string(m.ID) == "2" && m.Result != nil:
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},%s}}`, initialize, serverInfo)
		}
	}))
	heard := make(chan string, 1)
	cfg.Protocol, cfg.Capabilities = Version20250618, Capabilities{Roots: true}
	cfg.Notification = func(method string, params trace.JSON) { heard <- method + " " + params.String() }
	cfg.Request = func(context.Context, string, trace.JSON) (any, *rpc.ErrorObject, bool) {
		return trace.JSON(`{"roots":[]}`), nil, true
	}
	r.connect(cfg)
	if got, want := <-heard, `notifications/message {"level":"info","data":"starting"}`; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
	if f := r.finding("request-before-initialized"); f.RPCID != "2" || f.Severity != trace.SeverityWarning {
		t.Errorf("%+v", f)
	}
}

// W-C08: a server that answers without having seen initialized breaks no rule.
func TestAnswersBeforeInitialized(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(legacyServer(speaks(legacyVersions...), func(m *message, say func(string, ...any)) {
		if m.ID != nil {
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
		}
	}))
	cfg.Protocol = Version20250618
	if _, err := r.connect(cfg).Do(t.Context(), &Op{Method: "tools/list"}); err != nil {
		t.Fatal(err)
	}
	r.noFindings()
}

// W-H04: the tool list changes while a call is pending; the listener is told before the call ends, and nothing else happens.
func TestListChangedInMidCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(legacyServer(speaks(legacyVersions...), func(m *message, say func(string, ...any)) {
		if m.Method == "tools/call" {
			say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		}
	}))
	var mu sync.Mutex
	var heard []string
	cfg.Protocol = Version20250618
	cfg.Notification = func(method string, params trace.JSON) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, method+params.String())
	}
	s := r.connect(cfg)
	if _, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]string{"notifications/tools/list_changed"}, heard); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"initialize", "notifications/initialized", "tools/call"}, r.sent()); d != "" {
		t.Error(d)
	}
	r.noFindings()
}

// W-D17: progress under a token that was never sent.
func TestFabricatedProgressToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(legacyServer(speaks(legacyVersions...), func(m *message, say func(string, ...any)) {
		if m.Method == "tools/call" {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tool-call-4","progress":1}}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		}
	}))
	cfg.Protocol = Version20250618
	called := false
	_, err := r.connect(cfg).Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}, Progress: func(Progress) { called = true }})
	if err != nil || called {
		t.Errorf("%v, callback called: %v", err, called)
	}
	if f := r.finding("unknown-progress-token"); !strings.Contains(f.Message, `"tool-call-4"`) && !strings.Contains(f.Message, `tool-call-4`) || f.Sequence < 0 {
		t.Errorf("%+v", f)
	}
}

// progressing sends n progress notifications before it answers.
func progressing(n int) func(m *message, say func(string, ...any)) {
	return func(m *message, say func(string, ...any)) {
		if m.Method != "tools/call" {
			if m.ID != nil {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[],"resources":[]}}`, m.ID)
			}
			return
		}
		token := member(member(m.Params, "_meta"), "progressToken")
		for i := range n {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":%d,"message":"step"}}`, token, i+1, n)
		}
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
	}
}

// Do returns after the callback has seen everything, and the callback may use the session.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]server{"modern": modernServer(progressing(3)), "legacy": legacyServer(speaks(Version20250618), progressing(3))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.connect(r.config(serve))
			var seen []float64
			_, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}, Progress: func(p Progress) {
				if p.Total == nil || *p.Total != 3 || p.Message != "step" || p.Sequence <= 0 {
					t.Errorf("%+v", p)
				}
				if _, err := s.Do(t.Context(), &Op{Method: "resources/list"}); err != nil {
					t.Error(err)
				}
				seen = append(seen, p.Progress)
			}})
			if err != nil || !slices.Equal(seen, []float64{1, 2, 3}) {
				t.Errorf("%v, %v", seen, err)
			}
			r.noFindings()
		})
	}
}

func TestOwnProgressToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(modernServer(progressing(1))))
	n := 0
	for _, fn := range []func(Progress){func(Progress) { n++ }, nil} {
		_, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}, Meta: map[string]any{"progressToken": json.RawMessage(`"m\u0069ne"`)}, Progress: fn})
		if err != nil || n != 1 {
			t.Errorf("%d calls, %v", n, err)
		}
	}
	r.noFindings()
}

// When a call times out while the server waits for us, the pair is named.
func TestWaitingPair(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		cfg := r.config(asking("sampling/createMessage", samplingParams))
		cfg.Protocol, cfg.Capabilities = Version20250618, Capabilities{Sampling: true}
		cfg.Request = func(ctx context.Context, _ string, _ trace.JSON) (any, *rpc.ErrorObject, bool) {
			<-ctx.Done() // the handler never answers
			return nil, nil, true
		}
		s := r.connect(cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Do(ctx, &Op{Method: "tools/call", Params: &Target{Name: "t"}})
		var call *rpc.CallError
		if !errors.As(err, &call) || call.Kind != rpc.KindTimeout {
			t.Fatalf("error %v", err)
		}
		if f := r.finding("waiting-pair"); !strings.Contains(f.Message, "tools/call") || !strings.Contains(f.Message, "sampling/createMessage") {
			t.Error(f.Message)
		}
		synctest.Wait()
		if !slices.Contains(r.sent(), "notifications/cancelled") {
			t.Errorf("the server was not told: %v", r.sent())
		}
	})
}

// Do does not wait for a callback when its own time is up.
func TestProgressOfCancelledCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(modernServer(func(m *message, say func(string, ...any)) {
		if m.Method == "tools/call" {
			for range 3 {
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
			}
		}
	})))
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := 0
	entered, release := make(chan struct{}), make(chan struct{})
	_, err := s.Do(ctx, &Op{Method: "tools/call", Params: &Target{Name: "t"}, Progress: func(Progress) {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen == 1 {
			cancel()
			close(entered)
			<-release
		}
	}})
	var call *rpc.CallError
	if !errors.As(err, &call) || call.Kind != rpc.KindCancelled {
		t.Errorf("error %v", err)
	}
	<-entered
	close(release)
}

// Progress after the end of its call, and progress without a token, are different findings.
func TestStrayProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(modernServer(func(m *message, say func(string, ...any)) {
		if m.Method == "tools/list" { // the first call has ended by now
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/progress"}`)
		}
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[],"resources":[]}}`, m.ID)
	})))
	for _, method := range []string{"tools/call", "tools/list"} {
		op := &Op{Method: method, Progress: func(Progress) { t.Error("a callback was called") }}
		if method == "tools/call" {
			op.Params = &Target{Name: "t"}
		}
		if _, err := s.Do(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"late-progress", "unknown-progress-token", "unknown-progress-token"}, r.codes()); d != "" {
		t.Error(d)
	}
}

func TestProgressWithoutNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(modernServer(func(m *message, say func(string, ...any)) {
		say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":"half"}}`)
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[],"resources":[]}}`, m.ID)
	})))
	var raw string
	if _, err := s.Do(t.Context(), &Op{Method: "tools/list", Progress: func(p Progress) { raw = p.Raw.String() }}); err != nil {
		t.Fatal(err)
	}
	if raw != `{"progressToken":1,"progress":"half"}` {
		t.Errorf("raw %s", raw)
	}
	r.finding("progress-invalid")
}
