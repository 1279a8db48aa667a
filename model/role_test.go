package model_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// guardianSchema is what Codex's reviewing model has to answer with.
const guardianSchema = `{"type":"object","properties":{"risk_level":{"type":"string","enum":["low","medium","high","critical"]},"outcome":{"type":"string","enum":["allow","deny"]},"rationale":{"type":"string"}},"required":["outcome"]}`

// sides are side requests as agents make them, by dialect.
var sides = []struct {
	name    string
	dialect harness.Dialect
	body    string
	header  []string
	role    string
	answer  string // a part of it
}{
	{"opencode's title", harness.OpenAIChat, `{"model":"m","stream":true,"messages":[{"role":"system","content":"You are a title generator. You output ONLY a thread title."},{"role":"user","content":"Generate a title for this conversation:\n"},{"role":"user","content":"add 2 and 3"}]}`, nil, "title", "Scripted "},
	{"opencode's summary", harness.OpenAIChat, `{"model":"m","messages":[{"role":"system","content":"You are an anchored context summarization assistant for coding sessions."},{"role":"user","content":"…"}]}`, nil, "summary", "scripted model"},
	{"claude code's title", harness.AnthropicMessages, `{"model":"m","stream":true,"max_tokens":100,"system":[{"type":"text","text":"x-anthropic-billing-header: cc"},{"type":"text","text":"Generate a concise, sentence-case title (3-7 words) that captures the main topic. Return JSON with a single \"title\" field."}],"messages":[{"role":"user","content":"add"}]}`, nil, "title", `{\"title\":\"Scripted`},
	{"claude code's title by schema", harness.AnthropicMessages, `{"model":"m","max_tokens":100,"system":"Name it.","output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"title":{"type":"string"}}}}},"messages":[{"role":"user","content":"add"}]}`, nil, "title", `{\"title\":\"Scripted session\"}`},
	{"claude code's classifier", harness.AnthropicMessages, `{"model":"m","max_tokens":64,"stop_sequences":["</block>"],"system":[{"type":"text","text":"You are a security monitor for autonomous AI coding agents.\n…"}],"messages":[{"role":"user","content":"<transcript>\n…</transcript>"}]}`, nil, "classifier", "<block>no</block>"},
	{"claude code's severity", harness.AnthropicMessages, `{"model":"m","max_tokens":64,"stop_sequences":["</severity>"],"system":"Grade.","messages":[{"role":"user","content":"ls"}]}`, nil, "classifier", "<severity>0</severity>"},
	{"claude code's older classifier", harness.AnthropicMessages, `{"model":"m","max_tokens":64,"system":"Decide.","tools":[{"name":"classify_result","input_schema":{"type":"object","properties":{"shouldBlock":{"type":"boolean"},"reason":{"type":"string"}}}}],"tool_choice":{"type":"tool","name":"classify_result"},"messages":[{"role":"user","content":"ls"}]}`, nil, "classifier", `"shouldBlock":false`},
	{"claude code's quota", harness.AnthropicMessages, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"quota"}]}`, nil, "probe", `"stop_reason":"max_tokens"`},
	{"claude code's summary", harness.AnthropicMessages, `{"model":"m","max_tokens":9000,"system":"You are a helpful AI assistant tasked with summarizing conversations.","messages":[{"role":"user","content":"…"}]}`, nil, "summary", "scripted model"},
	{"codex's guardian by schema", harness.OpenAIResponses, `{"model":"m","stream":true,"instructions":"You review.","text":{"format":{"type":"json_schema","name":"x","schema":` + guardianSchema + `}},"tools":[{"type":"function","name":"exec_command"}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"…"}]}]}`, nil, "guardian", `{\"outcome\":\"allow\",\"rationale\":\"scripted by m3\",\"risk_level\":\"low\"}`},
	{"codex's guardian by header", harness.OpenAIResponses, `{"model":"m","instructions":"You review.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"…"}]}]}`, []string{"X-Openai-Subagent", "guardian"}, "guardian", `\"outcome\":\"allow\"`},
	{"codex's compaction", harness.OpenAIResponses, `{"model":"m","stream":true,"instructions":"You are Codex.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"add"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary"}]}],"tools":[{"type":"function","name":"exec_command"}]}`, nil, "summary", "scripted "},
}

// TestSideRequests: what agents ask besides is known by its role, answered, recorded, and takes no step.
func TestSideRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range sides {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := open(t, tc.dialect, model.Script{model.Say("the step")})
			got := r.do(http.MethodPost, paths[tc.dialect], tc.body, tc.header...)
			if got.status != http.StatusOK || got.err != nil {
				t.Errorf("answer %d %s", got.status, got.body)
			}
			x := r.last()
			if x.Role != tc.role || x.Step != "" || x.Error != "" || !strings.Contains(string(x.Response), tc.answer) {
				t.Errorf("recorded as %q, step %q, error %q: %s, want %s in it", x.Role, x.Step, x.Error, x.Response, tc.answer)
			}
			if step := r.ask(hello(tc.dialect, false)); !strings.Contains(step.body, "the step") {
				t.Errorf("the step was taken: %s", step.body)
			}
			r.followed()
		})
	}
}

// TestTurnsAreTurns: what a test says to its agent makes no side request of it.
func TestTurnsAreTurns(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		for _, c := range []conv{
			{system: "You are a test subject.", messages: []msg{{user: "You are a title generator. Generate a concise, sentence-case title."}}},
			{system: "You are a title generator.", messages: []msg{{user: "hi"}}, tools: []string{"calc_add"}},
			{messages: []msg{{user: "hi"}}},
			{system: strings.Repeat("long prompt ", 100) + "You are a security monitor for autonomous AI coding agents", messages: []msg{{user: "hi"}}},
		} {
			r := open(t, d, model.Script{model.Say("the step")})
			if got := r.ask(c.in(d)); !strings.Contains(got.body, "the step") || r.last().Role != model.RoleTurn {
				t.Errorf("%s was taken for %s", c.in(d), r.last().Role)
			}
			r.followed()
		}
	})
}

// TestOwnSideAnswers: a step for a role answers in place of m3, and is left over like any other.
func TestOwnSideAnswers(t *testing.T) {
	t.Parallel()
	deny := `{"outcome":"deny","risk_level":"high","rationale":"no"}`
	r := open(t, harness.OpenAIResponses, model.Script{model.Say(deny).For(model.RoleGuardian), model.Say("the step"), model.Say("title").For(model.RoleTitle)})
	i := slices.IndexFunc(sides, func(s struct {
		name    string
		dialect harness.Dialect
		body    string
		header  []string
		role    string
		answer  string
	}) bool {
		return s.name == "codex's guardian by schema"
	})
	r.ask(sides[i].body)
	if x := r.last(); !strings.Contains(string(x.Response), `deny`) || !strings.HasPrefix(x.Step, "step 1 ") {
		t.Errorf("first review %s by %q", x.Response, x.Step)
	}
	r.ask(sides[i].body)
	if x := r.last(); !strings.Contains(string(x.Response), `allow`) || x.Step != "" {
		t.Errorf("second review %s by %q", x.Response, x.Step)
	}
	r.ask(hello(harness.OpenAIResponses, true))
	problems := r.finish()
	if len(problems) != 1 || problems[0].Step != 3 {
		t.Errorf("problems %v", problems)
	}
}

// TestOtherPaths: counts of tokens, lists of models and probes.
func TestOtherPaths(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		r := open(t, d, model.Script{})
		for _, tc := range []struct {
			method, path, body string
			status             int
			role, want         string
		}{
			{"GET", "/", "", 404, "probe", "error"}, {"HEAD", "/", "", 404, "probe", ""}, {"GET", "/api/hello", "", 200, "probe", "hello"},
			{"GET", "/v1/models", "", 200, "models", `"id":"booking"`}, {"GET", "/v1/models/booking", "", 200, "models", `"id":"booking"`}, {"GET", "/v1/models/other", "", 404, "models", "error"},
		} {
			got := r.do(tc.method, tc.path, tc.body)
			if got.status != tc.status || !strings.Contains(got.body, tc.want) {
				t.Errorf("%s %s: %d %s", tc.method, tc.path, got.status, got.body)
			}
			if x := r.last(); x.Role != tc.role || x.Path != tc.path || x.Status != tc.status {
				t.Errorf("%s %s recorded as %+v", tc.method, tc.path, x)
			}
		}
		if d == harness.AnthropicMessages {
			got := r.do("POST", "/v1/messages/count_tokens?beta=true", `{"model":"booking","messages":[{"role":"user","content":"x"}]}`)
			if x := r.last(); got.status != 200 || !strings.Contains(got.body, `"input_tokens":`) || x.Role != model.RoleCountTokens || x.Path != "/v1/messages/count_tokens?beta=true" {
				t.Errorf("count_tokens: %d %s as %+v", got.status, got.body, x)
			}
		}
		r.followed()
	})
}
