// Package redaction plants twelve secrets wherever one may turn up, and fails in ways that show them.
package redaction

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/internal/endtoend/planted"
	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/m3test"
)

var secrets planted.Set

func TestMain(m *testing.M) {
	var err error
	if secrets, err = planted.Decode(os.Getenv(planted.Env)); err != nil {
		fmt.Fprintln(os.Stderr, "PLANTED is not a set of secrets")
		os.Exit(2)
	}
	if base, ok := rawserver.Asked(); ok {
		os.Exit(serve(base))
	}
	m3test.Main(m, nil)
}

// serve is the server process; the base "die" makes it one that only complains.
func serve(base string) int {
	if base == "die" {
		fmt.Fprintf(os.Stderr, "fatal: cannot log in with password=%s as https://me:%s@example.test/\ntoken %s\n", secrets[planted.Stderr], secrets[planted.URL], os.Getenv("API_TOKEN"))
		return 1
	}
	s, err := rawserver.Stdio("-")
	if err != nil {
		return 1
	}
	s.List = planted.Catalogue
	s.Tools = tools()
	if err := s.Serve(); err != nil {
		return 1
	}
	return 0
}

// tools say the secrets.
func tools() map[string]rawserver.Tool {
	urls := "https://bob:" + secrets[planted.URL] + "@example.test/x?access_token=" + secrets[planted.URL] + "&x=1"
	return map[string]rawserver.Tool{
		"environment": func(s *rawserver.Server, c *rawserver.Call) {
			s.Text(c.ID, "I log in as "+os.Getenv("API_TOKEN")+", which is long")
		},
		"url": func(s *rawserver.Server, c *rawserver.Call) {
			fmt.Fprintln(os.Stderr, "GET "+urls)
			s.Raw(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + rawserver.Quote("see "+urls) + `}}` + "\n")
			s.Text(c.ID, "go to "+urls+" please")
		},
		"argument": func(s *rawserver.Server, c *rawserver.Call) {
			s.Result(c.ID, `{"content":[{"type":"text","text":`+rawserver.Quote(string(c.Arguments))+`}],"structuredContent":`+string(c.Arguments)+`}`)
		},
		"result": func(s *rawserver.Server, c *rawserver.Call) {
			inner := `{"client_secret":` + rawserver.Quote(secrets[planted.Result]) + `}`
			s.Result(c.ID, `{"content":[{"type":"text","text":`+rawserver.Quote(inner)+`},{"type":"text","text":"`+strings.Repeat("large ", 20_000)+`"}],"structuredContent":{"api_key":`+rawserver.Quote(secrets[planted.Result])+`}}`)
		},
		"stderr": func(s *rawserver.Server, c *rawserver.Call) {
			fmt.Fprintf(os.Stderr, "Authorization: Bearer %[1]s\nconnecting password=%[1]s now\n{\"token\":\"%[1]s\",\"n\":1}\nhalf a line: secret=%[1]s", secrets[planted.Stderr])
			s.Text(c.ID, "done")
		},
		"error": func(s *rawserver.Server, c *rawserver.Call) {
			s.Error(c.ID, `{"code":-32001,"message":`+rawserver.Quote("api_key="+secrets[planted.ErrorText]+" was refused, see https://example.test/keys?key="+secrets[planted.ErrorText])+`,"data":{"secret":`+rawserver.Quote(secrets[planted.ErrorText])+`}}`)
		},
		"broken": func(s *rawserver.Server, c *rawserver.Call) {
			s.Raw(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":{"password":"` + secrets[planted.Broken] + `","x":` + "\n")
			s.Raw("api_key=" + secrets[planted.Broken] + " {\"token\": \"" + secrets[planted.Broken] + "\n")
			s.Raw(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":{"password":"` + secrets[planted.Broken] + `",}}` + "\n")
		},
		"escaped": func(s *rawserver.Server, c *rawserver.Call) {
			text := os.Getenv("ESCAPED_VALUE")
			var all strings.Builder
			for _, r := range text {
				fmt.Fprintf(&all, `\u%04x`, r)
			}
			s.Result(c.ID, `{"content":[{"type":"text","text":`+rawserver.Quote("it is "+text+".")+`},{"type":"text","text":`+rawserver.Quote(`{"nested":`+rawserver.Quote(text)+`}`)+`},{"type":"text","text":"`+all.String()+`"}]}`)
		},
		"percent": func(s *rawserver.Server, c *rawserver.Call) {
			text := os.Getenv("PERCENT_VALUE")
			s.Text(c.ID, "https://example.test/cb?state="+url.QueryEscape(text)+" and /"+url.PathEscape(text)+"/x")
		},
		"base64": func(s *rawserver.Server, c *rawserver.Call) {
			var all []string
			for shift := range 3 {
				all = append(all, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift)+os.Getenv("BINARY_VALUE")+"tail")))
			}
			s.Text(c.ID, strings.Join(all, "\n"))
		},
	}
}

func lookup(name string) m3.SecretRef {
	return m3.SecretRef{Lookup: func(context.Context) (string, error) { return secrets[name], nil }, Name: "vault/" + name}
}

func stdio(t *testing.T, base string) m3.StdioServer {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return m3.StdioServer{Name: "planted", Command: exe, Env: map[string]string{rawserver.Role: base}, Inherit: []string{planted.Env},
		Secrets: map[string]m3.SecretRef{"API_TOKEN": m3.EnvSecret("SHOP_TOKEN"), "ESCAPED_VALUE": lookup(planted.Escaped), "PERCENT_VALUE": lookup(planted.Percent), "BINARY_VALUE": lookup(planted.Base64)}}
}

// say calls a tool and fails with what it says, in every way that m3 has.
func say(t *testing.T, client *m3.Client, tool string, args any) {
	t.Helper()
	res, err := client.CallTool(t.Context(), tool, args, &m3.CallOptions{Timeout: time.Second})
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return
	}
	expect.That(t, res).Text("something else")
	expect.That(t, res).StructuredContent(m3.Args{"password": "another", "api_key": "another"})
}

func TestStdio(t *testing.T) {
	client := m3test.Direct(t, stdio(t, "-"), &m3.DirectOptions{Protocol: "2025-11-25"})
	if _, err := client.ListAllTools(t.Context(), nil); err != nil {
		t.Error(err)
	}
	password := m3.Args{"password": secrets[planted.Argument], "nested": m3.Args{"list": []any{m3.Args{"apiKey": secrets[planted.Argument]}}}}
	for _, tool := range []string{"environment", "url", "result", "stderr", "error", "broken", "escaped", "percent", "base64"} {
		say(t, client, tool, nil)
	}
	say(t, client, "argument", password)
	say(t, client, "error", password)
	view := m3test.Finish(t, client)
	expect.That(t, view).ToolCall("argument", expect.WithArguments(m3.Args{"password": "another"}))
	expect.That(t, view).ToolCall("argument", expect.WithArguments(m3.Args{"password": secrets[planted.Argument]}), expect.ResultText("another"))
	expect.That(t, view).ToolCall("result", expect.ResultStructured(m3.Args{"api_key": "another"}))
	expect.That(t, view).ToolCall("error", expect.Succeeded())
	for _, f := range view.Findings().All() {
		t.Logf("%s: %s", f.Code, f.Message)
	}
	t.Logf("the test's own words: %s", os.Getenv("SHOP_TOKEN")) // known to m3 test by its name
}

// TestDead shows the last words of a server that never came up.
func TestDead(t *testing.T) { m3test.Direct(t, stdio(t, "die"), nil) }

func TestHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(serveHTTP))
	defer server.Close()
	client := m3test.Direct(t, m3.HTTPServer{Name: "web", URL: server.URL + "/mcp", Secrets: map[string]m3.SecretRef{
		"Authorization": {Lookup: lookup(planted.Header).Lookup, Name: "vault/header", Prefix: "Bearer "}}}, &m3.DirectOptions{Protocol: "2025-11-25"})
	for _, tool := range []string{"header", "split", "refused"} {
		say(t, client, tool, nil)
	}
	m3test.Finish(t, client)
}

func serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Set-Cookie", "session="+secrets[planted.Header])
	w.Header().Set("X-Echo", r.Header.Get("Authorization"))
	s := &rawserver.Server{In: strings.NewReader(string(body) + "\n"), Out: w, Tools: map[string]rawserver.Tool{
		"header": func(s *rawserver.Server, c *rawserver.Call) { s.Text(c.ID, fmt.Sprintf("%v", r.Header)) },
		"refused": func(s *rawserver.Server, c *rawserver.Call) {
			w.WriteHeader(http.StatusForbidden)
			s.Raw("no entry with " + r.Header.Get("Authorization") + " or https://me:" + secrets[planted.URL] + "@example.test/\n")
		},
		"split": func(s *rawserver.Server, c *rawserver.Call) { split(w, c, r.Header.Get("Authorization")) },
	}}
	if strings.Contains(string(body), `"split"`) {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	if strings.Contains(string(body), `"notifications/`) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_ = s.Serve() // from memory
}

// split sends events that break off in the middle of a secret and go on in the next chunk.
func split(w http.ResponseWriter, c *rawserver.Call, header string) {
	secret := secrets[planted.Split]
	for _, event := range []string{
		`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":{"api_key":"` + secret + `"}}}` + "\n\n",
		`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + header + `"}}` + "\n\n",
		`data: {"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":{"content":[],` + "\ndata: " + `"structuredContent":{"password":"` + secret + `"}}}` + "\n\n",
	} {
		at := max(strings.Index(event, secret), strings.Index(event, header)) + 8
		for _, part := range []string{event[:at], event[at:]} {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond) // so that the two are two reads
		}
	}
}
