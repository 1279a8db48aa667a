package judge

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/judging"
	"github.com/m3-go/m3/internal/providertest"
	"github.com/m3-go/m3/trace"
)

// chat is the request as a provider reads it.
type chat struct {
	Model    string
	Messages []struct{ Role, Content string }
	Format   *struct {
		Type   string
		Schema struct {
			Name   string
			Strict bool
			Schema struct {
				Required             []string
				AdditionalProperties *bool `json:"additionalProperties"`
				Properties           map[string]any
			}
		} `json:"json_schema"`
	} `json:"response_format"`
}

func TestRequest(t *testing.T) {
	t.Setenv("M3_TEST_JUDGE_KEY", "canary-key-123456")
	for _, tc := range []struct {
		name string
		mode ResponseMode
	}{{"json_schema", JSONSchema}, {"json_text", JSONText}} {
		t.Run(tc.name, func(t *testing.T) {
			p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
			l := LLM{Model: "judge-model", BaseURL: p.URL + "/v1/", APIKeyEnv: "M3_TEST_JUDGE_KEY", ResponseMode: tc.mode, Rubric: "Be <strict> & fair."}
			if d := evaluate(t, l, subject); d.Status != eval.Passed {
				t.Fatalf("decision %+v", d)
			}
			reqs := p.Requests()
			if len(reqs) != 1 {
				t.Fatalf("%d requests, want one", len(reqs))
			}
			r := reqs[0]
			if r.Method != "POST" || r.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer canary-key-123456" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("request %s %s %v", r.Method, r.Path, r.Header)
			}
			var c chat
			if err := json.Unmarshal(r.Body, &c); err != nil {
				t.Fatal(err)
			}
			if c.Model != "judge-model" || len(c.Messages) != 2 || c.Messages[0].Role != "system" || c.Messages[1].Role != "user" {
				t.Fatalf("request body %s", r.Body)
			}
			var data map[string]string
			if err := json.Unmarshal([]byte(c.Messages[1].Content), &data); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"input": subject.Input, "expected": subject.Expected, "actual": subject.Actual, "rubric": "Be <strict> & fair."}
			if diff := cmp.Diff(want, data); diff != "" {
				t.Errorf("what the judge is given (-want +got):\n%s", diff)
			}
			if strings.Contains(c.Messages[0].Content, subject.Input) {
				t.Error("the subject stands in the system text")
			}
			switch {
			case tc.mode == JSONText && c.Format != nil:
				t.Errorf("json_text sends a response_format: %s", r.Body)
			case tc.mode == JSONSchema && (c.Format == nil || c.Format.Type != "json_schema" || c.Format.Schema.Name != "m3_judgment" || !c.Format.Schema.Strict):
				t.Errorf("json_schema sends %s", r.Body)
			case tc.mode == JSONSchema:
				s := c.Format.Schema.Schema
				if len(s.Required) != 3 || s.AdditionalProperties == nil || *s.AdditionalProperties || len(s.Properties) != 3 {
					t.Errorf("the schema is not strict: %+v", s)
				}
			}
		})
	}
}

// TestDefaultEndpoint: without a BaseURL the provider of the names is asked, with the key of M3_JUDGE_API_KEY and a schema.
func TestDefaultEndpoint(t *testing.T) {
	t.Parallel()
	s, err := LLM{Model: "m"}.settled()
	if err != nil {
		t.Fatal(err)
	}
	if s.end.base != "https://api.openai.com/v1" || s.APIKeyEnv != "M3_JUDGE_API_KEY" || s.ResponseMode != JSONSchema || s.Auth != AuthEnv || s.threshold != 0.8 || s.Timeout != 30*time.Second {
		t.Errorf("defaults %+v", s)
	}
}

func TestThreshold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		score     string
		threshold *float64
		want      eval.Status
	}{
		{"equal to the default passes", "0.8", nil, eval.Passed},
		{"below the default fails", "0.79", nil, eval.Failed},
		{"threshold 0 passes all", "0", new(0.0), eval.Passed},
		{"threshold 1", "0.999", new(1.0), eval.Failed},
		{"full marks", "1", new(1.0), eval.Passed},
		{"minus zero", "-0.0", new(0.5), eval.Failed},
		{"exponent", "9e-1", nil, eval.Passed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := providertest.New(t, providertest.Sequence(providertest.Chat(`{"score":`+tc.score+`,"rationale":"why","abstain":false}`)))
			l := local(p)
			l.Threshold = tc.threshold
			d := evaluate(t, l, subject)
			if d.Status != tc.want || d.Score == nil || d.Rationale != "why" || d.Details["error_code"] != nil {
				t.Errorf("decision %+v, want %s with a score", d, tc.want)
			}
		})
	}
}

// TestRow: what a row tells of the request and of the judge.
func TestRow(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Reply{Status: 503}, providertest.Chat(good)))
	l := local(p)
	l.RubricID, l.RubricVersion = "facts", "3"
	d := evaluate(t, l, subject)
	want := &eval.Provenance{Kind: "llm_judge", Provider: "openai", Model: "m", RubricID: "facts", RubricVersion: "3", ConfigDigest: l.Digest()}
	if diff := cmp.Diff(want, d.Provenance); diff != "" {
		t.Errorf("provenance (-want +got):\n%s", diff)
	}
	elapsed, ok := d.Details["elapsed_ms"].(int64)
	if !ok || elapsed < 0 {
		t.Errorf("elapsed_ms %v", d.Details["elapsed_ms"])
	}
	delete(d.Details, "elapsed_ms")
	details := map[string]any{"prompt_version": PromptVersion, "response_mode": "json_text", "attempts": 2, "returned_model": "scripted-1", "threshold": 0.8,
		"usage": map[string]any{"prompt_tokens": 11.0, "completion_tokens": 7.0, "total_tokens": 18.0}}
	if diff := cmp.Diff(details, d.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

// TestUsageIsWhitelisted: nothing but known counts of tokens is kept of what the endpoint calls usage.
func TestUsageIsWhitelisted(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]map[string]any{
		`null`: {}, `"canary"`: {}, `[1]`: {},
		`{"prompt_tokens":1,"completion_tokens":"canary","total_tokens":-3,"note":"canary"}`:                                              {"prompt_tokens": 1.0},
		`{"prompt_tokens":1.5,"total_tokens":99999999999999999999}`:                                                                       {},
		`{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":2,"x":"canary"},"completion_tokens_details":{"reasoning_tokens":3}}`: {"prompt_tokens": 1.0, "cached_tokens": 2.0, "reasoning_tokens": 3.0},
		`{"prompt_tokens":4,"prompt_tokens_details":"canary"}`:                                                                            {"prompt_tokens": 4.0},
	} {
		if diff := cmp.Diff(want, usageOf(json.RawMessage(usage))); diff != "" {
			t.Errorf("usage %s (-want +got):\n%s", usage, diff)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good), providertest.Chat(`{"score":null,"rationale":"cannot","abstain":true}`)))
	a, err := local(p).Judge(t.Context(), subject)
	if err != nil || *a.Score != 0.95 || a.Rationale != "It says what was wanted." || a.Abstain {
		t.Errorf("answer %+v, %v", a, err)
	}
	var e *Error
	if _, err := local(p).Judge(t.Context(), subject); !errors.As(err, &e) || e.Code() != CodeAbstained {
		t.Errorf("an abstention is %v", err)
	}
	if _, err := local(p).Judge(t.Context(), Subject{}); !errors.As(err, &e) || e.Code() != CodeInputInvalid {
		t.Errorf("an empty subject is %v", err)
	}
	var bad *ConfigError
	if _, err := (LLM{}).Judge(t.Context(), subject); !errors.As(err, &bad) {
		t.Errorf("an empty judge is %v", err)
	}
	if n := len(p.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestCredentials(t *testing.T) {
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
	for _, tc := range []struct {
		name, key, says string
	}{
		{"empty", "", "not set or empty"},
		{"blank", "  ", "not set or empty"},
		{"short", "abc", "at least 6"},
		{"long", strings.Repeat("canary", 200), "at most 1024"},
		{"two lines", "canary-key\ncanary", "no header can carry"},
		{"not ASCII", "canary-kéy", "no header can carry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("M3_TEST_JUDGE_KEY2", tc.key)
			l := LLM{Model: "m", BaseURL: p.URL, APIKeyEnv: "M3_TEST_JUDGE_KEY2", ResponseMode: JSONText}
			d := evaluate(t, l, subject)
			if d.Status != eval.Error || d.Details["error_code"] != CodeCredentialsMissing || !strings.Contains(d.Message, tc.says) || !strings.Contains(d.Message, "M3_TEST_JUDGE_KEY2") {
				t.Errorf("decision %+v", d)
			}
			if strings.Contains(text(t, d), "canary") {
				t.Errorf("the key is in the row: %+v", d)
			}
		})
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests without a key", n)
	}
}

// TestSecretIsTold: the kit hears of the key before it is used, and an anonymous judge reads none.
func TestSecretIsTold(t *testing.T) {
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
	t.Setenv("M3_TEST_JUDGE_KEY3", "canary-key-123456")
	t.Setenv(DefaultAPIKeyEnv, "canary-default-key")
	told := map[string]string{}
	ctx := judging.WithHost(t.Context(), &judging.Host{Secret: func(variable, value string) { told[variable] = value }})
	raw, _ := json.Marshal(subject)
	for _, l := range []LLM{local(p), {Model: "m", BaseURL: p.URL, APIKeyEnv: "M3_TEST_JUDGE_KEY3", ResponseMode: JSONText}} {
		if d, err := l.Evaluate(ctx, eval.Context{Subject: trace.JSON(raw)}); err != nil || d.Status != eval.Passed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"M3_TEST_JUDGE_KEY3": "canary-key-123456"}, told); diff != "" {
		t.Errorf("secrets told (-want +got):\n%s", diff)
	}
	if h := p.Requests()[0].Header; h.Get("Authorization") != "" {
		t.Errorf("an anonymous judge sent %q", h.Get("Authorization"))
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
	long := strings.Repeat("x", 32<<10)
	for _, tc := range []struct {
		name    string
		subject any
		says    string // empty: it is asked about
	}{
		{"texts", subject, ""},
		{"nothing answered", texts("i", "e", ""), ""},
		{"a map", map[string]any{"input": "i", "expected": "e", "actual": "a", "used_tools": []string{"add"}}, ""},
		{"at the limits", texts(long, long[:20<<10], long[:12<<10]), ""},
		{"blank input", texts(" \n", "e", "a"), "input is blank"},
		{"blank expectation", texts("i", "", "a"), "expected is blank"},
		{"long text", texts("i", "e", long+"x"), "actual has 32769 bytes"},
		{"long in all", texts(long, long, "a"), "in all"},
		{"text", "input", "is no object"},
		{"null", nil, "is no object"},
		{"array", []string{"i", "e", "a"}, "is no object"},
		{"missing", map[string]any{"input": "i", "expected": "e"}, "has no actual"},
		{"other case", map[string]any{"Input": "i", "expected": "e", "actual": "a"}, "has no input"},
		{"number", map[string]any{"input": "i", "expected": 5, "actual": "a"}, "expected is no text"},
		{"null text", map[string]any{"input": "i", "expected": "e", "actual": nil}, "actual is no text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := evaluate(t, local(p), tc.subject)
			switch {
			case tc.says == "" && d.Status != eval.Passed:
				t.Errorf("decision %+v", d)
			case tc.says != "" && (d.Status != eval.Error || d.Details["error_code"] != CodeInputInvalid || !strings.Contains(d.Message, tc.says)):
				t.Errorf("decision %+v, want %s that says %q", d, CodeInputInvalid, tc.says)
			}
		})
	}
	for _, s := range []Subject{texts("\xff", "e", "a"), texts("i", "e", "a\xff")} {
		var e *Error
		if _, err := local(p).Judge(t.Context(), s); !errors.As(err, &e) || e.Code() != CodeInputInvalid {
			t.Errorf("bytes that are no text: %v", err)
		}
	}
}

// TestLoopbackOnly: a loopback name that resolves to anything else is not asked.
func TestLoopbackOnly(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
	for _, tc := range []struct {
		name  string
		addrs []string
		code  any
	}{
		{"loopback", []string{"127.0.0.1"}, nil},
		{"mapped", []string{"::ffff:127.0.0.1"}, nil},
		{"stranger", []string{"192.0.2.1"}, CodeProvider},
		{"one stranger among them", []string{"127.0.0.1", "192.0.2.1"}, CodeProvider},
		{"none", nil, CodeProvider},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := local(p)
			l.BaseURL = strings.Replace(p.URL, "127.0.0.1", "localhost", 1)
			l.test = &testHooks{addresses: func(host string) (all []netip.Addr) {
				for _, a := range tc.addrs {
					all = append(all, netip.MustParseAddr(a))
				}
				return all
			}}
			if d := evaluate(t, l, subject); d.Details["error_code"] != tc.code {
				t.Errorf("decision %+v, want the code %v", d, tc.code)
			}
		})
	}
}

// TestProxyIsIgnoredForLoopback: no proxy is asked for loopback, and one is for others.
func TestProxyIsIgnoredForLoopback(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		base string
		want bool
	}{{"http://127.0.0.1:1", false}, {"https://localhost:1", false}, {"https://judge.example.test", true}} {
		s, err := LLM{Model: "m", BaseURL: tc.base, APIKeyEnv: "KEY", ResponseMode: JSONText}.settled()
		if err != nil {
			t.Fatal(err)
		}
		if got := s.transport().Proxy != nil; got != tc.want {
			t.Errorf("%s: asks for a proxy: %v, want %v", tc.base, got, tc.want)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	p := providertest.NewTLS(t, providertest.Sequence(providertest.Chat(good)))
	l := local(p)
	d := evaluate(t, l, subject)
	if d.Details["error_code"] != CodeProvider || !strings.Contains(d.Message, "certificate") {
		t.Errorf("an unknown certificate: %+v", d)
	}
	if n := len(p.Requests()); n != 0 {
		t.Fatalf("%d requests to an endpoint that nobody trusts", n)
	}
	pool := x509.NewCertPool()
	pool.AddCert(p.HTTP.Certificate())
	l.test = &testHooks{certificates: pool}
	if d := evaluate(t, l, subject); d.Status != eval.Passed {
		t.Errorf("a trusted certificate: %+v", d)
	}
}

// TestContext: the caller's context bounds everything.
func TestContext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		reply providertest.Reply
		end   func(context.Context) (context.Context, context.CancelFunc)
		code  string
	}{
		{"deadline", providertest.Reply{Hang: true}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		}, CodeTimeout},
		{"cancelled before", providertest.Reply{Hang: true}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, CodeCancelled},
		{"deadline while waiting to ask again", providertest.Reply{Status: 429, Header: map[string]string{"Retry-After": "9"}}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 200*time.Millisecond)
		}, CodeRateLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := providertest.New(t, providertest.Sequence(tc.reply))
			l := local(p)
			l.test = nil
			ctx, cancel := tc.end(t.Context())
			defer cancel()
			begin := time.Now()
			var e *Error
			if _, err := l.Judge(ctx, subject); !errors.As(err, &e) || e.Code() != tc.code {
				t.Errorf("error %v, want %s", err, tc.code)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
			if n := len(p.Requests()); n > 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
