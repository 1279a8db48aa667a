package m3_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
)

// Whatever is wrong with a definition or with options is one clear error before anything starts, and shows no value that may be secret.
func TestBadDefinitions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 257)
	sh := func(s m3.StdioServer) m3.StdioServer { s.Command = "sh"; return s }
	at := func(url string) m3.HTTPServer { return m3.HTTPServer{URL: url} }
	ref := m3.EnvSecret(secretName)
	for _, tc := range []struct {
		name   string
		server m3.Server
		opts   *m3.DirectOptions
		say    string
	}{
		{"no server", nil, nil, "the server is nil"},
		{"no command", m3.StdioServer{Name: "x"}, nil, "set Command (a program) or Build (a Go package)"},
		{"command and build", m3.StdioServer{Command: "sh", Build: "."}, nil, "not both"},
		{"long name", sh(m3.StdioServer{Name: long}), nil, "at most 256"},
		{"NUL in the command", m3.StdioServer{Command: "a\x00b"}, nil, "NUL"},
		{"NUL in an argument", sh(m3.StdioServer{Args: []string{"a\x00b"}}), nil, "NUL"},
		{"NUL in the directory", sh(m3.StdioServer{Dir: "a\x00b"}), nil, "NUL"},
		{"NUL in a variable", sh(m3.StdioServer{Env: map[string]string{"A": "hidden\x00"}}), nil, "NUL"},
		{"name of a variable", sh(m3.StdioServer{Env: map[string]string{"A=B": ""}}), nil, `"A=B"`},
		{"name to inherit", sh(m3.StdioServer{Inherit: []string{""}}), nil, "not the name"},
		{"name of a secret variable", sh(m3.StdioServer{Secrets: map[string]m3.SecretRef{"A=B": ref}}), nil, `"A=B"`},
		{"empty reference", sh(m3.StdioServer{Secrets: map[string]m3.SecretRef{"A": {}}}), nil, "set Env or Lookup"},
		{"double reference", sh(m3.StdioServer{Secrets: map[string]m3.SecretRef{"A": {Env: "B", Lookup: func(context.Context) (string, error) { return "", nil }}}}), nil, "one of the two"},
		{"no handler", m3.HandlerServer{}, nil, "Handler is nil"},
		{"no function", m3.PipeServer{}, nil, "Serve is nil"},
		{"no URL", at(""), nil, "URL is empty"},
		{"URL that is none", at("http://user:hidden@ho st/"), nil, "cannot be parsed"},
		{"scheme", at("ftp://host/hidden"), nil, `"ftp"`},
		{"no host", at("http:///mcp"), nil, "no host"},
		{"credentials", at("http://user:hidden@host/"), nil, "put them into Secrets"},
		{"fragment", at("http://host/#hidden"), nil, "fragment"},
		{"token in the query", at("http://host/?access_token=hidden"), nil, "access_token"},
		{"key in the query", at("http://host/?apiKey=hidden"), nil, "apiKey"},
		{"signature in the query", at("http://host/?X-Amz-Signature=hidden"), nil, "X-Amz-Signature"},
		{"query that cannot be read", at("http://host/?a=1;token=hidden"), nil, "query cannot be parsed"},
		{"trust", m3.HTTPServer{URL: "http://host/", Trust: "blind"}, nil, "m3.TrustedPrivate"},
		{"name of a header", m3.HTTPServer{URL: "http://host/", Headers: map[string]string{"A B": "hidden"}}, nil, `"A B"`},
		{"header with a line break", m3.HTTPServer{URL: "http://host/", Headers: map[string]string{"A": "hidden\r\nB: c"}}, nil, "line break"},
		{"header with a NUL", m3.HTTPServer{URL: "http://host/", Headers: map[string]string{"A": "hidden\x00"}}, nil, "control character"},
		{"name of a secret header", m3.HTTPServer{URL: "http://host/", Secrets: map[string]m3.SecretRef{"A:": ref}}, nil, `"A:"`},
		{"negative timeout", silent().server(), &m3.DirectOptions{Timeout: -1}, "negative"},
		{"metadata of a wrong type", silent().server(), &m3.DirectOptions{Metadata: map[string]any{"build": []int{1}}}, `metadata "build" is a []int`},
		{"metadata that is nothing", silent().server(), &m3.DirectOptions{Metadata: map[string]any{"build": nil}}, `metadata "build"`},
		{"metadata without end", silent().server(), &m3.DirectOptions{Metadata: map[string]any{"ratio": infinity()}}, "finite"},
		{"metadata that is no number", silent().server(), &m3.DirectOptions{Metadata: map[string]any{"ratio": jsonNumber("12x")}}, "finite"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kit := newKit(t, m3.Config{})
			_, err := kit.Direct(t.Context(), tc.server, tc.opts)
			wantError[*m3.ValidationError](t, err, "invalid_argument", tc.say)
			if !errors.Is(err, m3.ErrValidation) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%v", err)
			}
			if all, err := kit.Store().Executions(t.Context(), nil); err != nil || len(all) != 0 {
				t.Errorf("%d executions of what never began, %v", len(all), err)
			}
		})
	}
}

// An HTTP definition opens nothing either, nor does a Direct that is refused.
func TestHTTPDefinitionOpensNothing(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := during(func() error {
		conn, err := ln.Accept()
		if err == nil {
			conn.Close()
		}
		return err
	})
	server := m3.HTTPServer{URL: "http://" + ln.Addr().String() + "/mcp", Secrets: map[string]m3.SecretRef{"Authorization": m3.BearerFromEnv("M3_ROOT_UNSET")}}
	if server.ServerName() != ln.Addr().String() {
		t.Errorf("the name is %q", server.ServerName())
	}
	kit := newKit(t, m3.Config{})
	for _, opts := range []*m3.DirectOptions{nil, {Timeout: -1}} {
		if _, err := kit.Direct(t.Context(), server, opts); err == nil {
			t.Error("connected")
		}
	}
	ln.Close()
	if err := <-accepted; err == nil {
		t.Error("something connected")
	}
}

// A process inherits what the definition's comment says, and what Env, Inherit and Secrets name.
func TestEnvironmentOfAServer(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	bare := describeProcess(t, connect(t, kit, fixture(t, "plain"), nil)).vars()
	for name := range bare {
		stated := name == "PATH" || name == "HOME" || name == "TMPDIR" || name == "LANG" || strings.HasPrefix(name, "LC_")
		if own := name == fixtureEnv || name == "GORACE"; !stated && !own && name != "M3_INTERNAL_MARK" {
			t.Errorf("the server inherited %s", name)
		}
	}
	if bare["PATH"] != os.Getenv("PATH") || bare[ambientName] != "" || bare[secretName] != "" {
		t.Errorf("the server's environment is %v", slices.Sorted(maps.Keys(bare)))
	}

	server := fixture(t, "plain")
	server.Env["HOME"], server.Env["PLAIN"] = "/nowhere", "two words = one"
	server.Inherit = []string{ambientName, "M3_ROOT_UNSET"}
	server.Secrets = map[string]m3.SecretRef{
		"API_TOKEN": {Env: secretName, Prefix: "tok-"},
		"LOOKED_UP": {Name: "vault", Lookup: func(context.Context) (string, error) { return "from-the-vault", nil }},
	}
	got := describeProcess(t, connect(t, kit, server, nil)).vars()
	for name, want := range map[string]string{
		"HOME": "/nowhere", "PLAIN": "two words = one", ambientName: ambientValue, "API_TOKEN": "tok-" + secretValue, "LOOKED_UP": "from-the-vault",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if _, ok := got["M3_ROOT_UNSET"]; ok {
		t.Error("a variable that is not set was passed on")
	}
}

func TestArgsAndDirOfAServer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := fixture(t, "plain")
	server.Dir, server.Args = dir, []string{"", "two words", `"quoted"`, "--flag=ü", "a\nb"}
	kit := newKit(t, m3.Config{})
	got := describeProcess(t, connect(t, kit, server, nil))
	if got.Dir != dir || !slices.Equal(got.Args, server.Args) {
		t.Errorf("directory %q, arguments %q", got.Dir, got.Args)
	}
	server.Dir = filepath.Join(dir, "missing")
	_, err = kit.Direct(t.Context(), server, nil)
	e := wantError[*m3.TransportError](t, err, "transport_error", "does not exist")
	if e.Details["phase"] != "start" {
		t.Errorf("details %v", e.Details)
	}
	_, err = kit.Direct(t.Context(), m3.StdioServer{Command: "m3-no-such-program"}, nil)
	wantError[*m3.TransportError](t, err, "transport_error", "command not found")
}

// A secret that cannot be used is an error at connect that names the reference and nothing else.
func TestSecretsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	refused := errors.New("vault said hidden-reason")
	for _, tc := range []struct {
		name, code, say string
		ref             m3.SecretRef
	}{
		{"not set", "transport_error", "environment variable M3_ROOT_UNSET, which is not set", m3.EnvSecret("M3_ROOT_UNSET")},
		{"empty", "transport_error", "environment variable M3_ROOT_EMPTY", m3.EnvSecret("M3_ROOT_EMPTY")},
		{"too short", "invalid_argument", "API_TOKEN", m3.EnvSecret("M3_ROOT_SHORT")},
		{"lookup fails", "transport_error", "vault", m3.SecretRef{Name: "vault", Lookup: func(context.Context) (string, error) { return "", refused }}},
		{"lookup finds nothing", "transport_error", "vault", m3.SecretRef{Name: "vault", Lookup: func(context.Context) (string, error) { return "", nil }}},
		{"line break in a header", "transport_error", "line break", m3.SecretRef{Lookup: func(context.Context) (string, error) { return "hidden\r\nX-Other: 1", nil }}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			secrets := map[string]m3.SecretRef{"API_TOKEN": tc.ref}
			_, err := newKit(t, m3.Config{}).Direct(t.Context(), m3.HTTPServer{URL: "http://127.0.0.1:1/", Secrets: secrets}, nil)
			var coded interface{ Code() string }
			if !errors.As(err, &coded) || coded.Code() != tc.code || !strings.Contains(err.Error(), tc.say) {
				t.Fatalf("%T: %v", err, err)
			}
			if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "tiny") {
				t.Errorf("the error shows a value: %v", err)
			}
			if e, ok := err.(*m3.TransportError); ok && e.Details["phase"] != "authentication" {
				t.Errorf("details %v", e.Details)
			}
			if tc.name == "lookup fails" && !errors.Is(err, refused) {
				t.Errorf("the lookup's own error is not in %v", err)
			}
		})
	}
}

// Secrets are in no part of what is stored; the specification has their references, under whatever name.
func TestSecretsAreNeverStored(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	server := fixture(t, "plain")
	server.Secrets = map[string]m3.SecretRef{"API_TOKEN": m3.EnvSecret(secretName), "PASSWORD": {Name: "vault", Lookup: func(context.Context) (string, error) { return "from-the-vault", nil }}}
	server.Env["DB_PASSWORD"] = "plain-but-sensitive"
	client := connect(t, kit, server, nil)
	if got := describeProcess(t, client).vars()["DB_PASSWORD"]; got != "plain-but-sensitive" {
		t.Fatalf("the server got %q", got)
	}
	view := finish(t, client)
	info, err := kit.Store().Execution(t.Context(), client.ExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Secrets map[string]string `json:"secrets"`
	}
	if err := info.Spec.Decode(&spec); err != nil || spec.Secrets["API_TOKEN"] != secretName || spec.Secrets["PASSWORD"] != "vault" {
		t.Errorf("the specification is %s, %v", info.Spec, err)
	}
	kept := string(info.Spec)
	text, err := view.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	kept += string(text)
	tr, err := kit.Trace(t.Context(), client.ExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Len() {
		b, err := tr.Log().AppendEvent(nil, i)
		if err != nil {
			t.Fatal(err)
		}
		kept += string(b)
	}
	for _, secret := range []string{secretValue, "from-the-vault", "plain-but-sensitive"} {
		if strings.Contains(kept, secret) {
			t.Errorf("%q was kept", secret)
		}
		if got := client.Redact("it is " + secret); strings.Contains(got, secret) {
			t.Errorf("Redact gives %q", got)
		}
	}
}

const builtServer = `package main

import ("bufio"; "encoding/json"; "fmt"; "os")

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct{ ID json.RawMessage; Method string }
		if json.Unmarshal(in.Bytes(), &m) == nil && m.Method == "initialize" {
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"serverInfo\":{\"name\":\"built\",\"version\":\"1\"}}}\n", m.ID)
		}
	}
}
`

// Build is built once a process: what is done to the source afterwards does not matter.
func TestBuildIsBuiltOnce(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "main.go")
	write := func(text string) {
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(builtServer)
	kit := newKit(t, m3.Config{})
	for range 2 {
		client := connect(t, kit, m3.StdioServer{Name: "built", Build: source}, old())
		if got := client.Initialization().ServerName; got != "built" {
			t.Errorf("the server is %q", got)
		}
		write("package main // broken")
	}
}

// A build that fails shows what the compiler said, whatever the start deadline: building is no part of it.
func TestBuildThatFails(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { undefinedThing() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kit := newKit(t, m3.Config{})
	var ids []string
	for range 2 {
		_, err := kit.Direct(t.Context(), m3.StdioServer{Build: source}, &m3.DirectOptions{StartTimeout: time.Nanosecond})
		e := wantError[*m3.TransportError](t, err, "transport_error", "undefined: undefinedThing")
		if e.Details["phase"] != "build" || strings.Contains(err.Error(), "stderr of the server") {
			t.Errorf("%v, details %v", err, e.Details)
		}
		ids = append(ids, err.Error())
	}
	if ids[0] != ids[1] {
		t.Error("the same build failed in two ways")
	}
	all, err := kit.Store().Executions(t.Context(), nil)
	if err != nil || len(all) != 2 || all[0].Outcome != "failed" {
		t.Errorf("executions %+v, %v", all, err)
	}
	_, err = kit.Direct(t.Context(), m3.StdioServer{Build: "errors"}, nil)
	wantError[*m3.ValidationError](t, err, "invalid_argument", "not a main package")
	_, err = kit.Direct(t.Context(), m3.StdioServer{Build: "./no/such/package"}, nil)
	wantError[*m3.TransportError](t, err, "transport_error", "no/such/package")
}

// Who waits for a build may give up. The build goes on for the others.
func TestBuildGoesOnForOthers(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(builtServer), 0o600); err != nil {
		t.Fatal(err)
	}
	kit := newKit(t, m3.Config{})
	server := m3.StdioServer{Name: "slow", Build: source}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := kit.Direct(cancelled, server, nil)
	wantError[*m3.CancelledError](t, err, "cancelled", "has not finished")
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, err = kit.Direct(late, server, nil)
	wantError[*m3.TimeoutError](t, err, "timeout", "has not finished")
	if got := connect(t, kit, server, old()).Initialization().ServerName; got != "built" {
		t.Errorf("the server is %q", got)
	}
}

// The store that was passed in is used, and not closed; metadata, case and suite are kept with the execution.
func TestWhatIsStoredOfADirect(t *testing.T) {
	t.Parallel()
	st := newFailingStore()
	kit := newKit(t, m3.Config{Store: st, RunID: " run-1 ", Suite: " shop "})
	client := connect(t, kit, silent().server(), &m3.DirectOptions{Protocol: legacy5, Case: "quote", Metadata: map[string]any{
		"text": "a", "flag": true, "n": 3, "small": int8(4), "ratio": 0.5, "exact": jsonNumber("18446744073709551616"),
	}})
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := st.Execution(t.Context(), client.ExecutionID())
	if err != nil || info.RunID != "run-1" || info.Suite != "shop" || info.Case != "quote" || info.Kind != "direct" || !info.Complete {
		t.Fatalf("%+v, %v", info, err)
	}
	if !strings.Contains(string(info.Spec), `"metadata":{"exact":18446744073709551616,"flag":true,"n":3,"ratio":0.5,"small":4,"text":"a"}`) {
		t.Errorf("specification %s", info.Spec)
	}
	run, err := st.Run(t.Context(), "run-1")
	if err != nil || run.Status != store.RunFinished || !run.Explicit {
		t.Errorf("run %+v, %v", run, err)
	}
}

// A run that was joined belongs to somebody else, who begins and ends it.
func TestJoinedRunIsNotRecorded(t *testing.T) {
	t.Parallel()
	st := newFailingStore()
	kit := newKit(t, m3.Config{Store: st, RunID: "theirs", JoinRun: true})
	if err := connect(t, kit, silent().server(), old()).Close(); err != nil {
		t.Fatal(err)
	}
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	if n := st.runs.Load(); n != 0 {
		t.Errorf("the kit recorded the run %d times", n)
	}
}

// TestRunIDCountsCharacters: 256 characters of more bytes are no more than 256.
func TestRunIDCountsCharacters(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{RunID: strings.Repeat("é", 256)})
	if len(kit.RunID()) != 512 {
		t.Errorf("the run id has %d bytes", len(kit.RunID()))
	}
}

// A handler is served at its path while a client is open, and no longer.
func TestHandlerServerIsServedWhileOpen(t *testing.T) {
	t.Parallel()
	var at, host string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, host = r.URL.Path, r.Host
		http.Error(w, "no", http.StatusUnauthorized)
	})
	_, err := newKit(t, m3.Config{}).Direct(t.Context(), m3.HandlerServer{Handler: h, Path: "v1/mcp"}, old())
	wantError[*m3.TransportError](t, err, "transport_error", "401")
	if at != "/v1/mcp" {
		t.Errorf("it was asked at %q", at)
	}
	asked := at
	at = ""
	client := http.Client{Timeout: 5 * time.Second}
	if res, err := client.Get("http://" + host + asked); err == nil { // the port may be another test's by now
		res.Body.Close()
		if at != "" {
			t.Error("it is still served")
		}
	}
}
