package acp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/trace"
)

// transcripts are captured from the real agents, with a prototype as their client.
const transcripts = "../../../shared/harness/transcripts/acp"

// record is a line of a transcript.
type record struct {
	Dir string          `json:"dir"`
	Msg json.RawMessage `json:"msg"`
}

// envelope is a message of either side.
type envelope struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// segment is a request of the captured client and all that followed until its next.
type segment struct {
	envelope
	lines []record // what the agent sent, and where the client answered or cancelled
}

func (s *segment) text() string {
	var p struct{ Prompt []struct{ Text string } }
	if json.Unmarshal(s.Params, &p) != nil || len(p.Prompt) == 0 {
		return ""
	}
	return p.Prompt[0].Text
}

func loadTranscript(t *testing.T, name string) []*segment {
	b, err := os.ReadFile(filepath.Join(transcripts, name+".jsonl"))
	if err != nil {
		if os.Getenv("M3_REQUIRE_SHARED") == "1" {
			t.Fatal(err)
		}
		t.Skip("the captured transcripts are not here: ", err)
	}
	var out []*segment
	for line := range bytes.Lines(b) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		var e envelope
		_ = json.Unmarshal(r.Msg, &e) // stderr is a string
		switch {
		case r.Dir == ">agent" && e.Method != "" && e.ID != nil:
			out = append(out, &segment{envelope: e})
		case (r.Dir == ">agent" || r.Dir == "<agent") && len(out) > 0:
			s := out[len(out)-1]
			s.lines = append(s.lines, r)
		}
	}
	return out
}

// replayed is an agent that says again what it said, to whoever asks for it.
type replayed struct {
	t        *testing.T
	segments []*segment
	cancel   func() // called where the captured client cancelled
	asked    func() // waits until the host was asked for permission

	in     *io.PipeReader
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	out    *io.PipeWriter
	exited chan struct{}
	once   sync.Once
	client *bufio.Reader
}

func newReplayed(t *testing.T, segments []*segment) *replayed {
	r := &replayed{t: t, segments: segments, exited: make(chan struct{})}
	r.in, r.stdin = io.Pipe()
	r.stdout, r.out = io.Pipe()
	r.client = bufio.NewReader(r.in)
	go r.run()
	return r
}

func (r *replayed) run() {
	defer close(r.exited)
	defer r.out.Close()
	for {
		e, err := r.read()
		if err != nil {
			return
		}
		if e.ID == nil || e.Method == "" {
			continue // the answers and cancels that a segment did not wait for
		}
		r.play(e)
	}
}

func (r *replayed) read() (envelope, error) {
	var e envelope
	line, err := r.client.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &e)
	}
	return e, err
}

// play finds the next segment of the method and says it with the id of now.
func (r *replayed) play(e envelope) {
	for i, s := range r.segments {
		if s.Method != e.Method {
			continue
		}
		r.segments = r.segments[i+1:]
		for _, rec := range s.lines {
			r.line(s, e, rec)
		}
		return
	}
	fmt.Fprintf(r.out, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", e.ID)
}

func (r *replayed) line(s *segment, now envelope, rec record) {
	var e envelope
	if json.Unmarshal(rec.Msg, &e) != nil {
		return
	}
	switch {
	case rec.Dir == ">agent": // an answer, or session/cancel
		if e.Method == "session/cancel" {
			r.asked()
			r.cancel()
		}
		_, _ = r.read() // whatever it is, it comes before the agent goes on
	case e.Method == "" && string(e.ID) == string(s.ID):
		var m map[string]json.RawMessage
		if err := json.Unmarshal(rec.Msg, &m); err != nil {
			return
		}
		m["id"] = now.ID
		b, _ := json.Marshal(m) // it was decoded from JSON
		_, _ = r.out.Write(append(b, '\n'))
	default:
		_, _ = r.out.Write(append(bytes.Clone(rec.Msg), '\n'))
	}
}

func (r *replayed) PID() int                  { return 1 }
func (r *replayed) Stdin() io.WriteCloser     { return r.stdin }
func (r *replayed) Stdout() io.Reader         { return r.stdout }
func (r *replayed) Exited() <-chan struct{}   { return r.exited }
func (r *replayed) Exit() (int, string, bool) { return 0, "", true }
func (r *replayed) StderrTail() string        { return "" }
func (r *replayed) Stop(time.Duration, time.Duration) {
	r.once.Do(func() {
		r.stdin.Close()
		r.stdout.Close()
		<-r.exited
	})
}

// TestReplay plays what the real agents said through the driver, and holds what it makes of it in testdata/replay.
func TestReplay(t *testing.T) {
	t.Parallel()
	generic := func() acp.Config { return acp.Config{Command: "x", UsageScope: "turn"} }
	for name, preset := range map[string]func() acp.Config{
		"acp-opencode": acp.OpenCode, "acp-opencode-ask": acp.OpenCode, "acp-opencode-perm": acp.OpenCode, "acp-opencode-bad": acp.OpenCode, "acp-opencode-http": acp.OpenCode, "acp-opencode-sse": acp.OpenCode,
		"acp-codex": acp.CodexACP, "acp-codex-ask": acp.CodexACP, "acp-codex-bad": acp.CodexACP, "acp-codex-fullaccess": acp.CodexACP, "acp-codex-http": acp.CodexACP, "acp-codex-length": acp.CodexACP,
		"acp-codex-nokey": acp.CodexACP, "acp-codex-permcancel": acp.CodexACP, "acp-codex-reject": acp.CodexACP, "acp-codex-sse": acp.CodexACP,
		"acp-claude": acp.ClaudeAgentACP, "acp-claude-ask": acp.ClaudeAgentACP, "acp-claude-bad": acp.ClaudeAgentACP, "acp-claude-http": acp.ClaudeAgentACP, "acp-claude-nokey": acp.ClaudeAgentACP,
		"acp-claude-permcancel": acp.ClaudeAgentACP, "acp-claude-reject": acp.ClaudeAgentACP, "acp-claude-sse": acp.ClaudeAgentACP,
		"acp-piacp": acp.PiACP, "acp-coder-example": generic, "acp-fixagent": generic, "acp-sdk-example-0.10": generic,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			segments := loadTranscript(t, name)
			golden(t, name, replay(t, segments, preset(), strings.HasSuffix(name, "reject")))
		})
	}
}

func replay(t *testing.T, segments []*segment, cfg acp.Config, reject bool) string {
	agent := newReplayed(t, segments)
	h := newHost(t)
	h.start = func(*harness.Command) (harness.Process, error) { return agent, nil }
	h.elicit = func(*harness.Prompted) (elicit.Response, error) {
		return elicit.Accept(elicit.Content{"name": "Ada"}), nil
	}
	h.permission = func(*harness.PermissionRequest) harness.PermissionAnswer {
		if reject {
			return harness.Deny
		}
		return harness.Allow
	}
	agent.asked = func() {}
	if cancelsWhileAsked(segments) {
		h.permission = nil // waits for the end of its context
		agent.asked = h.waitAsked
	}
	spec := newSpec(t)
	spec.Servers[0].Name, spec.Elicitation = "probe", true
	var log strings.Builder
	s, err := acp.New(cfg).Open(t.Context(), spec, h)
	logEvents(&log, h)
	if err != nil {
		return log.String() + "open: " + describe(err) + "\n"
	}
	for _, seg := range segments {
		if seg.Method != "session/prompt" {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		agent.cancel = cancel
		turn, err := s.Send(ctx, &harness.Prompt{Text: seg.text()})
		cancel()
		fmt.Fprintf(&log, "\nPROMPT %.80q\n", seg.text())
		logEvents(&log, h)
		if err != nil {
			fmt.Fprintln(&log, "error:", describe(err))
			continue
		}
		fmt.Fprintf(&log, "turn: %q stop %s doubt %q\n", turn.Text, turn.StopReason, turn.Doubt)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return log.String()
}

// cancelsWhileAsked finds a transcript whose client cancelled instead of answering.
func cancelsWhileAsked(segments []*segment) bool {
	for _, s := range segments {
		open := false
		for _, r := range s.lines {
			switch {
			case r.Dir == "<agent" && bytes.Contains(r.Msg, []byte(`"session/request_permission"`)):
				open = true
			case r.Dir == ">agent" && !bytes.Contains(r.Msg, []byte(`"session/cancel"`)):
				open = false
			case r.Dir == ">agent" && open:
				return true
			}
		}
	}
	return false
}

func describe(err error) string {
	if e, ok := errors.AsType[*harness.Error](err); ok {
		details, _ := json.Marshal(e.Details) // of plain values
		return fmt.Sprintf("%s %s %q %s", e.Blame, e.Code, e.Message, details)
	}
	return err.Error()
}

// logEvents writes what was told since the last time.
func logEvents(w io.Writer, h *fakeHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		switch e := e.(type) {
		case *harness.Message:
			fmt.Fprintf(w, "message %q\n", trace.JoinText(e.Content))
		case *harness.Reasoning:
			fmt.Fprintf(w, "reasoning %q\n", trace.JoinText(e.Content.Value))
		case *harness.ToolCall:
			fmt.Fprintf(w, "call %s %s = %s:%s %s\n", e.ID, e.Name, e.Server.Value, e.Tool.Value, e.Arguments.Value)
		case *harness.ToolResult:
			r := e.Result.Value
			fmt.Fprintf(w, "result %s %s %d blocks %.80q structured %s error %.80s\n", e.ID, e.Status, len(r.Content), r.Text(), r.StructuredContent.Value, r.Error.Value)
		case *harness.Usage:
			fmt.Fprintf(w, "usage %s in %v out %v think %v read %v write %v total %v cost %v %s\n", e.Scope, e.InputTokens.Value, e.OutputTokens.Value, e.ReasoningTokens.Value, e.CacheReadTokens.Value, e.CacheWriteTokens.Value, e.TotalTokens.Value, e.Cost.Value, e.Currency.Value)
		case harness.Facts:
			for _, name := range []string{"session_id", "protocol_version", "agent_identity", "current_mode", "selected_config"} {
				if v, has := e[name]; has {
					fmt.Fprintf(w, "fact %s %s %s\n", name, v.State, v.Value)
				}
			}
		case *harness.Notice:
			fmt.Fprintf(w, "notice %s %.120q\n", e.Code, e.Message)
		case *harness.Activity:
			fmt.Fprintf(w, "activity %s %d bytes\n", e.Kind, len(e.Data))
		}
	}
	h.events = nil
	for _, a := range h.asked {
		fmt.Fprintf(w, "asked %s %s:%s %s\n", a.Kind, a.Server, a.Tool, a.CallID)
	}
	for _, p := range h.prompted {
		fmt.Fprintf(w, "prompted %s %q\n", p.Mode, p.Message)
	}
	h.asked, h.prompted = nil, nil
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "replay", name+".txt")
	if os.Getenv("M3_UPDATE") == "1" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%v; got\n%s", err, got)
	}
}
