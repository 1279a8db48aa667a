package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/internal/wiretest"
	"github.com/m3-go/m3/trace"
)

var update = flag.Bool("update", false, "rewrite the want files of testdata/cases")

// memory is the sink of a test's tape.
type memory struct {
	mu       sync.Mutex
	events   [][]byte
	blobs    map[string][]byte
	requests int
	more     chan struct{} // closed at the next event
}

// until waits until cond, which is asked after every event.
func (m *memory) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	timer := time.After(30 * time.Second)
	for {
		m.mu.Lock()
		if m.more == nil {
			m.more = make(chan struct{})
		}
		more := m.more
		m.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-more:
		case <-timer:
			t.Errorf("%s: it did not happen", what)
			return
		}
	}
}

// wake makes until ask again.
func (m *memory) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.more != nil {
		close(m.more)
		m.more = nil
	}
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.events)
}

func (m *memory) sent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

func (m *memory) AppendEvent(seq int64, kind trace.Kind, body []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind == trace.KindMCPRequest {
		m.requests++
	}
	if m.more != nil {
		close(m.more)
		m.more = nil
	}
	if int(seq) != len(m.events) {
		return fmt.Errorf("event %d after %d events", seq, len(m.events))
	}
	m.events = append(m.events, bytes.Clone(body))
	return nil
}

func (m *memory) PutBlob(sha256 string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = map[string][]byte{}
	}
	m.blobs[sha256] = bytes.Clone(data)
	return nil
}

func (m *memory) all(t *testing.T) []trace.Event {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]trace.Event, len(m.events))
	for i, b := range m.events {
		ev, err := trace.DecodeEvent("x", b)
		if err != nil {
			t.Fatal(err)
		}
		if ev.Frame != nil && ev.Frame.OutOfLine {
			ev.Frame.Bytes = m.blobs[ev.Frame.SHA256]
		}
		out[i] = ev
	}
	return out
}

// raw is every byte that came from the server.
func (m *memory) raw(t *testing.T) []byte {
	var b []byte
	for _, ev := range m.all(t) {
		if f := ev.Frame; f != nil && f.Direction == trace.ServerToClient {
			b = append(b, f.Bytes...)
		}
	}
	return b
}

// runner plays the client file of a case: lines of
//
//	call METHOD [PARAMS] [| key=value ...]       and wait
//	start NAME METHOD [PARAMS] [| key=value ...]
//	wait NAME
//	notify METHOD [PARAMS]
//	cancel NAME
//	get                                          the GET stream
//	era VERSION
//	events N                                     wait until there are N events
//	until CODE [N]                               wait until there are N findings with this code
//	server                                       wait for the script to end
//
// with the keys timeout and id. What happens is written down and compared with the file want.
type runner struct {
	t      *testing.T
	conn   *rpc.Conn
	tape   *evidence.Tape
	mem    *memory
	trans  wire.Transport
	server func() error
	out    strings.Builder
	calls  map[string]*started
}

type started struct {
	done   chan string
	cancel context.CancelFunc
}

func (r *runner) run(script string) {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		line, opts, _ := strings.Cut(line, " | ")
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "call":
			fmt.Fprintf(&r.out, "%s\n", <-r.start(rest, opts).done)
		case "start":
			name, rest, _ := strings.Cut(rest, " ")
			r.calls[name] = r.start(rest, opts)
		case "wait":
			fmt.Fprintf(&r.out, "%s: %s\n", rest, <-r.calls[rest].done)
		case "cancel":
			r.calls[rest].cancel()
		case "notify":
			method, params, _ := strings.Cut(rest, " ")
			if err := r.conn.Notify(r.t.Context(), method, params2(params)); err != nil {
				fmt.Fprintf(&r.out, "%s: %v\n", method, err)
			}
		case "get":
			r.trans.(*wire.HTTP).OpenStream()
		case "era":
			r.conn.SetProtocol(rest)
			if h, ok := r.trans.(*wire.HTTP); ok {
				h.SetProtocol(rest)
			}
		case "events":
			n, _ := strconv.Atoi(rest)
			r.mem.until(r.t, line, func() bool { return r.mem.len() >= n })
		case "until":
			r.until(rest)
		case "server":
			if err := r.server(); err != nil {
				r.t.Error(err)
			}
		default:
			r.t.Fatalf("client: unknown step %q", verb)
		}
	}
}

func (r *runner) until(rest string) {
	code, count, _ := strings.Cut(rest, " ")
	want, _ := strconv.Atoi(count)
	needle := []byte(`"code":"` + code + `"`)
	r.mem.until(r.t, rest, func() bool {
		r.mem.mu.Lock()
		defer r.mem.mu.Unlock()
		n := 0
		for _, ev := range r.mem.events {
			if bytes.Contains(ev, needle) {
				n++
			}
		}
		return n >= max(want, 1)
	})
}

func params2(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func (r *runner) start(rest, opts string) *started {
	method, params, _ := strings.Cut(rest, " ")
	req := &rpc.Request{Method: method, Params: params2(params)}
	timeout := 5 * time.Second
	for opt := range strings.FieldsSeq(opts) {
		key, value, _ := strings.Cut(opt, "=")
		switch key {
		case "timeout":
			timeout, _ = time.ParseDuration(value)
		case "id":
			req.ID = trace.RPCID(value)
		default:
			r.t.Fatalf("client: unknown option %q", opt)
		}
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	s := &started{done: make(chan string, 1), cancel: cancel}
	before := r.mem.sent()
	go func() {
		defer cancel()
		resp, err := r.conn.Call(ctx, req)
		s.done <- outcome(method, resp, err)
		r.mem.wake()
	}()
	r.mem.until(r.t, "send "+method, func() bool { return r.mem.sent() > before || len(s.done) > 0 })
	return s
}

func outcome(method string, resp *rpc.Response, err error) string {
	var ce *rpc.CallError
	switch {
	case errors.As(err, &ce):
		return ce.Error()
	case err != nil:
		return fmt.Sprintf("%s: untyped error %T: %v", method, err, err)
	case resp.Error != nil:
		return fmt.Sprintf("%s: %s data=%s", method, resp.Error, resp.Error.Data)
	}
	b := resp.Result
	if len(b) > 200 {
		return fmt.Sprintf("%s: %d bytes", method, len(b))
	}
	return fmt.Sprintf("%s: %s", method, b)
}

var volatile = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`(within|after) \d+(\.\d+)?(ms|s)`), "$1 TIME"},
}

func stable(s string) string {
	for _, v := range volatile {
		s = v.re.ReplaceAllString(s, v.with)
	}
	return s
}

// report writes down what the tape holds.
func report(out *strings.Builder, t *testing.T, tape *evidence.Tape, m *memory) {
	out.WriteString("-- findings\n")
	for _, f := range tape.Findings() {
		fmt.Fprintf(out, "%s %s seq=%d offset=%d", f.Severity, f.Code, f.Sequence, f.Offset)
		if f.RPCID != "" {
			fmt.Fprintf(out, " id=%s", f.RPCID)
		}
		fmt.Fprintf(out, ": %s\n", f.Message)
	}
	out.WriteString("-- events\n")
	for _, ev := range m.all(t) {
		if ev.Kind == trace.KindFinding {
			fmt.Fprintf(out, "%d finding\n", ev.Sequence)
			continue
		}
		fmt.Fprintf(out, "%d %s", ev.Sequence, ev.Kind)
		if ev.RPCID != "" {
			fmt.Fprintf(out, " id=%s", ev.RPCID)
		}
		if ev.Method != "" {
			fmt.Fprintf(out, " %s", ev.Method)
		}
		if f := ev.Frame; f != nil {
			writeFrame(out, f)
		}
		if ev.Payload != nil {
			fmt.Fprintf(out, " payload %s", ev.Payload)
		}
		out.WriteByte('\n')
	}
}

func writeFrame(out *strings.Builder, f *trace.Frame) {
	way := ">"
	if f.Direction == trace.ServerToClient {
		way = "<"
	}
	fmt.Fprintf(out, " %s %s", way, f.Framing)
	if h := f.HTTP; h != nil {
		fmt.Fprintf(out, " #%d %s %d", h.Exchange, h.Method, h.Status)
	}
	if f.Partial {
		out.WriteString(" partial")
	}
	if f.Dropped > 0 {
		fmt.Fprintf(out, " dropped=%d", f.Dropped)
	}
	if len(f.Bytes) > 300 {
		fmt.Fprintf(out, " %d bytes", len(f.Bytes))
	} else if len(f.Bytes) > 0 {
		fmt.Fprintf(out, " %q", f.Bytes)
	}
}

func TestCases(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range paths {
		s, err := wiretest.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, path, s, runCase(t, s, nil))
		})
		if set := settingsOf(t, s.File("settings")); (set.HTTP || set.SSE) && !set.OnlyDirect {
			t.Run(name+"/nethttp", func(t *testing.T) {
				t.Parallel()
				tr := &http.Transport{DisableCompression: true}
				defer tr.CloseIdleConnections()
				got, _, _ := strings.Cut(runCase(t, s, &http.Client{Transport: tr}), "-- events\n")
				want, _, _ := strings.Cut(s.File("want"), "-- events\n")
				if d := cmp.Diff(sequences.ReplaceAllString(want, ""), sequences.ReplaceAllString(got, "")); d != "" {
					t.Errorf("(-want +got)\n%s", d)
				}
			})
		}
	}
}

var sequences = regexp.MustCompile(`seq=-?\d+`)

// runCase plays a case and returns what happened. A client makes HTTP go over net/http.
func runCase(t *testing.T, s *wiretest.Script, client *http.Client) string {
	m := &memory{}
	tape := evidence.NewTape("x", m, evidence.NewRedactor(&evidence.RedactorConfig{Off: true}), nil)
	r := &runner{t: t, tape: tape, mem: m, calls: map[string]*started{}}
	r.conn = rpc.New(&rpc.Config{Tape: tape, Server: "s", Connection: "c1", Notification: func(n *rpc.Notification) {}})
	settings := settingsOf(t, s.File("settings"))
	if settings.HTTP || settings.SSE {
		h, err := s.ServeHTTP()
		if err != nil {
			t.Fatal(err)
		}
		r.server = h.Wait
		cfg := &wire.HTTPConfig{MaxFrame: settings.MaxFrame, IdleTimeout: settings.idle, Client: client}
		if settings.SSE {
			r.trans, err = wire.NewSSE(strings.TrimSuffix(h.URL, "/mcp")+settings.Path, r.conn, cfg)
		} else {
			r.trans, err = wire.NewHTTP(h.URL, r.conn, cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
	} else {
		st, err := s.ServeStream()
		if err != nil {
			t.Fatal(err)
		}
		r.server = st.Wait
		r.trans = wire.NewStream(st.R, st.W, r.conn, &wire.StreamConfig{MaxFrame: settings.MaxFrame})
	}
	r.conn.Start(r.trans)
	r.run(s.File("client"))
	if err := r.conn.Close(); err != nil {
		t.Error(err)
	}
	if err := r.server(); err != nil {
		t.Error(err)
	}
	report(&r.out, t, tape, m)
	if st := r.trans.Stats(); st.BytesRead != st.BytesHanded+droppedOf(m.all(t)) {
		t.Errorf("%d bytes read, %d handed over", st.BytesRead, st.BytesHanded)
	}
	return stable(r.out.String())
}

func droppedOf(evs []trace.Event) (n int64) {
	for _, ev := range evs {
		if ev.Frame != nil {
			n += ev.Frame.Dropped
		}
	}
	return n
}

type settings struct {
	HTTP     bool
	SSE      bool   // HTTP+SSE of 2024-11-05
	Path     string // of its event stream
	MaxFrame int64
	Idle     string
	// OnlyDirect: over net/http, which reads answers in its own way, the texts differ.
	OnlyDirect bool
	idle       time.Duration
}

func settingsOf(t *testing.T, text string) (s settings) {
	if text != "" {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal("settings:", err)
		}
	}
	if s.Idle != "" {
		var err error
		if s.idle, err = time.ParseDuration(s.Idle); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func compare(t *testing.T, path string, s *wiretest.Script, got string) {
	if *update {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(b), "-- want --\n")
		if err := os.WriteFile(path, []byte(head+"-- want --\n"+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	// txtar would take "-- findings" for no file header, but one more line break is its own.
	if d := cmp.Diff(strings.TrimSpace(s.File("want")), strings.TrimSpace(got)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
