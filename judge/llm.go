package judge

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// The defaults of an [LLM].
const (
	// DefaultBaseURL is the endpoint of an LLM that names none.
	DefaultBaseURL = "https://api.openai.com/v1"
	// DefaultAPIKeyEnv is the environment variable with the key for the default endpoint.
	DefaultAPIKeyEnv = "M3_JUDGE_API_KEY"
	// DefaultThreshold is the score from which an answer has passed.
	DefaultThreshold = 0.8
	// DefaultTimeout bounds each request.
	DefaultTimeout = 30 * time.Second
	// PromptVersion names the text that the judge is given. It changes with that text, and is part of the digest and of every row.
	PromptVersion = "m3-llm-judge.v1"
)

// Auth says how an [LLM] shows who it is.
type Auth string

// The kinds of Auth. Empty is AuthEnv.
const (
	// AuthEnv sends the key that an environment variable holds.
	AuthEnv Auth = "env"
	// AuthNone sends no Authorization header and reads no key. It is for loopback addresses only.
	AuthNone Auth = "none"
)

// ResponseMode says who sees to it that the model answers with one JSON object.
type ResponseMode string

// The modes. Empty is JSONSchema at the default endpoint; at another one it must be said.
const (
	// JSONSchema has the provider enforce the object, by a strict response_format. It is checked here again.
	JSONSchema ResponseMode = "json_schema"
	// JSONText asks the model for the object in words, and checks what comes here.
	JSONText ResponseMode = "json_text"
)

// LLM is a judge of responses: a model behind an endpoint that speaks OpenAI Chat Completions. The zero value of every field but Model is a
// default. It is a plain value, may be copied, and may be used from several goroutines at once.
//
// The texts of the subject are sent to the endpoint. Do not judge private data there unless that transfer is intended.
type LLM struct {
	// Model is the model's name at the endpoint: 1 to 256 characters. It is needed.
	Model string
	// BaseURL is the endpoint, without the last /chat/completions. Empty: [DefaultBaseURL]. It is an absolute URL without user info, query and
	// fragment; HTTPS, or HTTP where the host is loopback. A BaseURL of your own needs ResponseMode, and APIKeyEnv unless Auth is AuthNone.
	BaseURL string
	// APIKeyEnv names the environment variable with the key, which is read at each request. Empty: [DefaultAPIKeyEnv], at the default endpoint.
	APIKeyEnv string
	// Auth is how the request shows who asks. Empty: AuthEnv.
	Auth Auth
	// ResponseMode is how the one JSON object is come by. Empty: JSONSchema, at the default endpoint.
	ResponseMode ResponseMode
	// Threshold is the score, 0 to 1, from which an answer has passed; an equal score passes. Nil: [DefaultThreshold].
	Threshold *float64
	// Rubric is what the judge is to go by, at most 32 KiB. It is sent with each request, and is not stored: its id and version are. Empty: none.
	Rubric string
	// RubricID names the rubric in rows and aggregations: at most 256 characters.
	RubricID string
	// RubricVersion tells its versions apart: at most 128 characters.
	RubricVersion string
	// Timeout bounds each request, from the connection to the last byte. 0: [DefaultTimeout].
	Timeout time.Duration
	// NoRetry asks only once. Else a request that timed out, met a rate limit or a server's error (5xx) is made once more.
	NoRetry bool

	test *testHooks // nil but in tests of this package
}

// The limits of the fields.
const (
	maxModel         = 256
	maxRubric        = 32 << 10
	maxRubricID      = 256
	maxRubricVersion = 128
	maxURL           = 2048
	maxTimeout       = time.Hour
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)

// Check says what is wrong with the configuration: the error is a *[ConfigError] that names the field and the fix. It connects nothing and reads
// no key.
func (l LLM) Check() error {
	_, err := l.settled()
	return err
}

// settled is the LLM with every default filled in, checked.
func (l LLM) settled() (*settings, error) {
	for _, check := range []func() error{l.checkModel, l.checkRubric, l.checkRules} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	end, err := l.endpoint()
	if err != nil {
		return nil, err
	}
	s := &settings{LLM: l, end: end, threshold: DefaultThreshold}
	s.Auth = cmp.Or(l.Auth, AuthEnv)
	s.ResponseMode = cmp.Or(l.ResponseMode, JSONSchema)
	s.Timeout = cmp.Or(l.Timeout, DefaultTimeout)
	if s.Auth == AuthEnv {
		s.APIKeyEnv = cmp.Or(l.APIKeyEnv, DefaultAPIKeyEnv)
	}
	if l.Threshold != nil {
		s.threshold = *l.Threshold
	}
	return s, nil
}

// settings is an LLM that was checked, without defaults.
type settings struct {
	LLM
	end       *endpoint
	threshold float64
}

func (l LLM) checkModel() error {
	switch n := utf8.RuneCountInString(l.Model); {
	case strings.TrimSpace(l.Model) == "":
		return misconfigured("Model", "is empty: name the model as its provider does")
	case n > maxModel:
		return misconfigured("Model", "has %d characters: at most %d are allowed", n, maxModel)
	case !plain(l.Model):
		return misconfigured("Model", "holds control characters or is no UTF-8: name the model as its provider does")
	}
	return nil
}

func (l LLM) checkRubric() error {
	switch {
	case len(l.Rubric) > maxRubric:
		return misconfigured("Rubric", "has %d bytes: at most %d are allowed", len(l.Rubric), maxRubric)
	case !utf8.ValidString(l.Rubric):
		return misconfigured("Rubric", "is no UTF-8 text")
	case utf8.RuneCountInString(l.RubricID) > maxRubricID:
		return misconfigured("RubricID", "has %d characters: at most %d are allowed", utf8.RuneCountInString(l.RubricID), maxRubricID)
	case !plain(l.RubricID):
		return misconfigured("RubricID", "holds control characters or is no UTF-8")
	case utf8.RuneCountInString(l.RubricVersion) > maxRubricVersion:
		return misconfigured("RubricVersion", "has %d characters: at most %d are allowed", utf8.RuneCountInString(l.RubricVersion), maxRubricVersion)
	case !plain(l.RubricVersion):
		return misconfigured("RubricVersion", "holds control characters or is no UTF-8")
	}
	return nil
}

func (l LLM) checkRules() error {
	switch {
	case l.Auth != "" && l.Auth != AuthEnv && l.Auth != AuthNone:
		return misconfigured("Auth", "is %.40q: use judge.AuthEnv or judge.AuthNone", string(l.Auth))
	case l.ResponseMode != "" && l.ResponseMode != JSONSchema && l.ResponseMode != JSONText:
		return misconfigured("ResponseMode", "is %.40q: use judge.JSONSchema or judge.JSONText", string(l.ResponseMode))
	case l.Threshold != nil && !(*l.Threshold >= 0 && *l.Threshold <= 1): // NaN, too
		return misconfigured("Threshold", "is %v: it must lie between 0 and 1", *l.Threshold)
	case l.Timeout < 0 || l.Timeout > maxTimeout:
		return misconfigured("Timeout", "is %v: it must lie between 0 (the default, %v) and %v", l.Timeout, DefaultTimeout, maxTimeout)
	case l.Auth == AuthNone && l.APIKeyEnv != "":
		return misconfigured("APIKeyEnv", "is set, and Auth is judge.AuthNone, which reads no key: leave one of them away")
	case l.APIKeyEnv == "M3_ACCESS_TOKEN":
		return misconfigured("APIKeyEnv", "is M3_ACCESS_TOKEN, which is never handed to a judge: name the variable with the judge's own key")
	case l.APIKeyEnv != "" && !envName.MatchString(l.APIKeyEnv):
		// The text is not shown: it may be the key itself, put into the wrong field.
		return misconfigured("APIKeyEnv", "is no name of an environment variable: it names the variable with the key, and is not the key")
	}
	return nil
}

// plain tells a name that can be shown and stored as it is.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

// Digest is the SHA-256, in hexadecimal, of everything that decides what the judge is asked and how its answer is taken, the prompt's version
// included. Two judges with the same digest are the same judge. It is "" of an LLM that [LLM.Check] refuses.
func (l LLM) Digest() string {
	s, err := l.settled()
	if err != nil {
		return ""
	}
	return s.digest()
}

func (s *settings) digest() string {
	b, _ := json.Marshal(struct { // strings and numbers: cannot fail
		Prompt    string        `json:"prompt_version"`
		Model     string        `json:"model"`
		BaseURL   string        `json:"base_url"`
		KeyEnv    string        `json:"api_key_env"`
		Auth      Auth          `json:"auth"`
		Mode      ResponseMode  `json:"response_mode"`
		Threshold float64       `json:"threshold"`
		Rubric    string        `json:"rubric"`
		ID        string        `json:"rubric_id"`
		Version   string        `json:"rubric_version"`
		Timeout   time.Duration `json:"timeout_ns"`
		NoRetry   bool          `json:"no_retry"`
	}{PromptVersion, s.Model, s.end.base, s.APIKeyEnv, s.Auth, s.ResponseMode, s.threshold, s.Rubric, s.RubricID, s.RubricVersion, s.Timeout, s.NoRetry})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// minKey is the length in bytes under which a key could not be kept out of the evidence: it would be in every text.
const minKey = 6

// maxKey keeps the head of a request within the one write that its first bytes are.
const maxKey = 1024

// key reads the key. No error shows any of it.
func (s *settings) key() (string, *Error) {
	if s.Auth == AuthNone {
		return "", nil
	}
	key := strings.TrimSpace(os.Getenv(s.APIKeyEnv))
	switch {
	case key == "":
		return "", fail(CodeCredentialsMissing, "the environment variable %s is not set or empty: set it, or name the file that holds it with m3 test --env-file", s.APIKeyEnv)
	case len(key) < minKey:
		return "", fail(CodeCredentialsMissing, "the key in %s has %d bytes: at least %d are needed to keep it out of the evidence", s.APIKeyEnv, len(key), minKey)
	case len(key) > maxKey:
		return "", fail(CodeCredentialsMissing, "the key in %s has %d bytes: at most %d are allowed", s.APIKeyEnv, len(key), maxKey)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= 0x20 || r >= 0x7f }):
		return "", fail(CodeCredentialsMissing, "the key in %s holds a character that no header can carry: it must be visible ASCII without spaces", s.APIKeyEnv)
	}
	return key, nil
}
