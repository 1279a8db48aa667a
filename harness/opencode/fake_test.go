package opencode_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/internal/realtest/agenthost"
)

// fakeServe is an `opencode serve` in the test's process, for what the real one cannot be made to do.
type fakeServe struct {
	t      *testing.T
	server *httptest.Server
	host   *agenthost.Host
	proc   *fakeProcess
	spec   *harness.Spec
	cfg    opencode.Config

	// turn answers a message; it may emit events before. Nil: 200 with a message that says hello.
	turn func(f *fakeServe, body []byte) (status int, answer string)
	// over answers what it likes to; false: the fake does.
	over  func(w http.ResponseWriter, r *http.Request, body []byte) bool
	lines string // of stdout; empty: the usual two
	// silent closes stdout after them.
	silent bool

	mu       sync.Mutex
	mcp      string
	history  string
	password string
	requests []string
	streams  []chan string
	aborted  chan struct{}
}

const (
	fakeSession = "ses_1"
	hello       = `{"info":{"id":"msg_2","sessionID":"ses_1","role":"assistant","parentID":"msg_1","providerID":"m3","modelID":"x","finish":"stop","time":{"completed":2}},"parts":[{"id":"prt_2","messageID":"msg_2","sessionID":"ses_1","type":"text","text":"hello","time":{"start":1,"end":2}}]}`
)

func newFake(t *testing.T) *fakeServe {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServe{t: t, mcp: `{"calc":{"status":"connected"}}`, history: `[]`, aborted: make(chan struct{}, 64), cfg: opencode.Config{Executable: exe}, spec: agenthost.Spec(t)}
	f.spec.Servers = []harness.Endpoint{{Name: "calc", URL: "http://127.0.0.1:1/mcp"}}
	f.spec.Endpoint = &harness.ModelEndpoint{Dialect: harness.OpenAIChat, BaseURL: "http://127.0.0.1:1", Key: "key", Model: "x"}
	f.spec.CancelGrace = 300 * time.Millisecond
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.server.Close)
	f.proc = newFakeProcess()
	t.Cleanup(func() { f.proc.die(0, "SIGTERM") })
	f.host = &agenthost.Host{Launch: f.launch}
	return f
}

func (f *fakeServe) launch(_ context.Context, c *harness.Command) (harness.Process, error) {
	for _, v := range c.Env {
		if rest, ok := strings.CutPrefix(v, "OPENCODE_SERVER_PASSWORD="); ok {
			f.password = rest
		}
	}
	lines := f.lines
	if lines == "" {
		lines = "Warning: something\nopencode server listening on " + f.server.URL + "\n"
	}
	go func() {
		_, _ = io.WriteString(f.proc.out, lines)
		if f.silent {
			_ = f.proc.out.Close()
		}
	}()
	f.proc.onStop = f.hangUp
	return f.proc, nil
}

// emit sends an event to everybody who listens.
func (f *fakeServe) emit(kind, properties string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.streams {
		c <- fmt.Sprintf(`{"id":"evt","type":%q,"properties":%s}`, kind, properties)
	}
}

// hangUp ends the streams of events.
func (f *fakeServe) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.streams {
		close(c)
	}
	f.streams = nil
}

func (f *fakeServe) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	password, mcp, history := f.password, f.mcp, f.history
	f.mu.Unlock()
	if user, pass, _ := r.BasicAuth(); user != "opencode" || pass != password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if f.over != nil && f.over(w, r, body) {
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /mcp":
		_, _ = io.WriteString(w, mcp)
	case "GET /event":
		f.stream(w, r)
	case "POST /session":
		_, _ = io.WriteString(w, `{"id":"ses_1","title":"m3"}`)
	case "GET /session/ses_1":
		_, _ = io.WriteString(w, `{"id":"ses_1","cost":0.5,"tokens":{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}}}`)
	case "GET /session/ses_1/message":
		_, _ = io.WriteString(w, history)
	case "POST /session/ses_1/abort":
		f.aborted <- struct{}{}
		_, _ = io.WriteString(w, `true`)
	case "GET /session/status":
		_, _ = io.WriteString(w, `{}`)
	case "GET /permission":
		_, _ = io.WriteString(w, `[]`)
	case "POST /session/ses_1/message":
		status, answer := http.StatusOK, hello
		if f.turn != nil {
			status, answer = f.turn(f, body)
		}
		f.emit("session.status", `{"sessionID":"ses_1","status":{"type":"busy"}}`)
		f.emit("session.idle", `{"sessionID":"ses_1"}`)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	default:
		_, _ = io.WriteString(w, `true`)
	}
}

func (f *fakeServe) stream(w http.ResponseWriter, r *http.Request) {
	c := make(chan string, 4096)
	f.mu.Lock()
	f.streams = append(f.streams, c)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: {\"type\":\"server.connected\",\"properties\":{}}\n\n")
	w.(http.Flusher).Flush()
	for {
		select {
		case e, ok := <-c:
			if !ok {
				return
			}
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			f.mu.Lock()
			f.streams = slices.DeleteFunc(f.streams, func(o chan string) bool { return o == c })
			f.mu.Unlock()
			return
		}
	}
}

// asked reports whether there was a request that begins so, and how many.
func (f *fakeServe) asked(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (f *fakeServe) open() harness.Session {
	f.t.Helper()
	s, err := f.try()
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fakeServe) try() (harness.Session, error) {
	s, err := opencode.New(f.cfg).Open(f.t.Context(), f.spec, f.host)
	if err == nil {
		f.t.Cleanup(func() { _ = s.Close(context.Background()) })
	}
	return s, err
}

// fakeProcess is a process that is not one.
type fakeProcess struct {
	in     *io.PipeReader
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	out    *io.PipeWriter
	exited chan struct{}
	once   sync.Once
	stop   sync.Once
	onStop func()
	code   int
	signal string
	tail   string
	stops  int
}

func newFakeProcess() *fakeProcess {
	p := &fakeProcess{exited: make(chan struct{})}
	p.in, p.stdin = io.Pipe()
	p.stdout, p.out = io.Pipe()
	return p
}

func (p *fakeProcess) PID() int                { return 1 << 22 }
func (p *fakeProcess) Stdin() io.WriteCloser   { return p.stdin }
func (p *fakeProcess) Stdout() io.Reader       { return p.stdout }
func (p *fakeProcess) Exited() <-chan struct{} { return p.exited }
func (p *fakeProcess) StderrTail() string      { return p.tail }

func (p *fakeProcess) Exit() (int, string, bool) {
	select {
	case <-p.exited:
		return p.code, p.signal, true
	default:
		return 0, "", false
	}
}

func (p *fakeProcess) die(code int, signal string) {
	p.once.Do(func() {
		p.code, p.signal = code, signal
		_ = p.out.Close()
		close(p.exited)
	})
}

func (p *fakeProcess) Stop(_, _ time.Duration) {
	p.stop.Do(func() {
		p.stops++
		if p.onStop != nil {
			p.onStop()
		}
		p.die(0, "SIGTERM")
	})
}

// playVariable makes the test binary a program that only knows --version.
const playVariable = "M3_OPENCODE_PLAY"

func play() int {
	fmt.Println(os.Getenv(playVariable))
	return 0
}

// toolPart is an event about a part with a call.
func toolPart(id, tool, state string) string {
	return fmt.Sprintf(`{"sessionID":"ses_1","part":{"id":%q,"messageID":"msg_2","sessionID":"ses_1","type":"tool","callID":"call_%s","tool":%q,"state":%s}}`, id, id, tool, state)
}
