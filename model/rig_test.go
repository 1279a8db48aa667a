package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// rig is one execution with a provider, and an agent that is played by the test.
type rig struct {
	t        *testing.T
	provider harness.Provider
	at       harness.ModelEndpoint
	client   *http.Client

	mu        sync.Mutex
	exchanges []*harness.ModelExchange
}

func open(t *testing.T, d harness.Dialect, script model.Script, provision ...func(*harness.Provision)) *rig {
	t.Helper()
	r := &rig{t: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	p := &harness.Provision{Dialects: []harness.Dialect{d}, Servers: []string{"calc"}, Record: r.keep}
	for _, change := range provision {
		change(p)
	}
	provider, err := model.Scripted("booking", script).Provide(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	r.provider, r.at = provider, provider.Endpoint()
	t.Cleanup(func() { _ = provider.Finish(context.Background()) })
	return r
}

func (r *rig) keep(x *harness.ModelExchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, x)
}

// recorded are the exchanges so far.
func (r *rig) recorded() []*harness.ModelExchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*harness.ModelExchange{}, r.exchanges...)
}

// last is the exchange that ended last.
func (r *rig) last() *harness.ModelExchange {
	r.t.Helper()
	all := r.recorded()
	if len(all) == 0 {
		r.t.Fatal("nothing was recorded")
	}
	return all[len(all)-1]
}

// waitFor waits until n exchanges are recorded: an agent that goes may do so before its exchange has ended.
func (r *rig) waitFor(n int) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); len(r.recorded()) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%d exchanges are recorded, want %d", len(r.recorded()), n)
		}
	}
}

var paths = map[harness.Dialect]string{
	harness.OpenAIChat: "/v1/chat/completions", harness.OpenAIResponses: "/v1/responses", harness.AnthropicMessages: "/v1/messages",
}

// reply is an answer as it came.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (r *rig) do(method, path, body string, header ...string) reply {
	r.t.Helper()
	return r.doIn(r.t.Context(), method, path, body, header...)
}

func (r *rig) doIn(ctx context.Context, method, path, body string, header ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.at.BaseURL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.at.Key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return reply{status: res.StatusCode, header: res.Header, body: string(b), err: err}
}

// ask sends a request for an answer.
func (r *rig) ask(body string) reply {
	r.t.Helper()
	return r.do(http.MethodPost, paths[r.at.Dialect], body)
}

// finish closes the provider; the problems are those of its error.
func (r *rig) finish() []model.Problem {
	r.t.Helper()
	err := r.provider.Finish(r.t.Context())
	if err == nil {
		return nil
	}
	var unmet *model.UnmetError
	if !errors.As(err, &unmet) {
		r.t.Fatalf("Finish: %T %v", err, err)
	}
	return unmet.Problems
}

// followed demands that the script was followed.
func (r *rig) followed() {
	r.t.Helper()
	if err := r.provider.Finish(r.t.Context()); err != nil {
		r.t.Error(err)
	}
}

// conv is a conversation that is written in any dialect.
type conv struct {
	stream   bool
	system   string
	messages []msg
	tools    []string
}

// msg is a message of the user (say), of the assistant (say, call) or a result (result, for call).
type msg struct{ user, assistant, call, result string }

func (c conv) in(d harness.Dialect) string {
	body := map[string]any{"model": "booking", "stream": c.stream}
	var items []any
	if c.system != "" && d == harness.OpenAIChat {
		items = append(items, map[string]any{"role": "system", "content": c.system})
	}
	for _, m := range c.messages {
		items = append(items, m.in(d)...)
	}
	var tools []any
	for _, name := range c.tools {
		tools = append(tools, offer(d, name))
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch d {
	case harness.OpenAIResponses:
		body["instructions"], body["input"] = c.system, items
	case harness.AnthropicMessages:
		body["system"], body["messages"], body["max_tokens"] = c.system, items, 1000
	default:
		body["messages"], body["stream_options"] = items, map[string]any{"include_usage": true}
	}
	return text(body)
}

func offer(d harness.Dialect, name string) any {
	schema := map[string]any{"type": "object"}
	switch ns, tool, ok := strings.Cut(name, "/"); {
	case ok:
		return map[string]any{"type": "namespace", "name": ns, "tools": []any{map[string]any{"type": "function", "name": tool, "parameters": schema}}}
	case d == harness.OpenAIChat:
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": schema}}
	case d == harness.AnthropicMessages:
		return map[string]any{"name": name, "input_schema": schema}
	}
	return map[string]any{"type": "function", "name": name, "parameters": schema}
}

func (m msg) in(d harness.Dialect) []any {
	role := func(role, text string) any { return map[string]any{"role": role, "content": text} }
	switch {
	case m.user != "":
		return []any{role("user", m.user)}
	case m.assistant != "":
		return []any{role("assistant", m.assistant)}
	}
	switch d {
	case harness.OpenAIResponses:
		if m.call != "" {
			return []any{map[string]any{"type": "function_call", "call_id": "c", "name": m.call, "arguments": "{}"}}
		}
		return []any{map[string]any{"type": "function_call_output", "call_id": "c", "output": m.result}}
	case harness.AnthropicMessages:
		if m.call != "" {
			return []any{map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_use", "id": "c", "name": m.call, "input": map[string]any{}}}}}
		}
		return []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": "c", "content": m.result}}}}
	}
	if m.call != "" {
		return []any{map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "c", "type": "function", "function": map[string]any{"name": m.call, "arguments": "{}"}}}}}
	}
	return []any{map[string]any{"role": "tool", "tool_call_id": "c", "content": m.result}}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// eachDialect runs a test in every dialect.
func eachDialect(t *testing.T, run func(t *testing.T, d harness.Dialect)) {
	t.Helper()
	for d := range paths {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			run(t, d)
		})
	}
}

// hello is a first request with one tool of calc.
func hello(d harness.Dialect, stream bool) string {
	return conv{stream: stream, system: "You are a test subject.", messages: []msg{{user: "add 2 and 3"}}, tools: []string{"calc_add"}}.in(d)
}

// event is an event of a stream.
type event struct {
	name string
	data string
}

func events(t *testing.T, body string) []event {
	t.Helper()
	var out []event
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			} else if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data = v
			} else if line != "" {
				t.Errorf("a line of a stream is %q", line)
			}
		}
		out = append(out, e)
	}
	return out
}

// at digs in JSON: at(b, "choices", 0, "message").
func at(t *testing.T, b string, path ...any) any {
	t.Helper()
	var v any
	dec := json.NewDecoder(bytes.NewReader([]byte(b)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			l, _ := v.([]any)
			if key >= len(l) {
				return nil
			}
			v = l[key]
		}
	}
	return v
}

func wantAt(t *testing.T, b string, want any, path ...any) {
	t.Helper()
	if got := at(t, b, path...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v is %v, want %v, in %s", path, got, want, b)
	}
}
