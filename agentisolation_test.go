package m3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// fakeModel is a model that brings a provider, which answers everything and promises a number of requests.
type fakeModel struct {
	expects int
	status  int

	mu   sync.Mutex
	seen []string // bodies of the requests
}

func (m *fakeModel) ModelName() string { return "scripted" }

func (m *fakeModel) Provide(_ context.Context, p *harness.Provision) (harness.Provider, error) {
	f := &fakeProvider{m: m, left: m.expects}
	f.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		m.seen = append(m.seen, string(body))
		f.left--
		m.mu.Unlock()
		if m.status != 0 {
			w.WriteHeader(m.status)
		}
		_, _ = io.WriteString(w, `{"choices":[]}`)
		p.Record(&harness.ModelExchange{Dialect: harness.OpenAIChat, Role: "turn", Step: "1", Path: r.URL.Path, Status: 200, Request: body, Response: trace.JSON(`{"choices":[]}`)})
	}))
	return f, nil
}

type fakeProvider struct {
	m    *fakeModel
	srv  *httptest.Server
	left int
}

func (p *fakeProvider) Endpoint() harness.ModelEndpoint {
	return harness.ModelEndpoint{Dialect: harness.OpenAIChat, BaseURL: p.srv.URL, Key: "scripted-key", Model: "scripted-1"}
}

func (p *fakeProvider) Finish(context.Context) error {
	p.srv.Close()
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	switch {
	case p.left > 0:
		return errors.New("step 1 (say) was never asked for")
	case p.left < 0:
		return errors.New("1 request came after the last step")
	}
	return nil
}

// TestAgentIsolation: what lies around a test reaches no agent, no server and no provider.
func TestAgentIsolation(t *testing.T) {
	const canary, secret = "canary-4b81d2", "sk-known-to-the-agent-77"
	home, project := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(home, ".config/fake/config.json"), filepath.Join(home, "AGENTS.md"), filepath.Join(project, "AGENTS.md"), filepath.Join(project, ".env")} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(project)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	t.Setenv("OPENAI_API_KEY", canary)
	t.Setenv("ANTHROPIC_BASE_URL", canary)
	t.Setenv("MY_AGENT_KEY", secret)
	k, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	model := &fakeModel{expects: 1}
	d := &fakeDriver{}
	agents, err := k.Agents([]m3.Selection{{Harness: d, Models: []m3.Model{model}, CredentialEnv: map[string]string{"FAKE_KEY": "MY_AGENT_KEY"}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	server := fixture(t, "agent")
	server.Name, server.Inherit = "calc", nil
	inside := "" // what the server process sees
	res, err := agents[0].Run(t.Context(), "model hello\ncall calc:env\ndump", &m3.RunOptions{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range res.View().ToolCalls().All() {
		if r, ok := c.Result.Get(); ok {
			inside = r.Text()
		}
	}
	dump := res.Text()
	for where, what := range map[string]string{"the agent": dump, "the server": inside, "the provider": strings.Join(model.seen, "\n")} {
		if what == "" {
			t.Errorf("%s shows nothing", where)
		}
		if strings.Contains(what, canary) {
			t.Errorf("%s sees the canary", where)
		}
	}
	if !strings.Contains(dump, secret) || strings.Contains(inside, secret) {
		t.Errorf("the credential: the agent has it %t, the server %t", strings.Contains(dump, secret), strings.Contains(inside, secret))
	}
	names := map[string]bool{}
	for line := range strings.Lines(dump) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.Contains(name, "/") {
			names[name] = true
		}
	}
	for _, name := range []string{"M3_ROOT_AMBIENT", "M3_ROOT_SECRET", "USER", "SHELL", "GOCACHE"} {
		if names[name] {
			t.Errorf("the agent inherits %s", name)
		}
	}
	spec := d.specs[0]
	for _, dir := range []string{spec.Home, spec.Workspace} {
		if strings.HasPrefix(dir, home) || strings.HasPrefix(dir, project) {
			t.Errorf("the agent lives in %s", dir)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", dir, err)
		}
	}
	kept := new(bytes.Buffer)
	for _, ev := range res.Trace.Events() {
		kept.Write(ev.Payload)
		if ev.Frame != nil {
			kept.Write(ev.Frame.Bytes)
		}
	}
	x, err := k.Store().Execution(t.Context(), res.ExecutionID)
	if err != nil {
		t.Fatal(err)
	}
	kept.Write(x.Spec)
	if strings.Contains(kept.String(), secret) {
		t.Error("the credential is in the trace")
	}
	if !strings.Contains(string(x.Spec), `"FAKE_KEY":"MY_AGENT_KEY"`) {
		t.Errorf("the reference is not stored: %s", x.Spec)
	}
}

func TestAgentModel(t *testing.T) {
	t.Parallel()
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	for _, c := range []struct {
		name, text string
		model      *fakeModel
		outcome    trace.Outcome
		blame      harness.Blame
		code       string
		told       int
	}{
		{"as promised", "model hi", &fakeModel{expects: 1}, trace.OutcomeCompleted, "", "", 0},
		{"left over", "say hi", &fakeModel{expects: 1}, trace.OutcomeFailed, harness.BlameTest, "script_unmet", 1},
		{"too many", "model a\nmodel b", &fakeModel{expects: 1}, trace.OutcomeFailed, harness.BlameTest, "script_unmet", 1},
		{"a provider that fails as promised", "model a", &fakeModel{expects: 1, status: 500}, trace.OutcomeFailed, harness.BlameProvider, "provider_error", 0},
		{"401", "model a", &fakeModel{expects: 1, status: 401}, trace.OutcomeFailed, harness.BlameProvider, "provider_unauthorized", 0},
		{"another failure first", "crash", &fakeModel{expects: 1}, trace.OutcomeFailed, harness.BlameAgent, "agent_crashed", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			told := 0
			k, err := m3.New(m3.Config{OnUnmet: func(error) { told++ }})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			d := &fakeDriver{}
			res, err := fakeAgents(t, k, d, c.model).Run(t.Context(), c.text, &m3.RunOptions{Server: pipe})
			if res == nil {
				t.Fatal(err)
			}
			if c.code == "script_unmet" {
				if res.Failure == nil || res.Failure.Code != c.code || err == nil || res.Outcome != c.outcome {
					t.Errorf("%v, failure %v", err, res.Failure)
				}
			} else {
				checkEnd(t, res, err, c.outcome, c.blame, c.code)
			}
			if told != c.told {
				t.Errorf("told %d times, want %d", told, c.told)
			}
			if d.specs[0].Endpoint == nil || d.specs[0].Model != "scripted-1" {
				t.Errorf("the agent got %+v", d.specs[0].Endpoint)
			}
			n := 0
			for _, e := range res.View().Timeline().All() {
				if p, ok := e.(*trace.ProviderEntry); ok && p.Category == "turn" && p.TurnID == res.Turn().ID {
					n++
				}
			}
			if n != len(c.model.seen) {
				t.Errorf("%d exchanges recorded, %d seen", n, len(c.model.seen))
			}
		})
	}
}

func TestAgentWorkspaces(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	for name, content := range map[string]string{"README": "hello", "src/main.txt": "old", "gone.txt": "x", ".env": "TOKEN=1", "id_rsa": "key", "credentials.json": "{}", "node_modules/a/index": "x"} {
		path := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", source, "-c", "user.name=t", "-c", "user.email=t@example.test"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", "README", "src", "gone.txt")
	git("commit", "-qm", "one")
	inPlace := t.TempDir()
	const change = "write out/new.txt made\nwrite src/main.txt changed\nremove gone.txt\ndump"
	for _, c := range []struct {
		name                     string
		workspace                m3.Workspace
		added, modified, deleted []string
		sees                     []string
	}{
		{"temporary", m3.TemporaryWorkspace, []string{"out/new.txt", "src/main.txt"}, nil, nil, nil},
		{"copy", m3.CopyOf(source), []string{"out/new.txt"}, []string{"src/main.txt"}, []string{"gone.txt"}, []string{"hello"}},
		{"git_worktree", m3.WorktreeOf(source), []string{"out/new.txt"}, []string{"src/main.txt"}, []string{"gone.txt"}, []string{"hello"}},
		{"in_place", m3.InPlace(inPlace, true), []string{"out/new.txt", "src/main.txt"}, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := &fakeDriver{}
			res, err := runFake(t, d, change, &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Workspace: c.workspace, Artifacts: []string{"out/*.txt", "**/none"}, KeepArtifacts: m3.KeepAlways})
			if err != nil {
				t.Fatal(err)
			}
			paths := func(files []m3.ChangedFile) (list []string) {
				for _, f := range files {
					list = append(list, f.Path)
				}
				return list
			}
			w := res.Workspace
			if w.Mode != c.name || !slices.Equal(paths(w.Added), c.added) || !slices.Equal(paths(w.Modified), c.modified) || !slices.Equal(paths(w.Deleted), c.deleted) || w.Incomplete != "" {
				t.Errorf("changes %+v", w)
			}
			for _, word := range c.sees {
				if !strings.Contains(res.Text(), word) {
					t.Errorf("the agent does not see %q", word)
				}
			}
			for _, word := range []string{"TOKEN=1", "id_rsa", "credentials.json", "node_modules"} {
				if strings.Contains(res.Text(), word) {
					t.Errorf("the agent sees %q", word)
				}
			}
			if len(res.Artifacts) != 1 || res.Artifacts[0].Name != "out/new.txt" {
				t.Fatalf("artifacts %+v", res.Artifacts)
			}
			if b, err := res.ReadArtifact("out/new.txt"); err != nil || string(b) != "made" {
				t.Errorf("the artifact is %q, %v", b, err)
			}
			if _, err := os.Stat(d.specs[0].Workspace); (err == nil) != (c.name == "in_place") {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestAgentReadOnlyWorkspace(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "a.txt"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &fakeDriver{}
	res, err := runFake(t, d, "write a.txt changed\nsay done", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Workspace: m3.ReadOnly(source),
		Artifacts: []string{"a.txt"}})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 && len(res.Workspace.Modified) != 0 { // root writes anywhere
		t.Errorf("changes %+v", res.Workspace)
	}
	if len(res.Artifacts) != 0 {
		t.Errorf("artifacts of an execution that completed: %v", res.Artifacts)
	}
	if b, err := os.ReadFile(filepath.Join(source, "a.txt")); err != nil || string(b) != "kept" {
		t.Errorf("the source is %q, %v", b, err)
	}
	if _, err := os.Stat(d.specs[0].Workspace); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestAgentLeavesNothing: also what the agent started in a group of its own is gone.
func TestAgentLeavesNothing(t *testing.T) {
	t.Parallel()
	s := openFake(t, agentKit(t), &fakeDriver{}, nil)
	if _, err := s.Send(t.Context(), "child\nsay x", nil); err != nil {
		t.Fatal(err)
	}
	res, err := s.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := res.View().Processes(); p.Len() != 1 || len(p.At(0).Survivors) != 1 || p.At(0).Ended == "" {
		t.Errorf("processes: %d", p.Len())
		for _, e := range p.All() {
			b, _ := json.Marshal(e)
			t.Log(string(b))
		}
	}
}

// TestKitCloseEndsSessions: a kit ends what runs, what waits and what is queued, and each keeps what it has.
func TestKitCloseEndsSessions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		end           func(k *m3.Kit) error
		busy, waiting trace.Outcome
	}{
		{"close", (*m3.Kit).Close, trace.OutcomeCancelled, trace.OutcomeCompleted},
		{"stop", func(k *m3.Kit) error {
			return k.Stop(context.Background(), trace.OutcomeTimedOut, "ended before the deadline of go test")
		}, trace.OutcomeTimedOut, trace.OutcomeTimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := memory.New(nil)
			k, err := m3.New(m3.Config{Store: st, Concurrency: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			d := &fakeDriver{}
			waiting := openFake(t, k, d, nil)
			busy := openFake(t, k, d, nil)
			go func() { _, _ = busy.Send(context.Background(), "wait", nil) }()
			var handles []*m3.Handle
			for range 2 {
				h, err := fakeAgents(t, k, d).Submit(t.Context(), "wait", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
				if err != nil {
					t.Fatal(err)
				}
				handles = append(handles, h)
			}
			for deadline := time.Now().Add(10 * time.Second); busy.Snapshot().State != m3.StateRunning || handles[0].Snapshot().State != m3.StateRunning && handles[1].Snapshot().State != m3.StateRunning; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("they do not run")
				}
			}
			if err := c.end(k); err != nil {
				t.Errorf("the end: %v", err)
			}
			for id, want := range map[trace.ExecutionID]trace.Outcome{waiting.ExecutionID(): c.waiting, busy.ExecutionID(): c.busy, handles[0].ExecutionID(): c.busy, handles[1].ExecutionID(): c.busy} {
				tr, err := st.Trace(context.Background(), id)
				if err != nil {
					t.Fatal(err)
				}
				if v, err := tr.View(); err != nil || v.Outcome() != want {
					t.Errorf("outcome %v, want %s (%v)", v.Outcome(), want, err)
				}
			}
			if _, err := waiting.Send(context.Background(), "say x", nil); err == nil {
				t.Error("a message after the end is sent")
			}
			if _, err := fakeAgents2(k, d); c.name == "close" && !errors.Is(err, m3.ErrKitClosed) {
				t.Errorf("agents of a closed kit: %v", err)
			}
		})
	}
}

func fakeAgents2(k *m3.Kit, d *fakeDriver) ([]*m3.Agent, error) {
	return k.Agents([]m3.Selection{{Harness: d}}, 1)
}

// TestAgentConcurrency: so many submitted actions run at a time, and no more.
func TestAgentConcurrency(t *testing.T) {
	t.Parallel()
	k, err := m3.New(m3.Config{Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	d := &fakeDriver{}
	a := fakeAgents(t, k, d)
	var handles []*m3.Handle
	for range 6 {
		h, err := a.Submit(t.Context(), "say x", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, h)
	}
	for _, h := range handles {
		if _, err := h.Result(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if d.peak != 2 {
		t.Errorf("%d ran at once, want 2", d.peak)
	}
}

// TestManySessions: a hundred conversations, some at once, each with its own calls.
func TestManySessions(t *testing.T) {
	t.Parallel()
	const total, atOnce = 100, 8
	k, d := agentKit(t), &fakeDriver{}
	a := fakeAgents(t, k, d)
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range total {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s, err := a.Session(t.Context(), &m3.SessionOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Metadata: map[string]any{"i": i}})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for turn := range 2 {
				if _, err := s.Send(t.Context(), "call calc:echo", nil); err != nil {
					t.Errorf("session %d, turn %d: %v", i, turn, err)
				}
			}
			res, err := s.Finish(t.Context())
			if err != nil || res.Outcome != trace.OutcomeCompleted || wireCalls(res.View()) != 2 {
				t.Errorf("session %d: %v %v", i, res, err)
			}
		})
	}
	all.Wait()
}

// TestAgentArtifactsAreKept: in every store, and without what is secret.
func TestAgentArtifactsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := sqlite.Open(filepath.Join(dir, "m3.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k, err := m3.New(m3.Config{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	agents, err := k.Agents([]m3.Selection{{Harness: &fakeDriver{}, CredentialEnv: map[string]string{"KEY": secretName}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	res, err := agents[0].Run(t.Context(), "write report.txt password: "+secretValue+" and password: plain\ncrash", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Artifacts: []string{"report.txt"}})
	if err == nil || len(res.Artifacts) != 1 {
		t.Fatalf("%v, artifacts %v", err, res.Artifacts)
	}
	b, err := res.ReadArtifact("report.txt")
	if err != nil || strings.Contains(string(b), secretValue) || !strings.Contains(string(b), "password: plain") {
		t.Errorf("the artifact is %q, %v", b, err)
	}
	if _, err := res.ReadArtifact("other"); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("another: %v", err)
	}
	seen := 0
	for _, e := range res.View().Timeline().All() {
		if a, ok := e.(*trace.ArtifactEntry); ok && a.Name == "report.txt" && a.SHA256 == res.Artifacts[0].SHA256 {
			seen++
		}
	}
	if seen != 1 {
		t.Errorf("%d entries", seen)
	}
}
