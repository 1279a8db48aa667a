package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/trace"
)

// serveNoisily is the server process: everything that a server should not do, and answers between.
func serveNoisily(base string) int {
	s, err := rawserver.Stdio(base)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.Tools = hardTools
	s.Greet = func(s *rawserver.Server) { s.Raw("Raw server 1.0 \xe2\x80\x94 listening\r\n\n\r\n") }
	s.Bye = func(s *rawserver.Server) { s.Raw(`{"jsonrpc":"2.0","method":"notifications/mess`) }
	if err := s.Serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const threeMB = 3 << 20

// hardTools are the tools with payloads that are easily lost or changed on the way. Their names say which.
var hardTools = map[string]rawserver.Tool{
	"plain": func(s *rawserver.Server, c *rawserver.Call) { s.Text(c.ID, "plain") },
	"crlf": func(s *rawserver.Server, c *rawserver.Call) {
		s.Raw("{ \"id\" : " + string(c.ID) + " ,\t\"result\":" + rawserver.TextResult("a\r\nb") + ", \"jsonrpc\":\"2.0\"} \r\n\n")
	},
	"duplicate": func(s *rawserver.Server, c *rawserver.Call) {
		s.Result(c.ID, `{"content":[{"type":"text","text":"first"}],"structuredContent":{"a":1,"a":2,"A":3,"n":1.0,"big":12345678901234567890.10},"content":[{"type":"text","text":"second"}]}`)
	},
	"null": func(s *rawserver.Server, c *rawserver.Call) {
		s.Result(c.ID, `{"content":[],"structuredContent":{"v":null},"_meta":null}`)
	},
	"unicode": func(s *rawserver.Server, c *rawserver.Call) {
		s.Text(c.ID, "é \u2028 \u2029 \x00 \U0001f600 \ufeff \ud7ff "+"\u202e")
	},
	"escaped": func(s *rawserver.Server, c *rawserver.Call) {
		s.Result(c.ID, `{"content":[{"type":"text","text":"\ud83d\ude00 \ud800 \u0000 \/ \u2028"}]}`)
	},
	"separator": func(s *rawserver.Server, c *rawserver.Call) {
		s.Result(c.ID, "{\"content\":[{\"type\":\"text\",\"text\":\"a\u2028b\u2029c\"}]}") // U+2028 as itself
	},
	"split": func(s *rawserver.Server, c *rawserver.Call) {
		s.Raw(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":{"content":[{"type":"text","text":"caf` + "\xc3")
		time.Sleep(20 * time.Millisecond) // so that the two are two reads
		s.Raw("\xa9" + `"}]}}` + "\n")
	},
	"noise": func(s *rawserver.Server, c *rawserver.Call) {
		s.Raw("debug: called \x1b[31mred\x1b[0m\n\x00\x00\x00\n\xff\xfe broken \x80\r\n{\"not\":\"a message\"}\n[]\n{\"jsonrpc\":\"2.0\",\"method\":\n  \n")
		s.Raw(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n")
		s.Text(c.ID, "after noise")
	},
	"invalid": func(s *rawserver.Server, c *rawserver.Call) {
		s.Result(c.ID, "{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xfe\xc3(\"}]}")
	},
	"binary": func(s *rawserver.Server, c *rawserver.Call) {
		s.Result(c.ID, `{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUg=="},{"type":"made-up","x":[1,{"y":null}]}]}`)
	},
	"large": func(s *rawserver.Server, c *rawserver.Call) {
		s.Text(c.ID, strings.Repeat("0123456789abcdeé", threeMB/17)+"end")
	},
	"error": func(s *rawserver.Server, c *rawserver.Call) {
		s.Error(c.ID, `{"code":-32000.5,"message":"odd","data":{"k":1,"k":2}}`)
	},
	"unanswered": func(s *rawserver.Server, c *rawserver.Call) {},
	"broken": func(s *rawserver.Server, c *rawserver.Call) {
		s.Raw(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":{"content":[}}` + "\n")
	},
	"echo": func(s *rawserver.Server, c *rawserver.Call) {
		s.Result(c.ID, `{"content":[],"structuredContent":{"echo":`+string(c.Arguments)+`}}`)
	},
}

// hardArguments go out byte for byte.
var hardArguments = json.RawMessage(`{ "a":1, "a" :2.00,"é":"\u00e9\ud83d\ude00` + "\u2028" + `","n":null,"big":123456789012345678901234567890,"s":"` + strings.Repeat("x", 100_000) + `"}`)

// callAll makes every call. What the answers are is not the point here; that none of them hangs is.
func callAll(t *testing.T, client *m3.Client) {
	t.Helper()
	for _, name := range []string{"plain", "crlf", "duplicate", "null", "unicode", "escaped", "separator", "split", "noise", "invalid", "binary", "large", "error", "unanswered", "broken", "echo", "missing"} {
		opts := &m3.CallOptions{Timeout: 20 * time.Second}
		if name == "unanswered" {
			opts.Timeout = 50 * time.Millisecond
		}
		var args any
		if name == "echo" {
			args = hardArguments
		}
		res, err := client.CallTool(t.Context(), name, args, opts)
		switch name {
		case "plain", "crlf", "duplicate", "null", "unicode", "escaped", "separator", "split", "noise", "binary", "large", "echo":
			if err != nil {
				t.Errorf("%s: %.300v", name, err)
			}
		case "unanswered", "broken", "error", "missing":
			if err == nil {
				t.Errorf("%s: no error, %v", name, res)
			}
		}
	}
}

// tee records into two stores at once and reads from the first.
type tee struct {
	store.Store
	also store.Recorder
}

func (s *tee) Append(ctx context.Context, recs ...store.Record) error {
	if err := s.also.Append(ctx, recs...); err != nil {
		return err
	}
	return s.Store.Append(ctx, recs...)
}

// stores are the three that one execution is kept in.
type stores struct {
	path  string // of the database
	mem   *memory.Store
	spool *spool.Store
	kit   *m3.Kit
}

func newStores(t *testing.T) *stores {
	t.Helper()
	s := &stores{path: filepath.Join(t.TempDir(), "db.sqlite"), mem: memory.New(nil)}
	var err error
	if s.spool, err = spool.Open(t.Context(), &spool.Config{Database: s.path, RunID: "run", Package: "p", Version: "test"}); err != nil {
		t.Fatal(err)
	}
	if s.kit, err = m3.New(m3.Config{Store: &tee{s.mem, s.spool}, RunID: "run"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []io.Closer{s.kit, s.spool, s.mem} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// reader reads evidence.
type reader func(ctx context.Context, ref trace.EvidenceRef, maxBytes int64) ([]byte, error)

func fromStore(r store.Reader) reader {
	return func(ctx context.Context, ref trace.EvidenceRef, maxBytes int64) ([]byte, error) {
		ev, err := r.ReadRawEvidence(ctx, ref, maxBytes)
		return ev.Bytes, err
	}
}

// hold holds all the places where the execution is kept to the server's logs, and to each other.
func (s *stores) hold(t *testing.T, client *m3.Client, wrote, read []byte) {
	t.Helper()
	live, err := client.View()
	if err != nil {
		t.Fatal(err)
	}
	want := &expected{timeline: timeline(live), json: encode(t, live), wrote: wrote, read: read}
	places := []struct {
		name string
		view trace.View
		read reader
	}{
		{"kit", live, func(ctx context.Context, ref trace.EvidenceRef, n int64) ([]byte, error) {
			ev, err := s.kit.ReadRawEvidence(ctx, ref, n)
			return ev.Bytes, err
		}},
		{"memory", viewOf(t, s.mem, client.ExecutionID()), fromStore(s.mem)},
		{"spool", viewOf(t, s.spool, client.ExecutionID()), fromStore(s.spool)},
	}
	for _, p := range places {
		want.hold(t, p.name, p.view, p.read)
	}
	if err := errors.Join(s.kit.Close(), s.spool.Close()); err != nil { // the database takes it in
		t.Fatal(err)
	}
	db := openDB(t, s.path)
	want.hold(t, "sqlite", viewOf(t, db, client.ExecutionID()), fromStore(db))
	again := openDB(t, s.path)
	want.hold(t, "sqlite again", viewOf(t, again, client.ExecutionID()), fromStore(again))
}

// expected is what every place must give: the live view, and the server's logs.
type expected struct {
	timeline    []any
	json        []byte
	wrote, read []byte
}

func (e *expected) hold(t *testing.T, name string, v trace.View, r reader) {
	t.Helper()
	diffAt(t, name+": received", e.wrote, evidence(t, r, v, trace.ServerToClient))
	diffAt(t, name+": sent", e.read, evidence(t, r, v, trace.ClientToServer))
	if diff := cmp.Diff(e.timeline, timeline(v), sameJSON); diff != "" {
		t.Errorf("%s: the view is not the live one (-live +%s):\n%.3000s", name, name, diff)
	}
	diffAt(t, name+": the view as JSON", e.json, encode(t, v))
	if c := v.Completeness(); c != trace.Complete {
		t.Errorf("%s: the trace is %s: %+v", name, c, v.Limitations())
	}
}

func encode(t *testing.T, v trace.View) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sameJSON compares bytes as bytes: cmp would look at three million one by one.
var sameJSON = cmp.Comparer(func(a, b trace.JSON) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })

// timeline is the whole of a view, decoded.
func timeline(v trace.View) []any {
	all := []any{v.Summary(), v.Runtime(), v.Outcome(), v.Limitations()}
	for _, e := range v.Timeline().All() {
		all = append(all, e)
	}
	return all
}

func TestRawBytesStdio(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"2025-11-25", "2024-11-05"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s, base := newStores(t), filepath.Join(t.TempDir(), "server")
			client, err := s.kit.Direct(t.Context(), m3.StdioServer{Name: "raw", Command: exe, Env: map[string]string{rawserver.Role: base}}, &m3.DirectOptions{Protocol: protocol})
			if err != nil {
				t.Fatal(err)
			}
			callAll(t, client)
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			wrote, err := os.ReadFile(base + ".wrote")
			if err != nil {
				t.Fatal(err)
			}
			read, err := os.ReadFile(base + ".read")
			if err != nil {
				t.Fatal(err)
			}
			if len(wrote) < threeMB || !bytes.Contains(wrote, []byte{0, 0, 0, '\n'}) || bytes.HasSuffix(wrote, []byte("\n")) || len(read) < len(hardArguments) {
				t.Fatalf("the server's logs are not what was to be tested: %d, %d bytes", len(wrote), len(read))
			}
			s.hold(t, client, wrote, read)
		})
	}
}

// noisyHandler is the same over HTTP: it answers with a body, or with a stream of events, and logs both.
type noisyHandler struct {
	mu          sync.Mutex
	read, wrote bytes.Buffer
}

func (h *noisyHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read.Write(body)
	out := &logged{w: w, log: &h.wrote}
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if err := json.Unmarshal(body, &m); err != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s := &rawserver.Server{In: bytes.NewReader(append(body, '\n')), Out: out, Tools: hardTools}
	switch m.Params.Name {
	case "noise", "split", "crlf":
		w.Header().Set("Content-Type", "text/event-stream")
		s.Out = &events{w: out, name: m.Params.Name}
	case "plain", "large":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	default:
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		s.Out = &events{w: out, name: m.Params.Name}
	}
	_ = s.Serve() // from memory
}

// logged writes at once, and logs.
type logged struct {
	w   http.ResponseWriter
	log io.Writer
}

func (l *logged) Write(b []byte) (int, error) {
	if _, err := l.log.Write(b); err != nil {
		return 0, err
	}
	n, err := l.w.Write(b)
	l.w.(http.Flusher).Flush()
	return n, err
}

// events makes an event of every line, in the ways that the format allows.
type events struct {
	w    io.Writer
	name string
	line bytes.Buffer
	n    int
}

func (e *events) Write(b []byte) (int, error) {
	for _, c := range b {
		if c != '\n' {
			if c == 0 && e.name == "unicode" {
				continue
			}
			e.line.WriteByte(c)
			continue
		}
		if err := e.event(); err != nil {
			return 0, err
		}
	}
	if e.name == "split" && e.line.Len() > 0 { // the first half of a character goes out alone
		text := "data: " + e.line.String()
		e.line.Reset()
		_, err := io.WriteString(e.w, text)
		e.n = -1
		return len(b), err
	}
	return len(b), nil
}

func (e *events) event() error {
	e.n++
	line := strings.TrimSuffix(e.line.String(), "\r")
	e.line.Reset()
	text := fmt.Sprintf(": comment\nid: %d\nevent: message\ndata: %s\n\n", e.n, line)
	switch {
	case e.n == 0: // the second half
		text = line + "\n\n"
	case e.name == "crlf":
		text = "data:" + line + "\r\n\r\n: keep alive\r\n\r\n"
	case e.name == "duplicate":
		if at := strings.IndexByte(line, ','); at >= 0 {
			text = "retry: 10\ndata: " + line[:at+1] + "\ndata: " + line[at+1:] + "\n\n"
		}
	}
	_, err := io.WriteString(e.w, text)
	return err
}

func TestRawBytesHTTP(t *testing.T) {
	t.Parallel()
	h := &noisyHandler{}
	s := newStores(t)
	client, err := s.kit.Direct(t.Context(), m3.HandlerServer{Name: "raw", Handler: h}, &m3.DirectOptions{Protocol: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	callAll(t, client)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wrote.Len() < threeMB || !bytes.Contains(h.wrote.Bytes(), []byte("\r\n\r\n")) {
		t.Fatalf("the server's log is not what was to be tested: %d bytes", h.wrote.Len())
	}
	s.hold(t, client, h.wrote.Bytes(), h.read.Bytes())
}
