package judge

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/trace"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	custom := LLM{Model: "m", BaseURL: "https://judge.example.test/v1", APIKeyEnv: "KEY", ResponseMode: JSONText}
	with := func(change func(*LLM)) LLM {
		l := custom
		change(&l)
		return l
	}
	for _, tc := range []struct {
		name  string
		llm   LLM
		field string // empty: it is right
		says  string
	}{
		{"defaults", LLM{Model: "m"}, "", ""},
		{"own key variable at the default endpoint", LLM{Model: "m", APIKeyEnv: "OPENAI_API_KEY"}, "", ""},
		{"default endpoint by its name", LLM{Model: "m", BaseURL: DefaultBaseURL + "/"}, "", ""},
		{"custom", custom, "", ""},
		{"anonymous localhost", LLM{Model: "m", BaseURL: "http://localhost:8123/v1", Auth: AuthNone, ResponseMode: JSONText}, "", ""},
		{"anonymous 127.1.2.3", LLM{Model: "m", BaseURL: "http://127.1.2.3:8123", Auth: AuthNone, ResponseMode: JSONSchema}, "", ""},
		{"anonymous ::1", LLM{Model: "m", BaseURL: "http://[::1]:8123/v1", Auth: AuthNone, ResponseMode: JSONText}, "", ""},
		{"loopback with a key", with(func(l *LLM) { l.BaseURL = "http://127.0.0.1:1/v1" }), "", ""},
		{"threshold 0", with(func(l *LLM) { l.Threshold = new(0.0) }), "", ""},
		{"rubric at its limit", with(func(l *LLM) { l.Rubric = strings.Repeat("r", 32<<10) }), "", ""},

		{"no model", LLM{}, "Model", "is empty"},
		{"blank model", LLM{Model: " \t"}, "Model", "is empty"},
		{"long model", LLM{Model: strings.Repeat("m", 257)}, "Model", "at most 256"},
		{"model with a line break", LLM{Model: "a\nb"}, "Model", "control characters"},
		{"no mode", with(func(l *LLM) { l.ResponseMode = "" }), "ResponseMode", "judge.JSONSchema or judge.JSONText"},
		{"unknown mode", with(func(l *LLM) { l.ResponseMode = "xml" }), "ResponseMode", "judge.JSONSchema or judge.JSONText"},
		{"no key variable", with(func(l *LLM) { l.APIKeyEnv = "" }), "APIKeyEnv", "name the variable"},
		{"the key itself", with(func(l *LLM) { l.APIKeyEnv = "sk-secret/secret" }), "APIKeyEnv", "is not the key"},
		{"M3_ACCESS_TOKEN", with(func(l *LLM) { l.APIKeyEnv = "M3_ACCESS_TOKEN" }), "APIKeyEnv", "never handed to a judge"},
		{"key and no key", LLM{Model: "m", BaseURL: "http://localhost/v1", Auth: AuthNone, APIKeyEnv: "KEY", ResponseMode: JSONText}, "APIKeyEnv", "leave one of them away"},
		{"anonymous default", LLM{Model: "m", Auth: AuthNone}, "Auth", "only loopback"},
		{"anonymous stranger", with(func(l *LLM) { l.Auth, l.APIKeyEnv = AuthNone, "" }), "Auth", "is not loopback"},
		{"anonymous private address", LLM{Model: "m", BaseURL: "https://10.0.0.1/v1", Auth: AuthNone, ResponseMode: JSONText}, "Auth", "is not loopback"},
		{"unknown auth", with(func(l *LLM) { l.Auth = "basic" }), "Auth", "judge.AuthEnv or judge.AuthNone"},
		{"plain HTTP", with(func(l *LLM) { l.BaseURL = "http://judge.example.test/v1" }), "BaseURL", "use https"},
		{"plain HTTP to a name that begins with localhost", with(func(l *LLM) { l.BaseURL = "http://localhost.example.test/v1" }), "BaseURL", "use https"},
		{"relative", with(func(l *LLM) { l.BaseURL = "judge.example.test/v1" }), "BaseURL", "absolute"},
		{"only slashes", with(func(l *LLM) { l.BaseURL = "//" }), "BaseURL", "absolute"},
		{"no host", with(func(l *LLM) { l.BaseURL = "https:///v1" }), "BaseURL", "no host"},
		{"user info", with(func(l *LLM) { l.BaseURL = "https://user:canary@judge.example.test/v1" }), "BaseURL", "APIKeyEnv"},
		{"query", with(func(l *LLM) { l.BaseURL = "https://judge.example.test/v1?key=canary" }), "BaseURL", "query"},
		{"empty query", with(func(l *LLM) { l.BaseURL = "https://judge.example.test/v1?" }), "BaseURL", "query"},
		{"fragment", with(func(l *LLM) { l.BaseURL = "https://judge.example.test/v1#canary" }), "BaseURL", "fragment"},
		{"whole path", with(func(l *LLM) { l.BaseURL = "https://judge.example.test/v1/chat/completions" }), "BaseURL", "is added to it"},
		{"no URL", with(func(l *LLM) { l.BaseURL = "https://[canary" }), "BaseURL", "cannot be parsed"},
		{"threshold over 1", with(func(l *LLM) { l.Threshold = new(1.1) }), "Threshold", "between 0 and 1"},
		{"threshold NaN", with(func(l *LLM) { l.Threshold = new(math.NaN()) }), "Threshold", "between 0 and 1"},
		{"long rubric", with(func(l *LLM) { l.Rubric = strings.Repeat("r", 32<<10+1) }), "Rubric", "at most 32768"},
		{"rubric of bytes", with(func(l *LLM) { l.Rubric = "\xff" }), "Rubric", "UTF-8"},
		{"long rubric id", with(func(l *LLM) { l.RubricID = strings.Repeat("r", 257) }), "RubricID", "at most 256"},
		{"long rubric version", with(func(l *LLM) { l.RubricVersion = strings.Repeat("r", 129) }), "RubricVersion", "at most 128"},
		{"negative timeout", with(func(l *LLM) { l.Timeout = -1 }), "Timeout", "between 0"},
		{"endless timeout", with(func(l *LLM) { l.Timeout = 2 * time.Hour }), "Timeout", "between 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.llm.Check()
			var bad *ConfigError
			switch {
			case tc.field == "" && err != nil:
				t.Fatal(err)
			case tc.field == "":
				if tc.llm.Digest() == "" {
					t.Error("no digest")
				}
				return
			case !errors.As(err, &bad) || !errors.Is(err, trace.ErrValidation) || bad.Code() != "invalid_argument":
				t.Fatalf("error %v, want a *ConfigError that is a validation error", err)
			case bad.Field != tc.field || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "LLM."+tc.field):
				t.Errorf("error %v, want it to name %s and to say %q", err, tc.field, tc.says)
			case strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "secret"):
				t.Errorf("the error shows what may be a secret: %v", err)
			}
			if d := evaluate(t, tc.llm, subject); d.Status != "error" || d.Details["field"] != tc.field || d.Message != err.Error() {
				t.Errorf("as an evaluator: %+v", d)
			}
			if tc.llm.Digest() != "" {
				t.Error("a wrong configuration has a digest")
			}
		})
	}
}

// TestDigest: every field that decides something is in the digest, and a default is the same as its value.
func TestDigest(t *testing.T) {
	t.Parallel()
	base := LLM{Model: "m", BaseURL: "https://judge.example.test/v1", APIKeyEnv: "KEY", ResponseMode: JSONText}
	seen := map[string]string{base.Digest(): "base"}
	for name, change := range map[string]func(*LLM){
		"Model": func(l *LLM) { l.Model = "n" }, "BaseURL": func(l *LLM) { l.BaseURL += "/2" }, "APIKeyEnv": func(l *LLM) { l.APIKeyEnv = "OTHER" },
		"ResponseMode": func(l *LLM) { l.ResponseMode = JSONSchema }, "Threshold": func(l *LLM) { l.Threshold = new(0.5) },
		"Rubric": func(l *LLM) { l.Rubric = "r" }, "RubricID": func(l *LLM) { l.RubricID = "r" }, "RubricVersion": func(l *LLM) { l.RubricVersion = "r" },
		"Timeout": func(l *LLM) { l.Timeout = time.Second }, "NoRetry": func(l *LLM) { l.NoRetry = true },
		"Auth": func(l *LLM) { l.BaseURL, l.APIKeyEnv, l.Auth = "http://localhost", "", AuthNone },
	} {
		l := base
		change(&l)
		d := l.Digest()
		if len(d) != 64 || seen[d] != "" {
			t.Errorf("with another %s the digest is %q, that of %q", name, d, seen[d])
		}
		seen[d] = name
	}
	same := base
	same.Auth, same.Threshold, same.Timeout, same.BaseURL = AuthEnv, new(0.8), 30*time.Second, base.BaseURL+"/"
	if same.Digest() != base.Digest() {
		t.Error("a default that is written out changes the digest")
	}
}
