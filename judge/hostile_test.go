package judge

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/providertest"
)

// completionOf is a chat completion with this choice.
func completionOf(choice string) providertest.Reply {
	return providertest.Reply{Body: `{"model":"x","choices":[` + choice + `]}`}
}

// TestCodes: whatever an endpoint does ends with one row of status error, and the code that says what it was.
func TestCodes(t *testing.T) {
	t.Parallel()
	type reply = providertest.Reply
	chat := providertest.Chat
	answer := func(score, rationale, abstain string) reply {
		return chat(`{"score":` + score + `,"rationale":` + rationale + `,"abstain":` + abstain + `}`)
	}
	quoted := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	for _, tc := range []struct {
		name     string
		reply    reply
		code     string // empty: it passes
		requests int    // 0: one
	}{
		{"answer", chat(good), "", 0},
		{"spaces around the answer", chat("\n " + good + "\n"), "", 0},
		{"rationale at its limit", answer("1", quoted(strings.Repeat("ä", 2000)), "false"), "", 0},
		{"finish_reason of its own", completionOf(`{"finish_reason":"eos","message":{"content":` + quoted(good) + `}}`), "", 0},

		{"abstains", answer("null", `"no"`, "true"), CodeAbstained, 0},
		{"refuses", completionOf(`{"finish_reason":"stop","message":{"content":null,"refusal":"canary"}}`), CodeRefusal, 0},
		{"cut by length", completionOf(`{"finish_reason":"length","message":{"content":` + quoted(good) + `}}`), CodeIncompleteOutput, 0},
		{"cut by a filter", completionOf(`{"finish_reason":"content_filter","message":{"content":""}}`), CodeIncompleteOutput, 0},

		{"NaN", answer("NaN", `"w"`, "false"), CodeJudgeMalformed, 0},
		{"infinite", answer("1e999", `"w"`, "false"), CodeJudgeMalformed, 0},
		{"score over 1", answer("1.0001", `"w"`, "false"), CodeJudgeMalformed, 0},
		{"score below 0", answer("-0.1", `"w"`, "false"), CodeJudgeMalformed, 0},
		{"score as text", answer(`"0.9"`, `"w"`, "false"), CodeJudgeMalformed, 0},
		{"score as truth", answer("true", `"w"`, "false"), CodeJudgeMalformed, 0},
		{"score without a number", answer("null", `"w"`, "false"), CodeJudgeMalformed, 0},
		{"score of an abstention", answer("0.9", `"w"`, "true"), CodeJudgeMalformed, 0},
		{"abstain as text", answer("0.9", `"w"`, `"false"`), CodeJudgeMalformed, 0},
		{"rationale as number", answer("0.9", "5", "false"), CodeJudgeMalformed, 0},
		{"rationale too long", answer("0.9", quoted(strings.Repeat("ä", 2001)), "false"), CodeJudgeMalformed, 0},
		{"member missing", chat(`{"score":0.9,"abstain":false}`), CodeJudgeMalformed, 0},
		{"member too many", chat(`{"score":0.9,"rationale":"w","abstain":false,"verdict":"fail"}`), CodeJudgeMalformed, 0},
		{"member twice", chat(`{"score":0.1,"score":0.9,"rationale":"w","abstain":false}`), CodeJudgeMalformed, 0},
		{"member in capitals", chat(`{"Score":0.9,"rationale":"w","abstain":false}`), CodeJudgeMalformed, 0},
		{"trailing comma", chat(`{"score":0.9,"rationale":"w","abstain":false,}`), CodeJudgeMalformed, 0},
		{"prose", chat("I give it a 9 out of 10."), CodeJudgeMalformed, 0},
		{"prose before", chat("Here you are: " + good), CodeJudgeMalformed, 0},
		{"prose after", chat(good + " I hope this helps."), CodeJudgeMalformed, 0},
		{"two objects", chat(good + good), CodeJudgeMalformed, 0},
		{"array", chat("[" + good + "]"), CodeJudgeMalformed, 0},
		{"JSON in JSON", chat(quoted(good)), CodeJudgeMalformed, 0},
		{"empty", chat(""), CodeJudgeMalformed, 0},
		{"half an object", chat(good[:20]), CodeJudgeMalformed, 0},
		{"deep", chat(strings.Repeat(`{"score":`, 20000)), CodeJudgeMalformed, 0},

		{"not JSON", reply{Body: "canary"}, CodeMalformed, 0},
		{"nothing", reply{}, CodeMalformed, 0},
		{"a list", reply{Body: "[]"}, CodeMalformed, 0},
		{"wrong content type", reply{Body: chat(good).Body, Header: map[string]string{"Content-Type": "text/html"}}, CodeMalformed, 0},
		{"stream", reply{Body: "data: {}\n\n", Header: map[string]string{"Content-Type": "text/event-stream"}}, CodeMalformed, 0},
		{"not UTF-8", reply{Body: strings.Replace(chat(good).Body, "scripted", "\xff\xfe", 1)}, CodeMalformed, 0},
		{"huge", reply{Body: `{"model":"` + strings.Repeat("canary", 1<<18) + `"}`}, CodeMalformed, 0},
		{"never-ending", reply{Body: strings.Repeat(" ", 4096), Endless: true}, CodeMalformed, 0},
		{"broken gzip", reply{Body: "canary", Header: map[string]string{"Content-Encoding": "gzip"}}, CodeProvider, 0},
		{"no choices", reply{Body: `{"choices":[]}`}, CodeMalformed, 0},
		{"two choices", completionOf(`{"message":{"content":"a"}},{"message":{"content":"b"}}`), CodeMalformed, 0},
		{"no message", completionOf(`{"finish_reason":"stop"}`), CodeMalformed, 0},
		{"no content", completionOf(`{"finish_reason":"tool_calls","message":{"content":null}}`), CodeMalformed, 0},
		{"content in parts", completionOf(`{"message":{"content":[{"type":"text","text":"canary"}]}}`), CodeMalformed, 0},
		{"error with 200", reply{Body: `{"error":{"message":"canary"}}`}, CodeProvider, 0},

		{"redirect", reply{Status: 302, Header: map[string]string{"Location": "/elsewhere"}}, CodeRedirectBlocked, 0},
		{"redirect that keeps the method", reply{Status: 307, Header: map[string]string{"Location": "/v1/chat/completions"}}, CodeRedirectBlocked, 0},
		{"unauthorized", reply{Status: 401, Body: "canary"}, CodeProvider, 0},
		{"not found", reply{Status: 404}, CodeProvider, 0},
		{"bad request", reply{Status: 400, Body: `{"error":{"message":"canary"}}`}, CodeProvider, 0},
		{"no content status", reply{Status: 204}, CodeProvider, 0},
		{"rate limit", reply{Status: 429, Body: "canary"}, CodeRateLimit, 2},
		{"rate limit for an hour", reply{Status: 429, Header: map[string]string{"Retry-After": "3600"}}, CodeRateLimit, 1},
		{"server error", reply{Status: 500, Body: "canary"}, CodeServerError, 2},
		{"bad gateway", reply{Status: 502}, CodeServerError, 2},
		{"request timeout", reply{Status: 408}, CodeTimeout, 2},
		{"silence", reply{Hang: true}, CodeTimeout, 2},
		{"dropped", reply{Drop: true}, CodeProvider, 0},
		{"cut", reply{Body: `{"model":`, Cut: true}, CodeProvider, 0},
		{"not HTTP", reply{Raw: "canary\r\n\r\n"}, CodeProvider, 0},
		{"endless head", reply{Raw: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: canary\r\n", 1<<16)}, CodeProvider, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := providertest.New(t, providertest.Sequence(tc.reply))
			l := local(p)
			if tc.reply.Hang {
				l.Timeout = 100 * time.Millisecond
			}
			d := evaluate(t, l, subject)
			requests := max(tc.requests, 1)
			if tc.code == "" {
				if d.Status != eval.Passed {
					t.Errorf("decision %+v", d)
				}
			} else if d.Status != eval.Error || d.Score != nil || d.Details["error_code"] != tc.code || d.Message == "" {
				t.Errorf("decision %+v, want the code %s", d, tc.code)
			}
			if n := len(p.Requests()); n != requests || d.Details["attempts"] != requests {
				t.Errorf("%d requests, attempts %v, want %d", n, d.Details["attempts"], requests)
			}
			if strings.Contains(text(t, d), "canary") {
				t.Errorf("words of the endpoint are in the row: %+v", d)
			}
		})
	}
}

// TestUnreachable: an endpoint that is not there is asked once.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Reply{}))
	l := local(p)
	p.HTTP.Close()
	d := evaluate(t, l, subject)
	if d.Details["error_code"] != CodeProvider || !strings.Contains(d.Message, "connection refused") || d.Details["attempts"] != 1 {
		t.Errorf("decision %+v", d)
	}
}

// TestRetry: a second attempt that goes well is a verdict, and NoRetry makes none.
func TestRetry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		first   providertest.Reply
		no      bool
		code    any
		request int
	}{
		{"server error", providertest.Reply{Status: 500}, false, nil, 2},
		{"rate limit", providertest.Reply{Status: 429, Header: map[string]string{"Retry-After": "1"}}, false, nil, 2},
		{"timeout", providertest.Reply{Hang: true}, false, nil, 2},
		{"switched off", providertest.Reply{Status: 500}, true, CodeServerError, 1},
		{"malformed", providertest.Chat("no"), false, CodeJudgeMalformed, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := providertest.New(t, providertest.Sequence(tc.first, providertest.Chat(good)))
			l := local(p)
			l.NoRetry = tc.no
			if tc.first.Hang {
				l.Timeout = time.Second
			}
			d := evaluate(t, l, subject)
			if d.Details["error_code"] != tc.code || d.Details["attempts"] != tc.request || len(p.Requests()) != tc.request {
				t.Errorf("%d requests, decision %+v", len(p.Requests()), d)
			}
		})
	}
}

// TestFence: json_text takes a Markdown fence around the whole answer away, json_schema does not.
func TestFence(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want bool
	}{
		{"```json\n" + good + "\n```", true},
		{"```\n" + good + "\n```\n", true},
		{" ```JSON \n" + good + "```", true},
		{"```yaml\n" + good + "\n```", false},
		{"```json\n" + good, false},
		{"so:\n```json\n" + good + "\n```", false},
		{"```json\n" + good + "\n```\n```json\n" + good + "\n```", false},
		{"```", false},
		{"``````", false},
	} {
		if _, err := parseAnswer(tc.text, JSONText); (err == nil) != tc.want {
			t.Errorf("json_text, %q: %v", tc.text, err)
		}
		if _, err := parseAnswer(tc.text, JSONSchema); err == nil {
			t.Errorf("json_schema takes %q", tc.text)
		}
	}
}

// FuzzReply: no body is too strange, and an answer that is taken keeps its promises.
func FuzzReply(f *testing.F) {
	f.Add([]byte(providertest.Chat(good).Body))
	f.Add([]byte(`{"choices":[{"message":{"content":"{}","refusal":"x"}}]}`))
	f.Add([]byte(`{"choices":[{"message":{"content":"` + "```json\\n{\\\"score\\\":0,\\\"rationale\\\":\\\"\\\",\\\"abstain\\\":false}```" + `"}}],"usage":{"prompt_tokens":1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseReply(body)
		if err != nil {
			return
		}
		for _, mode := range []ResponseMode{JSONSchema, JSONText} {
			a, err := parseAnswer(r.text, mode)
			if err != nil {
				continue
			}
			if a.Abstain != (a.Score == nil) || a.Score != nil && !(*a.Score >= 0 && *a.Score <= 1) || len([]rune(a.Rationale)) > maxRationale {
				t.Errorf("answer %+v", a)
			}
			newHider("key-123456", subject).hide(a.Rationale)
		}
	})
}
