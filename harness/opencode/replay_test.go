package opencode_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/m3-go/m3/harness"
)

// captured is one line of a transcript of the real program.
type captured struct {
	SSE    json.RawMessage
	HTTP   string
	Path   string
	Req    json.RawMessage
	Status int
	Res    json.RawMessage
}

// transcript reads one; it is not part of the repository.
func transcript(t *testing.T, name string) []captured {
	t.Helper()
	dir := os.Getenv("M3_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	file, err := os.Open(filepath.Join(dir, "harness", "transcripts", "opencode", name))
	if err != nil {
		if os.Getenv("M3_REQUIRE_SHARED") == "1" {
			t.Fatalf("M3_REQUIRE_SHARED=1, and the transcripts are not there: %v", err)
		}
		t.Skipf("the transcripts are not there: %v", err)
	}
	defer file.Close()
	var out []captured
	in := bufio.NewScanner(file)
	in.Buffer(nil, 8<<20)
	for in.Scan() {
		var c captured
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// replay plays one session of a transcript to the driver and returns what each turn was told as, and how it ended.
func replay(t *testing.T, lines []captured, id string) (told, ends []string) {
	f := newFake(t)
	f.mcp = `{"calc":{"status":"connected"},"web":{"status":"connected"},"mrtr":{"status":"connected"},"my-srv_x":{"status":"connected"}}`
	f.spec.Servers = []harness.Endpoint{{Name: "calc", URL: "x"}, {Name: "web", URL: "x"}, {Name: "mrtr", URL: "x"}, {Name: "my-srv_x", URL: "x"}}
	history := `[]`
	for _, c := range lines {
		if c.HTTP == http.MethodGet && c.Path == "/session/"+id+"/message" {
			history = string(c.Res)
		}
	}
	at := 0
	emit := func(c *captured) {
		var e struct {
			Type       string
			Properties json.RawMessage
		}
		if c.SSE != nil && json.Unmarshal(c.SSE, &e) == nil {
			f.emit(e.Type, string(e.Properties))
		}
	}
	// play sends the events up to the next answer to a message, and what came right after it, and returns it.
	play := func() *captured {
		for ; at < len(lines); at++ {
			c := &lines[at]
			emit(c)
			if c.answers(id) {
				for at++; at < len(lines) && lines[at].SSE != nil && c.Status != http.StatusOK; at++ {
					emit(&lines[at])
				}
				return c
			}
		}
		return nil
	}
	f.over = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		switch r.Method + " " + r.URL.Path {
		case "POST /session":
			_, _ = w.Write([]byte(`{"id":"` + id + `"}`))
		case "GET /session/" + id + "/message":
			_, _ = w.Write([]byte(history))
		case "GET /session/" + id:
			_, _ = w.Write([]byte(`{}`))
		case "POST /session/" + id + "/message":
			c := play()
			f.emit("session.idle", `{"sessionID":"`+id+`"}`)
			if c == nil {
				return false
			}
			w.WriteHeader(c.Status)
			_, _ = w.Write(c.Res)
		default:
			return false
		}
		return true
	}
	s := f.open()
	for range count(lines, id) {
		n := len(f.host.Events())
		turn, err := s.Send(t.Context(), &harness.Prompt{Text: "as it was"})
		var e *harness.Error
		switch {
		case errors.As(err, &e):
			ends = append(ends, string(e.Blame)+" "+e.Code)
		case err != nil:
			t.Fatal(err)
		default:
			ends = append(ends, turn.StopReason+" "+turn.Text)
		}
		told = append(told, short(f.host.Events()[n:]))
	}
	return told, ends
}

// answers reports whether the line is the answer to a message that OpenCode took.
func (c *captured) answers(id string) bool {
	return c.HTTP == http.MethodPost && c.Path == "/session/"+id+"/message" && c.Status != http.StatusBadRequest
}

func count(lines []captured, id string) (n int) {
	for _, c := range lines {
		if c.answers(id) {
			n++
		}
	}
	return n
}

// sessions are the ids of a transcript's sessions in which a message was answered, in order.
func sessions(lines []captured) (ids []string) {
	for _, c := range lines {
		var made struct{ ID string }
		if c.HTTP == http.MethodPost && c.Path == "/session" && json.Unmarshal(c.Res, &made) == nil && count(lines, made.ID) > 0 {
			ids = append(ids, made.ID)
		}
	}
	return ids
}

// TestReplayTurns: the turns of a real session, as they were captured.
func TestReplayTurns(t *testing.T) {
	t.Parallel()
	lines := transcript(t, "serve-multiturn.jsonl")
	told, ends := replay(t, lines, sessions(lines)[0])
	for i, want := range []struct{ end, told string }{
		{`stop final: {"sum":5}`, "think observed\ncall calc_add {\"a\": 2, \"b\": 3}\nresult success observed {\"sum\":5}\nusage step\nsay final: {\"sum\":5}\nusage step\nusage turn"},
		{"stop second turn", "say second turn\nusage step\nusage turn"},
		{"stop final: deliberate tool error", "call calc_fail {}\nresult tool_error observed deliberate tool error\n"},
		{"stop ", "result success observed {\"sum\":30}"},
		{"stop ", "notice tool_unavailable\n"},
		{"stop ", "result tool_error observed"},
		{"stop ", "call calc_roots {}"},
		{"stop ", "call calc_env {}"},
		{"agent agent_aborted", ""},
		{"agent agent_aborted", "call calc_slow {\"ms\": 20000}\nresult cancelled observed Tool execution aborted"},
		{"stop after abort", "say after abort\nusage step\nusage turn"},
	} {
		if i >= len(ends) {
			t.Fatalf("there are %d turns", len(ends))
		}
		if !strings.HasPrefix(ends[i], want.end) || !strings.Contains(told[i], want.told) {
			t.Errorf("turn %d ended as %q and is told as\n%s\nwant %q and\n%s", i+1, ends[i], told[i], want.end, want.told)
		}
	}
}

// TestReplayErrors: errors of the provider, and of models that are not there.
func TestReplayErrors(t *testing.T) {
	t.Parallel()
	lines := transcript(t, "serve-errors-retries.jsonl")
	want := map[string]bool{"test model_unknown": false}
	for _, id := range sessions(lines) {
		_, ends := replay(t, lines, id)
		for _, end := range ends {
			if _, listed := want[end]; listed {
				want[end] = true
			}
			if strings.HasPrefix(end, "stop ") || strings.HasPrefix(end, "harness ") || strings.Contains(end, "agent_protocol") {
				t.Errorf("%s ended as %s", id, end)
			}
		}
	}
	for end, seen := range want {
		if !seen {
			t.Errorf("no session ended as %s", end)
		}
	}
}

// TestReplayGiveUp: after its five retries OpenCode tells the provider's status.
func TestReplayGiveUp(t *testing.T) {
	t.Parallel()
	lines := transcript(t, "serve-http500-giveup.jsonl")
	for _, id := range sessions(lines) {
		told, ends := replay(t, lines, id)
		if len(ends) != 1 || ends[0] != "provider provider_error" || strings.Count(told[0], "notice retry") < 1 {
			t.Errorf("it ended as %s, and is told as\n%s", ends, told)
		}
	}
}

// TestReplayPermissions: remote servers, permissions and results that wait for input.
func TestReplayPermissions(t *testing.T) {
	t.Parallel()
	lines := transcript(t, "serve-remote-permissions-mrtr.jsonl")
	seen := map[string]int{}
	for _, id := range sessions(lines) {
		told, ends := replay(t, lines, id)
		for i, end := range ends {
			word, _, _ := strings.Cut(end, " ")
			seen[word]++
			if strings.Contains(told[i], "call mrtr_ask {}\nresult success observed \n") { // input_required, of which OpenCode knows nothing
				seen["mrtr"]++
			}
			if strings.Contains(told[i], "Request timed out") {
				seen["timeout"]++
			}
		}
	}
	if seen["stop"] < 8 || seen["mrtr"] != 1 || seen["timeout"] != 1 {
		t.Errorf("the sessions ended as %v", seen)
	}
}
