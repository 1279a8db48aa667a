package model_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

var update = flag.Bool("update", false, "write the golden streams")

// everything is an answer with all that an answer can have.
func everything() model.Step {
	return model.Think("I add both. Then").ThinkHidden("ZW5jcnlwdGVk").Say("One moment: <é> & \u2028 …").Calls(
		model.Use{Tool: "calc:add", Args: map[string]any{"a": 2, "b": json.Number("30000000000000000001")}},
		model.Use{Tool: "calc:add", ID: "own-id"},
	).Usage(model.Usage{Input: 120, Output: 30, CacheRead: 20, CacheWrite: 10, Reasoning: 5})
}

// TestGoldenStreams holds every byte of the streams, and of the same answers without one.
func TestGoldenStreams(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]model.Step{
		"everything": everything(), "say": model.Say("The answer is 5."), "length": model.Say("The answ").Stop(model.MaxTokens).NoUsage(),
		"refusal": model.Say("I will not.").Stop(model.Refusal), "empty": model.Empty(), "error": model.Say("The ").Fault(model.Failure{Kind: model.FailError, Message: "out of luck"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, func(t *testing.T, d harness.Dialect) {
				r := open(t, d, model.Script{step.Times(2)})
				streamed, whole := r.ask(hello(d, true)), r.ask(hello(d, false))
				golden(t, name+"."+string(d)+".sse", streamed.body)
				golden(t, name+"."+string(d)+".json", whole.body+"\n")
				r.followed()
			})
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestStreamIsTheAnswer: what an agent puts together from a stream is the answer that it gets without one, and what is recorded.
func TestStreamIsTheAnswer(t *testing.T) {
	t.Parallel()
	assemble := map[harness.Dialect]func(*testing.T, []event) any{
		harness.OpenAIChat: chatAnswer, harness.OpenAIResponses: responsesAnswer, harness.AnthropicMessages: messagesAnswer,
	}
	for name, step := range map[string]model.Step{
		"everything": everything(), "large": model.Say(strings.Repeat("wörd ", 40_000)).Call("calc:add", map[string]string{"s": strings.Repeat("ü", 500_000)}),
		"length": model.Say("x").Stop(model.MaxTokens),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, func(t *testing.T, d harness.Dialect) {
				r := open(t, d, model.Script{step}, nil...)
				streamed := r.ask(hello(d, true))
				got, err := json.Marshal(assemble[d](t, events(t, streamed.body)))
				if err != nil {
					t.Fatal(err)
				}
				recorded := r.last().Response
				if diff := cmp.Diff(parts(t, d, string(recorded)), parts(t, d, string(got))); diff != "" {
					t.Errorf("recorded and assembled differ (-recorded +assembled):\n%.2000s", diff)
				}
				s := open(t, d, model.Script{step})
				whole := s.ask(hello(d, false))
				if diff := cmp.Diff(at(t, whole.body), at(t, string(recorded))); diff != "" {
					t.Errorf("without a stream, and recorded of the stream (-whole +recorded):\n%.2000s", diff)
				}
			})
		})
	}
}

// parts is what an answer says, without what only the whole form has.
func parts(t *testing.T, d harness.Dialect, answer string) any {
	t.Helper()
	switch d {
	case harness.OpenAIChat:
		return []any{at(t, answer, "choices", 0, "message"), at(t, answer, "choices", 0, "finish_reason"), at(t, answer, "usage")}
	case harness.AnthropicMessages:
		return []any{at(t, answer, "content"), at(t, answer, "stop_reason"), at(t, answer, "usage")}
	}
	return at(t, answer)
}

type m = map[string]any

func chatAnswer(t *testing.T, all []event) any {
	message, calls := m{"role": "assistant", "content": nil}, []any{}
	var finish, usage any
	add := func(to m, key string, v any) {
		if s, ok := v.(string); ok && s != "" {
			old, _ := to[key].(string)
			to[key] = old + s
		}
	}
	for i, e := range all {
		if e.data == "[DONE]" {
			if i != len(all)-1 {
				t.Error("something follows [DONE]")
			}
			continue
		}
		if u := at(t, e.data, "usage"); u != nil {
			usage = u
		}
		if f := at(t, e.data, "choices", 0, "finish_reason"); f != nil {
			finish = f
		}
		delta, _ := at(t, e.data, "choices", 0, "delta").(m)
		add(message, "content", delta["content"])
		add(message, "reasoning_content", delta["reasoning_content"])
		deltas, _ := delta["tool_calls"].([]any)
		for _, c := range deltas {
			c := c.(m)
			if c["id"] != nil {
				calls = append(calls, m{"id": c["id"], "type": "function", "function": m{"name": c["function"].(m)["name"], "arguments": ""}})
			}
			index, _ := c["index"].(json.Number).Int64()
			add(calls[index].(m)["function"].(m), "arguments", c["function"].(m)["arguments"])
		}
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return m{"choices": []any{m{"message": message, "finish_reason": finish}}, "usage": usage}
}

// responsesAnswer checks that deltas, done events and the final response agree.
func responsesAnswer(t *testing.T, all []event) any {
	texts := map[string]string{}
	for i, e := range all {
		if at(t, e.data, "type") != e.name {
			t.Errorf("event %s is of type %v", e.name, at(t, e.data, "type"))
		}
		wantAt(t, e.data, i, "sequence_number")
		id, _ := at(t, e.data, "item_id").(string)
		if delta, ok := at(t, e.data, "delta").(string); ok {
			texts[id] += delta
		}
		for _, key := range []string{"text", "arguments"} {
			if done, ok := at(t, e.data, key).(string); ok && done != texts[id] {
				t.Errorf("%s says %.100q and the deltas %.100q", e.name, done, texts[id])
			}
		}
		if e.name == "response.output_item.done" {
			index, _ := at(t, e.data, "output_index").(json.Number).Int64()
			if diff := cmp.Diff(at(t, all[len(all)-1].data, "response", "output", int(index)), at(t, e.data, "item")); diff != "" {
				t.Errorf("item %d (-final +done):\n%.1000s", index, diff)
			}
		}
	}
	return at(t, all[len(all)-1].data, "response")
}

func messagesAnswer(t *testing.T, all []event) any {
	var content []any
	var partial string
	var stop, usage any
	for _, e := range all {
		if at(t, e.data, "type") != e.name {
			t.Errorf("event %s is of type %v", e.name, at(t, e.data, "type"))
		}
		switch e.name {
		case "content_block_start":
			content = append(content, at(t, e.data, "content_block"))
			partial = ""
		case "content_block_delta":
			b := content[len(content)-1].(m)
			for key, v := range at(t, e.data, "delta").(m) {
				switch s, _ := v.(string); key {
				case "partial_json":
					partial += s
				case "type":
				default:
					b[key] = b[key].(string) + s
				}
			}
		case "content_block_stop":
			if partial != "" {
				content[len(content)-1].(m)["input"] = json.RawMessage(partial)
			}
		case "message_delta":
			stop, usage = at(t, e.data, "delta", "stop_reason"), at(t, e.data, "usage")
		}
	}
	return m{"content": content, "stop_reason": stop, "usage": usage}
}

// TestUsageArithmetic: each dialect counts in its own way.
func TestUsageArithmetic(t *testing.T) {
	t.Parallel()
	script := func() model.Script {
		return model.Script{
			model.Say("a").Usage(model.Usage{Input: 120, Output: 30, CacheRead: 20, CacheWrite: 10, Reasoning: 5}), model.Say("b"), model.Say("c").NoUsage(),
		}
	}
	for d, want := range map[harness.Dialect][3]string{
		harness.OpenAIChat: {
			`{"completion_tokens":30,"completion_tokens_details":{"reasoning_tokens":5},"prompt_tokens":120,"prompt_tokens_details":{"cached_tokens":20},"total_tokens":150}`,
			`{"completion_tokens":20,"completion_tokens_details":{"reasoning_tokens":0},"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":120}`, `null`,
		},
		harness.OpenAIResponses: {
			`{"input_tokens":120,"input_tokens_details":{"cached_tokens":20},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":150}`,
			`{"input_tokens":100,"input_tokens_details":{"cached_tokens":0},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":120}`, `null`,
		},
		harness.AnthropicMessages: {
			`{"cache_creation_input_tokens":10,"cache_read_input_tokens":20,"input_tokens":90,"output_tokens":30}`,
			`{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":100,"output_tokens":20}`,
			`{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":0,"output_tokens":0}`,
		},
	} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			r := open(t, d, script())
			for _, w := range want {
				if got := text(at(t, r.ask(hello(d, false)).body, "usage")); got != w {
					t.Errorf("usage\n%s, want\n%s", got, w)
				}
			}
			r.followed()
		})
	}
}
