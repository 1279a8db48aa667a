package realtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/internal/realtest/agenthost"
	"github.com/m3-go/m3/model"
)

// openCodeBinary is the real program.
func openCodeBinary(t *testing.T) string {
	t.Helper()
	dir := tools(t)
	path := filepath.Join(dir, "agents/node_modules/opencode-linux-x64/bin/opencode")
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("M3_REQUIRE_REAL") == "1" {
			t.Fatalf("M3_REQUIRE_REAL=1, and OpenCode is not installed: %v", err)
		}
		t.Skipf("OpenCode is not installed: run . .ci/real-tools from the repository's root, then this test again (%v)", err)
	}
	return path
}

// oc is one execution of the real OpenCode, with a scripted model.
type oc struct {
	t        *testing.T
	cfg      opencode.Config
	spec     *harness.Spec
	host     *agenthost.Host
	calc     *calc
	provider harness.Provider
	session  harness.Session

	mu        sync.Mutex
	exchanges []*harness.ModelExchange
}

// newOC prepares an execution with the server calc over HTTP. Nothing is started.
func newOC(t *testing.T, script model.Script) *oc {
	t.Helper()
	o := &oc{t: t, cfg: opencode.Config{Executable: openCodeBinary(t)}, spec: agenthost.Spec(t), host: &agenthost.Host{}, calc: newCalc()}
	o.spec.Servers = []harness.Endpoint{{Name: "calc", URL: o.calc.serve(t)}}
	o.script(script)
	return o
}

// script gives the execution its model.
func (o *oc) script(script model.Script) {
	o.t.Helper()
	aliases := []string{}
	for _, s := range o.spec.Servers {
		aliases = append(aliases, s.Name)
	}
	p, err := model.Scripted("scripted", script).Provide(o.t.Context(), &harness.Provision{Execution: "e1", Dialects: opencode.New(opencode.Config{}).Capabilities().Dialects,
		Servers: aliases, Record: o.keep})
	if err != nil {
		o.t.Fatal(err)
	}
	o.provider = p
	e := p.Endpoint()
	o.spec.Endpoint, o.spec.Model = &e, e.Model
	o.t.Cleanup(func() {
		if o.provider == p {
			_ = p.Finish(context.Background())
		}
	})
}

func (o *oc) keep(x *harness.ModelExchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exchanges = append(o.exchanges, x)
}

// watched puts a proxy before the model, and returns where each request is told of as it arrives there.
func (o *oc) watched() <-chan struct{} {
	o.t.Helper()
	target, err := url.Parse(o.spec.Endpoint.BaseURL)
	if err != nil {
		o.t.Fatal(err)
	}
	asked := make(chan struct{}, 64)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // that a cancelled request was cut is no news
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		proxy.ServeHTTP(w, r)
	}))
	o.t.Cleanup(front.Close)
	o.spec.Endpoint.BaseURL = front.URL
	return asked
}

// requests are what the model was asked so far.
func (o *oc) requests() []*harness.ModelExchange {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.exchanges)
}

// stdio gives the execution the server on stdio in place of that over HTTP.
func (o *oc) stdio(how string) {
	exe, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	o.spec.Servers[0] = harness.Endpoint{Name: "calc", Command: exe, Args: []string{"an argument with {env:HOME} in it"}, Env: []string{calcVariable + "=" + how, "CALC_TEXT={file:/etc/hostname} {env:HOME}", "GORACE=atexit_sleep_ms=0"}}
}

// start opens the session and closes it at the end.
func (o *oc) start() {
	o.t.Helper()
	if err := o.open(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *oc) open() error {
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	s, err := opencode.New(o.cfg).Open(ctx, o.spec, o.host)
	if err != nil {
		return err
	}
	o.session = s
	o.t.Cleanup(func() { o.close() })
	return nil
}

func (o *oc) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := o.session.Close(ctx); err != nil {
		o.t.Errorf("close: %v", err)
	}
}

// send is one turn that must end as the agent's answer.
func (o *oc) send(text string) *harness.Turn {
	o.t.Helper()
	turn, err := o.try(&harness.Prompt{Text: text})
	if err != nil {
		o.t.Fatalf("%q: %v", text, err)
	}
	return turn
}

func (o *oc) try(p *harness.Prompt) (*harness.Turn, error) {
	ctx, cancel := context.WithTimeout(o.t.Context(), 2*time.Minute)
	defer cancel()
	return o.session.Send(ctx, p)
}

// fails is one turn that must end in an error of this blame and code.
func (o *oc) fails(text string, blame harness.Blame, code string) *harness.Error {
	o.t.Helper()
	turn, err := o.try(&harness.Prompt{Text: text})
	var e *harness.Error
	if !errors.As(err, &e) {
		o.t.Fatalf("%q: %+v, %v; want the blame %s, %s", text, turn, err, blame, code)
	}
	if e.Blame != blame || e.Code != code {
		o.t.Errorf("%q: %s, %s: %s; want %s, %s", text, e.Blame, e.Code, e.Message, blame, code)
	}
	return e
}

// followed expects that the script was followed to its end.
func (o *oc) followed() {
	o.t.Helper()
	if err := o.provider.Finish(context.Background()); err != nil {
		o.t.Error(err)
	}
}

// since returns the events after the first n.
func (o *oc) since(n int) []harness.Event { return o.host.Events()[n:] }

// all are the events of one type.
func all[T harness.Event](events []harness.Event) []T {
	var out []T
	for _, e := range events {
		if v, ok := e.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

// story is the events in short: what a reader of the trace would tell.
func story(events []harness.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch e := e.(type) {
		case *harness.Message:
			b.WriteString("says " + e.Content[0].Text)
			if e.StopReason != "" {
				b.WriteString(" (" + e.StopReason + ")")
			}
		case *harness.Reasoning:
			b.WriteString("thinks ")
			if e.Content.OK() {
				b.WriteString(e.Content.Value[0].Text)
			} else {
				b.WriteString(e.Content.State.String())
			}
		case *harness.ToolCall:
			b.WriteString("calls " + e.Name + " " + string(e.Arguments.Value))
		case *harness.ToolResult:
			b.WriteString("gets " + string(e.Status))
			if e.Result.OK() {
				b.WriteString(" " + e.Result.Value.Text())
			}
		case *harness.Notice:
			b.WriteString("notice " + e.Code)
		case *harness.Activity:
			b.WriteString("does " + e.Kind)
		default:
			continue
		}
		b.WriteString("\n")
	}
	return b.String()
}

func sameStory(t *testing.T, got []harness.Event, want ...string) {
	t.Helper()
	if s := strings.TrimSuffix(story(got), "\n"); s != strings.Join(want, "\n") {
		t.Errorf("the events tell\n%s\nwant\n%s", s, strings.Join(want, "\n"))
	}
}

// offered are the names of the tools in a request to the model.
func offered(t *testing.T, x *harness.ModelExchange) []string {
	t.Helper()
	var req struct {
		Tools []struct {
			Function struct{ Name string }
		}
	}
	if err := json.Unmarshal(x.Request, &req); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, tool := range req.Tools {
		names = append(names, tool.Function.Name)
	}
	slices.Sort(names)
	return names
}
