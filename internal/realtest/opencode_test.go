package realtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/internal/leaktest"
	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/trace"
)

// The traps of OpenCode (docs/opencode.md), on the real program under a scripted model. The driver is driven as the kit does.

func args(s string) trace.JSON { return trace.JSON(s) }

// TestRealOpenCodeCheck: the program is found and is of the version that everything here was seen with; the check leaves nothing in anybody's home.
func TestRealOpenCodeCheck(t *testing.T) {
	t.Parallel()
	found, err := opencode.New(opencode.Config{Executable: openCodeBinary(t)}).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Version != opencode.Tested || !filepath.IsAbs(found.Executable) {
		t.Errorf("%+v, want version %s", found, opencode.Tested)
	}
}

// TestRealOpenCodeTurns: several turns of one session, with everything that a model can do: text, reasoning, calls one after another and at once, errors, names that do not exist.
func TestRealOpenCodeTurns(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{
		model.Think("let me think").Say("I shall add.").Call("calc:add", args(`{"a":2,"b":3}`)).When(model.Text("add two")),
		model.Say("The sum is 5.").When(model.Result("5")).Usage(model.Usage{Input: 100, Output: 20, CacheRead: 30, Reasoning: 5}),
		model.Say("Again.").When(model.Text("second")),
		model.Call("calc:fail", args(`{}`)).When(model.Text("fail")),
		model.Say("It failed.").When(model.Result("deliberate")),
		model.Calls(model.Use{Tool: "calc:add", Args: args(`{"a":1,"b":1}`)}, model.Use{Tool: "calc:add", Args: args(`{"a":10,"b":20}`)}).When(model.Text("twice")),
		model.Say("2 and 30.").When(model.Result("2"), model.Result("30")),
		model.CallRaw("bash", args(`{"command":"id"}`)),
		model.Say("No shell."),
		model.CallRaw("calc_nosuch", args(`{}`)),
		model.Say("No such tool."),
		model.Call("calc:add", args(`{"a":"x"}`)),
		model.Say("Bad arguments."),
	})
	o.start()
	n := len(o.host.Events())
	turn := o.send("add two numbers")
	if turn.Text != "The sum is 5." || turn.StopReason != "stop" || turn.Doubt != "" || !strings.HasPrefix(turn.NativeID, "msg_") {
		t.Errorf("the turn is %+v", turn)
	}
	events := o.since(n)
	sameStory(t, events, "thinks let me think", "says I shall add.", `calls calc_add {"a":2,"b":3}`, "gets success 5", "says The sum is 5. (stop)")
	call := all[*harness.ToolCall](events)[0]
	if call.Server.Value != "calc" || call.Tool.Value != "add" || call.ID == "" || all[*harness.ToolResult](events)[0].ID != call.ID {
		t.Errorf("the call is %+v, its result %+v", call, all[*harness.ToolResult](events)[0])
	}
	checkUsage(t, events)
	checkFacts(t, o.host.Events())

	n = len(o.host.Events())
	if turn := o.send("second"); turn.Text != "Again." {
		t.Errorf("the second turn is %+v", turn)
	}
	o.send("fail now")
	o.send("twice at once")
	o.send("a shell")
	o.send("an unknown tool")
	if turn := o.send("bad arguments"); turn.Text != "Bad arguments." {
		t.Errorf("the last turn is %+v", turn)
	}
	told := story(o.since(n))
	for _, want := range []string{
		"says Again. (stop)\n", "calls calc_fail {}\ngets tool_error deliberate tool error\nsays It failed. (stop)\n",
		`calls calc_add {"a":1,"b":1}` + "\n", `calls calc_add {"a":10,"b":20}` + "\n", "gets success 2\n", "gets success 30\n",
		"notice tool_unavailable\nsays No shell. (stop)\n", "calls calc_nosuch {}\ngets tool_error", "Model tried to call unavailable tool", "says No such tool. (stop)\n", "gets tool_error",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("the events have no %q:\n%s", want, told)
		}
	}
	if log := o.calc.log(); slices.Contains(log, "nosuch") || len(log) < 4 {
		t.Errorf("the server was called for %v", log)
	}
	o.followed()
	for _, x := range o.requests() {
		if x.Role != model.RoleTurn { // the session has a title, so that no model is asked for one
			t.Errorf("the model was asked for a %s", x.Role)
		}
	}
	if o.host.Drained() != 7 || !slices.Equal(o.host.ServedNames(), []string{"calc"}) {
		t.Errorf("drained %d times, waited for %v", o.host.Drained(), o.host.ServedNames())
	}
	checkFrames(t, o)
	o.close()
	checkEnd(t, o)
}

// checkUsage: each step, their sum, and the session; a cost of 0 is not known.
func checkUsage(t *testing.T, events []harness.Event) {
	t.Helper()
	scopes := map[string]int{}
	for _, u := range all[*harness.Usage](events) {
		scopes[u.Scope]++
		if u.Cost.OK() || !u.InputTokens.OK() || !u.OutputTokens.OK() {
			t.Errorf("the usage of a %s is %+v", u.Scope, u.Usage)
		}
	}
	if scopes["step"] != 2 || scopes["turn"] != 1 || scopes["session"] != 1 {
		t.Errorf("usage by scope: %v", scopes)
	}
	steps := all[*harness.Usage](events)
	last, turn, session := steps[1], steps[2], steps[3]
	if last.InputTokens.Value+last.CacheReadTokens.Value != 100+0 && last.InputTokens.Value != 100 || last.CacheReadTokens.Value != 30 || last.ReasoningTokens.Value != 5 {
		t.Errorf("the last step used %+v", last.Usage)
	}
	if turn.InputTokens.Value != steps[0].InputTokens.Value+last.InputTokens.Value || turn.InputTokens.Value != session.InputTokens.Value || turn.OutputTokens.Value != session.OutputTokens.Value {
		t.Errorf("the turn used %+v, the session %+v, the steps %+v and %+v", turn.Usage, session.Usage, steps[0].Usage, last.Usage)
	}
}

func checkFacts(t *testing.T, events []harness.Event) {
	t.Helper()
	facts := harness.Facts{}
	for _, f := range all[harness.Facts](events) {
		for name, v := range f {
			facts[name] = v
		}
	}
	for name, want := range map[string]string{"session_id": `"ses_`, "provider_id": `"m3"`, "model_id": `"scripted"`, "finish_reason": `"stop"`, "http_lifecycle": `{"elapsed_ms":`} {
		if !strings.HasPrefix(string(facts[name].Value), want) {
			t.Errorf("the fact %s is %s, want %s…", name, facts[name].Value, want)
		}
	}
}

// checkFrames: the traffic is on the tape, without the password, the provider's key and the configuration that holds it.
func checkFrames(t *testing.T, o *oc) {
	t.Helper()
	var sent, answers, events, lines int
	env := o.host.Commands()[0].Env
	password := ""
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, "OPENCODE_SERVER_PASSWORD="); ok {
			password = rest
		}
	}
	if len(password) < 20 {
		t.Errorf("the password is %q", password)
	}
	for _, f := range o.host.Frames() {
		switch {
		case f.Direction == trace.ClientToServer:
			sent++
		case f.Framing == trace.FramingBody:
			answers++
		case f.Framing == trace.FramingSSE:
			events++
			if !strings.HasPrefix(string(f.Bytes), "data:") || !strings.HasSuffix(string(f.Bytes), "\n\n") {
				t.Errorf("an event's frame is %q", f.Bytes)
			}
		case f.Framing == trace.FramingLine:
			lines++
		}
		if s := string(f.Bytes); strings.Contains(s, password) || strings.Contains(s, o.spec.Endpoint.Key) || strings.Contains(s, "apiKey") {
			t.Errorf("a frame holds a secret: %.300s", s)
		}
	}
	if sent < 8 || answers < 20 || events < 50 || lines < 1 {
		t.Errorf("%d bodies sent, %d answered, %d events, %d lines", sent, answers, events, lines)
	}
}

// checkEnd: SIGTERM was enough, the process said so by 143, and nothing of its tree lives on.
func checkEnd(t *testing.T, o *oc) {
	t.Helper()
	for _, p := range o.host.Processes() {
		e := p.Ended()
		if e.Step != "sigterm" || e.Exit.Code != 143 && e.Exit.Signal != "SIGTERM" || len(e.Survivors) > 0 {
			t.Errorf("the process ended by %s, exit %+v, survivors %v", e.Step, e.Exit, e.Survivors)
		}
	}
	checkGone(t, o)
}

// inSession lists the live processes of a session.
func inSession(id int) string {
	found := ""
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(id) && fields[0] != "Z" {
			found += string(b[:min(len(b), 60)]) + "\n"
		}
	}
	return found
}

// checkGone: nobody of the processes' sessions lives on.
func checkGone(t *testing.T, o *oc) {
	t.Helper()
	for _, p := range o.host.Processes() {
		if left := leaktest.Settled(3*time.Second, func() string { return inSession(p.PID()) }); left != "" {
			t.Errorf("somebody of the session %d lives on: %s", p.PID(), left)
		}
	}
}

// TestRealOpenCodeIsolation: what lies about (a project's configuration, instructions, a home) reaches neither the agent nor the provider; nothing is installed; the file with the
// configuration is the owner's alone and has no key; text that looks like one of OpenCode's own references stays text.
func TestRealOpenCodeIsolation(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-81f2"
	o := newOC(t, model.Script{model.Call("calc:env", args(`{}`)), model.Say("done"), model.Say("told")})
	o.stdio("calc")
	o.spec.Instructions = "You are the subject {env:HOME} " + "{file:/etc/passwd}."
	for name, text := range map[string]string{
		"opencode.json": `{"instructions":["AGENTS.md"],"mcp":{"evil":{"type":"local","command":["/bin/false"]}},"agent":{"build":{"prompt":"` + canary + `"}}}`,
		"AGENTS.md":     canary, "CLAUDE.md": canary, ".env": "TOKEN=" + canary, ".opencode/agent/m3.md": "---\nmode: primary\n---\n" + canary, ".claude/skills/x/SKILL.md": "---\nname: x\ndescription: " + canary + "\n---\n" + canary,
	} {
		path := filepath.Join(o.spec.Workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.script(model.Script{model.Call("calc:env", args(`{}`)), model.Say("done")})
	o.start()
	o.send("show the environment")
	o.followed()
	for _, x := range o.requests() {
		if strings.Contains(string(x.Request), canary) {
			t.Errorf("the canary reached the provider:\n%.2000s", x.Request)
		}
		if !strings.Contains(string(x.Request), `You are the subject {env:HOME} {file:/etc/passwd}.`) {
			t.Errorf("the instructions are not the test's own words:\n%.2000s", x.Request)
		}
	}
	seen := all[*harness.ToolResult](o.host.Events())[0].Result.Value.Text()
	for _, want := range []string{"CALC_TEXT={file:/etc/hostname} {env:HOME}", "cwd=" + o.spec.Workspace} {
		if !strings.Contains(seen, want) {
			t.Errorf("the server's environment has no %q:\n%s", want, seen)
		}
	}
	checkHome(t, o, canary)
	o.close()
	checkEnd(t, o)
}

func checkHome(t *testing.T, o *oc, canary string) {
	t.Helper()
	config := filepath.Join(o.spec.Home, "opencode.json")
	info, err := os.Stat(config)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the configuration file: %v, %v", info, err)
	}
	text, _ := os.ReadFile(config)
	if strings.Contains(string(text), o.spec.Endpoint.Key) || !strings.Contains(string(text), "{env:MODEL_ENDPOINT_KEY}") {
		t.Errorf("the configuration has the key, or no reference to it:\n%s", text)
	}
	err = filepath.WalkDir(o.spec.Home, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "node_modules" && d.IsDir():
			if entries, _ := os.ReadDir(path); len(entries) > 0 {
				t.Errorf("something was installed: %s has %d entries", path, len(entries))
			}
		case d.Type().IsRegular():
			if b, _ := os.ReadFile(path); strings.Contains(string(b), canary) || strings.Contains(string(b), o.spec.Endpoint.Key) {
				t.Errorf("%s holds the canary or the key", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRealOpenCodePort: port 0 means 4096 first, then any other: two at once have an address each, and neither can be talked to without its password.
func TestRealOpenCodePort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:4096")
	if err == nil {
		defer taken.Close()
	} // else somebody has it, which serves as well
	o := newOC(t, model.Script{})
	o.start()
	base := ""
	for _, f := range o.host.Frames() {
		if _, rest, ok := strings.Cut(string(f.Bytes), "listening on "); ok && f.Framing == trace.FramingLine {
			base = strings.TrimSpace(rest)
		}
	}
	if !strings.HasPrefix(base, "http://127.0.0.1:") || strings.HasSuffix(base, ":4096") {
		t.Fatalf("it listens on %q", base)
	}
	for _, header := range []string{"", "Basic b3BlbmNvZGU6b3BlbmNvZGU="} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/session", nil)
		req.Header.Set("Authorization", header)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("with %q it answers %d", header, res.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestRealOpenCodeServers: a server that does not start, one of another version, one that is not there: each is the server's fault, and nothing is left.
func TestRealOpenCodeServers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o *oc){
		"dead":   func(o *oc) { o.stdio("dead") },
		"future": func(o *oc) { o.stdio("future") },
		"absent": func(o *oc) { o.spec.Servers[0].URL = "http://127.0.0.1:9/mcp" },
		"one of two": func(o *oc) {
			o.spec.Servers = append(o.spec.Servers, harness.Endpoint{Name: "other", Command: "/nonexistent/server"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOC(t, model.Script{})
			change(o)
			var e *harness.Error
			if err := o.open(); !errors.As(err, &e) || e.Blame != harness.BlameServer || e.Code != "server_failed" {
				t.Fatalf("%v", err)
			}
			if want := map[bool]string{true: "protocol_version"}[name == "future"]; want != "" && e.Details["reason"] != want {
				t.Errorf("%v: %s", e.Details, e.Message)
			}
			checkEnd(t, o)
		})
	}
}

// TestRealOpenCodeProvider: what a provider may do wrong, each with its blame at the first failure, long before OpenCode gives up by itself.
func TestRealOpenCodeProvider(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 401}).When(model.Text("one")),
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 403}).When(model.Text("two")),
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 400}).When(model.Text("three")),
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 404, Message: "The model scripted does not exist"}).When(model.Text("four")),
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 500}).When(model.Text("five")),
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 429, Message: "Rate limit reached"}).When(model.Text("six")),
		model.Say("half an answ").Fault(model.Failure{Kind: model.FailCut}).When(model.Text("seven")),
		model.Say("half").Fault(model.Failure{Kind: model.FailError, Message: "it broke"}).When(model.Text("error")),
		model.Say("half").Fault(model.Failure{Kind: model.FailMalformed}).When(model.Text("malformed")),
		model.Say("Fine.").When(model.Text("eight")),
	})
	o.start()
	if e := o.fails("one", harness.BlameProvider, "provider_unauthorized"); e.Details["status"] != 401 {
		t.Errorf("the details are %v", e.Details)
	}
	o.fails("two", harness.BlameProvider, "provider_unauthorized")
	o.fails("three", harness.BlameProvider, "provider_error")
	o.fails("four", harness.BlameTest, "model_unknown")
	began := time.Now()
	n := len(o.host.Events())
	o.fails("five", harness.BlameProvider, "provider_error")
	if notices := all[*harness.Notice](o.since(n)); len(notices) != 1 || notices[0].Code != "retry" {
		t.Errorf("the retry was noted as %+v", notices)
	}
	o.fails("six", harness.BlameProvider, "provider_rate_limited")
	o.fails("seven", harness.BlameProvider, "provider_cut")
	o.fails("error", harness.BlameProvider, "provider_error")
	o.fails("malformed", harness.BlameProvider, "provider_error")
	if d := time.Since(began); d > 40*time.Second {
		t.Errorf("five failures took %s", d)
	}
	if turn := o.send("eight"); turn.Text != "Fine." { // the session can still be used
		t.Errorf("the turn is %+v", turn)
	}
	o.followed()
}

// TestRealOpenCodeUnfinished: an answer that ends well and without a reason to stop is a step for OpenCode, after which it asks again, without end.
func TestRealOpenCodeUnfinished(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]}`+"\n\n")
	}))
	defer provider.Close()
	o := newOC(t, model.Script{})
	o.spec.Endpoint.BaseURL = provider.URL
	o.start()
	o.fails("hello", harness.BlameProvider, "provider_cut")
	if n := asked.Load(); n > 20 {
		t.Errorf("the provider was asked %d times", n)
	}
	o.close()
}

// TestRealOpenCodeUnreachable: a provider that is not there.
func TestRealOpenCodeUnreachable(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{})
	o.spec.Endpoint.BaseURL = "http://127.0.0.1:9"
	o.start()
	o.fails("hello", harness.BlameProvider, "provider_unreachable")
}

// TestRealOpenCodeRetries: when the test wants them, OpenCode's retries are waited for.
func TestRealOpenCodeRetries(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 503}),
		model.Say("At last."),
	})
	o.cfg.Retries = 2
	o.start()
	if turn := o.send("try"); turn.Text != "At last." {
		t.Errorf("the turn is %+v", turn)
	}
	if told := story(o.host.Events()); !strings.Contains(told, "notice retry\nsays At last. (stop)\n") {
		t.Errorf("the events tell\n%s", told)
	}
	o.followed()
}

// TestRealOpenCodeUnknownModel: a model that is not in the configuration is answered with HTTP 500 and a reference; the reason comes as an event.
func TestRealOpenCodeUnknownModel(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{})
	o.spec.Endpoint, o.spec.Model = nil, "nosuch/model"
	o.start()
	if e := o.fails("hello", harness.BlameTest, "model_unknown"); !strings.Contains(e.Message, "nosuch/model") {
		t.Errorf("the message is %q", e.Message)
	}
}

// TestRealOpenCodeCancel: the end of a context ends the turn in OpenCode, while the model answers, while a tool runs, and while OpenCode waits before it asks again; the session goes on.
func TestRealOpenCodeCancel(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{
		model.Fault(model.Failure{Kind: model.FailHang}).When(model.Text("hang")),
		model.Call("calc:slow", args(`{"ms":60000}`)).When(model.Text("tool")),
		model.Fault(model.Failure{Kind: model.FailStatus, Status: 503}).When(model.Text("retry")),
		model.Say("Still here.").When(model.Text("again")),
	})
	o.cfg.Retries = 5
	asked := o.watched()
	o.start()
	cancelled := func(text string, when func(context.CancelFunc)) []harness.Event {
		t.Helper()
		n := len(o.host.Events())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go when(cancel)
		turn, err := o.session.Send(ctx, &harness.Prompt{Text: text})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%q: %+v, %v", text, turn, err)
		}
		return o.since(n)
	}
	cancelled("hang", func(cancel context.CancelFunc) { <-asked; cancel() })
	events := cancelled("tool", func(cancel context.CancelFunc) { <-o.calc.started; cancel() })
	if results := all[*harness.ToolResult](events); len(results) != 1 || results[0].Status != trace.ToolCancelled {
		t.Errorf("the call that was under way ended as %+v", results)
	}
	select {
	case <-o.calc.cancelled:
	case <-time.After(10 * time.Second):
		t.Error("the server was not told that its call is cancelled")
	}
	retried := make(chan struct{}, 8)
	o.host.OnEvent = func(e harness.Event) {
		if n, ok := e.(*harness.Notice); ok && n.Code == "retry" {
			retried <- struct{}{}
		}
	}
	cancelled("retry", func(cancel context.CancelFunc) { <-retried; cancel() })
	if turn := o.send("again"); turn.Text != "Still here." {
		t.Errorf("the turn after is %+v", turn)
	}
	o.followed()
}
