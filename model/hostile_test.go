package model_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// TestKey: a request without the execution's key is refused in the form of the dialect, recorded, and a failure; the key is in no record.
func TestKey(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		r := open(t, d, model.Script{model.Say("fine").Times(3)})
		for _, header := range [][]string{{"Authorization", "Bearer wrong"}, {"Authorization", ""}, {"Authorization", "", "X-Api-Key", "wrong"}} {
			got := r.do(http.MethodPost, paths[d], hello(d, true), header...)
			want := "invalid_request_error"
			if d == harness.AnthropicMessages {
				want = "authentication_error"
			}
			if got.status != http.StatusUnauthorized {
				t.Errorf("with %q: %d %s", header, got.status, got.body)
			}
			wantAt(t, got.body, want, "error", "type")
			if x := r.last(); x.Status != http.StatusUnauthorized || x.Error == "" {
				t.Errorf("recorded %+v", x)
			}
		}
		if got := r.ask(hello(d, false)); got.status != http.StatusOK {
			t.Errorf("with the key: %d", got.status)
		}
		if got := r.do(http.MethodPost, paths[d], hello(d, false), "Authorization", "", "X-Api-Key", r.at.Key); got.status != http.StatusOK {
			t.Errorf("with the key in x-api-key: %d", got.status)
		}
		leak := conv{messages: []msg{{user: "my key is " + r.at.Key}}}.in(d)
		if got := r.do(http.MethodPost, paths[d]+"?key="+r.at.Key, leak); got.status != http.StatusOK {
			t.Errorf("with the key in the body: %d", got.status)
		}
		for _, x := range r.recorded() {
			if strings.Contains(fmt.Sprintf("%+v", *x)+string(x.Request)+string(x.Response), r.at.Key) {
				t.Errorf("the key is in the record of %s", x.Path)
			}
		}
		problems := r.finish()
		if len(problems) != 1 || problems[0].Kind != model.ProblemKey || strings.Contains(problems[0].Message, r.at.Key) {
			t.Errorf("problems %v", problems)
		}
	})
}

// TestHostileRequests: what is no request is refused with a reason and is a failure; the script stays where it is.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"messages":[`, 100_000)
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"no JSON", "POST", "", "hello", nil, 400, "the body is not a JSON object"},
		{"empty", "POST", "", "", nil, 400, "the body is not a JSON object"},
		{"a list", "POST", "", "[]", nil, 400, "the body is not a JSON object"},
		{"cut off", "POST", "", `{"model":"x","mess`, nil, 400, "unexpected end of JSON input"},
		{"no messages", "POST", "", `{"model":"x"}`, nil, 400, "it has no "},
		{"messages of a wrong type", "POST", "", `{"messages":7,"input":7}`, nil, 400, ""},
		{"deep", "POST", "", deep, nil, 400, ""},
		{"a text that is none", "POST", "", "{\"model\":\"\xff\xfe\"", nil, 400, ""},
		{"unknown path", "POST", "/v1/embeddings", "{}", nil, 404, "the agent asked for POST /v1/embeddings, which a provider of"},
		{"wrong method", "GET", "", "", nil, 404, "the agent asked for GET"},
		{"zstd", "POST", "", "{}", []string{"Content-Encoding", "zstd"}, 415, `the body is compressed as "zstd"`},
		{"gzip that is none", "POST", "", "{}", []string{"Content-Encoding", "gzip"}, 400, "the body is not gzip"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, func(t *testing.T, d harness.Dialect) {
				r := open(t, d, model.Script{model.Say("fine")})
				path := tc.path
				if path == "" {
					path = paths[d]
				}
				got := r.do(tc.method, path, tc.body, tc.header...)
				msg, _ := at(t, got.body, "error", "message").(string)
				if got.status != tc.status || !strings.Contains(msg, tc.want) || msg == "" {
					t.Errorf("answer %d %s, want %d %s", got.status, got.body, tc.status, tc.want)
				}
				x := r.last()
				if x.Error != msg || len(x.Request) > 1<<20 {
					t.Errorf("recorded %q with a request of %d bytes", x.Error, len(x.Request))
				}
				if tc.body != "" && tc.status != 415 && tc.name != "gzip that is none" {
					at(t, string(x.Request)) // is JSON
				}
				if fine := r.ask(hello(d, false)); fine.status != http.StatusOK {
					t.Errorf("afterwards: %d %s", fine.status, fine.body)
				}
				problems := r.finish()
				if len(problems) != 1 || problems[0].Kind != model.ProblemRequest || problems[0].Step != 0 {
					t.Errorf("problems %v", problems)
				}
			})
		})
	}
}

// TestGzip reads a compressed body, and bounds what it becomes.
func TestGzip(t *testing.T) {
	t.Parallel()
	r := open(t, harness.OpenAIChat, model.Script{model.Say("fine").When(model.Text("add 2"))})
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := io.WriteString(z, hello(harness.OpenAIChat, false)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if got := r.do(http.MethodPost, paths[harness.OpenAIChat], buf.String(), "Content-Encoding", "gzip"); got.status != http.StatusOK {
		t.Errorf("answer %d %s", got.status, got.body)
	}
	r.followed()
}

// TestHugeBody: a body beyond the limit is refused, and not kept; one of the size that conversations may have is not.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: bodies of 100 MB")
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	block := bytes.Repeat([]byte(" "), 1<<20)
	for range 97 {
		if _, err := z.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, harness.OpenAIChat, model.Script{model.Say("fine")})
	got := r.do(http.MethodPost, paths[harness.OpenAIChat], buf.String(), "Content-Encoding", "gzip")
	if got.status != http.StatusRequestEntityTooLarge || r.last().Request != nil {
		t.Errorf("answer %d, kept %d bytes", got.status, len(r.last().Request))
	}
	large := conv{messages: []msg{{user: "x"}, {call: "calc_add"}, {result: strings.Repeat("x", 24<<20)}}}.in(harness.OpenAIChat)
	if got := r.ask(large); got.status != http.StatusOK || len(r.last().Request) < 24<<20 {
		t.Errorf("24 MiB: %d", got.status)
	}
	if problems := r.finish(); len(problems) != 1 || problems[0].Message != "the body is larger than 96 MiB" {
		t.Errorf("problems %v", problems)
	}
}

// TestManyProblems: an agent that asks nonsense without end does not fill the memory.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	r := open(t, harness.OpenAIChat, model.Script{})
	for i := range 150 {
		r.do(http.MethodPost, fmt.Sprintf("/v1/nonsense/%d", i), "{}")
	}
	if n := len(r.finish()); n != 100 {
		t.Errorf("%d problems are kept", n)
	}
}
