package opencode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

const (
	userMessage      = `{"sessionID":"ses_1","info":{"id":"msg_1","role":"user","sessionID":"ses_1"}}`
	assistantMessage = `{"sessionID":"ses_1","info":{"id":"msg_2","role":"assistant","sessionID":"ses_1","parentID":"msg_1"}}`
)

func begin(f *fakeServe) {
	f.emit("session.status", `{"sessionID":"ses_1","status":{"type":"busy"}}`)
	f.emit("message.updated", userMessage)
	f.emit("message.updated", assistantMessage)
}

// short tells events in short.
func short(events []harness.Event) string {
	var out []string
	for _, e := range events {
		switch e := e.(type) {
		case *harness.Message:
			s := "say"
			for _, c := range e.Content {
				s += " " + c.Text
			}
			out = append(out, s)
		case *harness.Reasoning:
			out = append(out, "think "+e.Content.State.String())
		case *harness.ToolCall:
			out = append(out, "call "+e.Name+" "+string(e.Arguments.Value))
		case *harness.ToolResult:
			out = append(out, "result "+string(e.Status)+" "+e.Result.State.String()+" "+e.Result.Value.Text())
		case *harness.Notice:
			out = append(out, "notice "+e.Code)
		case *harness.Activity:
			out = append(out, "activity "+e.Kind)
		case *harness.Usage:
			out = append(out, "usage "+e.Scope)
		}
	}
	return strings.Join(out, "\n")
}

// TestTurnEvents: what comes as an event is told in the order in which it comes, once, whatever the store repeats.
func TestTurnEvents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		emit    func(f *fakeServe)
		history string // the parts of msg_2
		want    string
	}{
		"text before a call": {func(f *fakeServe) {
			f.emit("message.part.updated", `{"sessionID":"ses_1","part":{"id":"prt_t","messageID":"msg_2","sessionID":"ses_1","type":"text","text":"","time":{"start":1}}}`)
			f.emit("message.part.delta", `{"sessionID":"ses_1","messageID":"msg_2","partID":"prt_t","field":"text","delta":"I "}`)
			f.emit("message.part.delta", `{"sessionID":"ses_1","messageID":"msg_2","partID":"prt_t","field":"text","delta":"add. "}`)
			f.emit("message.part.updated", toolPart("a", "calc_add", `{"status":"pending","input":{},"raw":""}`))
			f.emit("message.part.updated", toolPart("a", "calc_add", `{"status":"running","input":{"a":1}}`))
			f.emit("message.part.updated", toolPart("a", "calc_add", `{"status":"completed","input":{"a":1},"output":"1"}`))
			f.emit("message.part.updated", `{"sessionID":"ses_1","part":{"id":"prt_t","messageID":"msg_2","sessionID":"ses_1","type":"text","text":"I add. Done.","time":{"start":1,"end":2}}}`)
		}, ``, "say I add.\ncall calc_add {\"a\":1}\nresult success observed 1\nsay  Done."},
		"two calls at once": {func(f *fakeServe) {
			f.emit("message.part.updated", toolPart("a", "calc_add", `{"status":"running","input":{"n":1}}`))
			f.emit("message.part.updated", toolPart("b", "calc_add", `{"status":"running","input":{"n":2}}`))
			f.emit("message.part.updated", toolPart("b", "calc_add", `{"status":"completed","input":{"n":2},"output":"two"}`))
			f.emit("message.part.updated", toolPart("a", "calc_add", `{"status":"error","input":{"n":1},"error":"no"}`))
		}, `{"id":"a","messageID":"msg_2","sessionID":"ses_1","type":"tool","callID":"call_a","tool":"calc_add","state":{"status":"error","input":{"n":1},"error":"no"}}`,
			"call calc_add {\"n\":1}\ncall calc_add {\"n\":2}\nresult success observed two\nresult tool_error observed no"},
		"nothing as an event": {func(*fakeServe) {}, `{"id":"t","messageID":"msg_2","sessionID":"ses_1","type":"text","text":"from the store","time":{"end":2}},{"id":"a","messageID":"msg_2","sessionID":"ses_1","type":"tool","callID":"c","tool":"calc_add","state":{"status":"completed","input":{},"output":"x"}},{"id":"s","messageID":"msg_2","sessionID":"ses_1","type":"step-finish","reason":"stop","tokens":{"input":1,"output":1,"reasoning":0,"cache":{"read":0,"write":0}},"cost":0.1}`,
			"say from the store\ncall calc_add {}\nresult success observed x\nusage step\nusage turn"},
		"interrupted, unfinished, without output": {func(f *fakeServe) {
			f.emit("message.part.updated", toolPart("a", "calc_add", `{"status":"error","input":{},"error":"Tool execution aborted","metadata":{"interrupted":true}}`))
			f.emit("message.part.updated", toolPart("b", "calc_add", `{"status":"running","input":{}}`))
			f.emit("message.part.updated", toolPart("c", "calc_add", `{"status":"completed","input":{}}`))
			f.emit("message.part.updated", toolPart("d", "calc_add", `{"status":"completed","input":{},"output":"cut","metadata":{"truncated":true}}`))
			f.emit("message.part.updated", toolPart("e", "calc_add", `{"status":"completed","input":{},"output":"","metadata":{"truncated":"odd","interrupted":3}}`))
		}, ``, "call calc_add {}\nresult cancelled observed Tool execution aborted\ncall calc_add {}\ncall calc_add {}\nresult incomplete not_emitted \ncall calc_add {}\nresult success truncated cut\ncall calc_add {}\nresult success observed \nresult incomplete not_emitted "},
		"tools that are no server's": {func(f *fakeServe) {
			f.emit("message.part.updated", toolPart("a", "bash", `{"status":"running","input":{}}`))
			f.emit("message.part.updated", toolPart("a", "bash", `{"status":"completed","input":{},"output":"x"}`))
			f.emit("message.part.updated", toolPart("b", "nosuch", `{"status":"error","input":{},"error":"Model tried to call unavailable tool 'invalid'. Available tools: ."}`))
		}, ``, "activity bash\nnotice tool_unavailable"},
		"reasoning": {func(f *fakeServe) {
			for id, meta := range []string{`"text":"hm"`, `"text":"","metadata":{"openai":{"reasoningEncryptedContent":"x"}}`, `"text":""`} {
				f.emit("message.part.updated", fmt.Sprintf(`{"sessionID":"ses_1","part":{"id":"r%d","messageID":"msg_2","sessionID":"ses_1","type":"reasoning",%s,"time":{"start":1}}}`, id, meta))
				f.emit("message.part.updated", fmt.Sprintf(`{"sessionID":"ses_1","part":{"id":"r%d","messageID":"msg_2","sessionID":"ses_1","type":"reasoning",%s,"time":{"start":1,"end":2}}}`, id, meta))
			}
		}, ``, "think observed\nthink encrypted\nthink provider_hidden"},
		"what is not known": {func(f *fakeServe) {
			f.emit("something.new", `{"sessionID":"ses_1","x":1}`)
			f.emit("something.new", `{"sessionID":"ses_other","x":1}`)
			f.emit("message.part.updated", `{"sessionID":"ses_1","part":{"id":"n","messageID":"msg_2","sessionID":"ses_1","type":"hologram"}}`)
			f.emit("message.part.updated", `{"sessionID":"ses_1","part":{"id":7}}`)
			f.emit("session.status", `"odd"`)
			f.emit("session.compacted", `{"sessionID":"ses_1"}`)
			f.emit("mcp.tools.changed", `{"server":"calc"}`)
			f.emit("todo.updated", `{"sessionID":"ses_1","todos":[]}`)
		}, ``, "activity something.new\nactivity hologram\nnotice malformed_source\nnotice malformed_source\nnotice session.compacted\nnotice tools_changed\nactivity todo.updated"},
		"the user's own and synthetic text": {func(f *fakeServe) {
			f.emit("message.part.updated", `{"sessionID":"ses_1","part":{"id":"u","messageID":"msg_1","sessionID":"ses_1","type":"text","text":"the prompt","time":{"end":1}}}`)
			f.emit("message.part.updated", `{"sessionID":"ses_1","part":{"id":"y","messageID":"msg_2","sessionID":"ses_1","type":"text","synthetic":true,"text":"made up","time":{"end":1}}}`)
		}, ``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.turn = func(f *fakeServe, _ []byte) (int, string) {
				begin(f)
				tc.emit(f)
				return http.StatusOK, strings.Replace(hello, `"parts":[`, `"unused":[`, 1)
			}
			f.history = `[{"info":{"id":"msg_0","role":"assistant","sessionID":"ses_1","parentID":"msg_before"},"parts":[{"id":"old","messageID":"msg_0","sessionID":"ses_1","type":"text","text":"old","time":{"end":1}}]},` +
				`{"info":{"id":"msg_1","role":"user","sessionID":"ses_1"},"parts":[]},{"info":{"id":"msg_2","role":"assistant","sessionID":"ses_1","parentID":"msg_1","finish":"stop"},"parts":[` + tc.history + `]}]`
			s := f.open()
			n := len(f.host.Events())
			if _, err := s.Send(t.Context(), &harness.Prompt{Text: "go"}); err != nil {
				t.Fatal(err)
			}
			got := short(f.host.Events()[n:])
			got = strings.TrimSuffix(strings.TrimSuffix(got, "usage session"), "\n")
			if got != tc.want {
				t.Errorf("the events are\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func answered(change string) string { return strings.Replace(hello, `"finish":"stop"`, change, 1) }

// TestTurnEnds: how a turn can end, each with its blame.
func TestTurnEnds(t *testing.T) {
	t.Parallel()
	fails := func(status int, answer string) func(f *fakeServe, _ []byte) (int, string) {
		return func(f *fakeServe, _ []byte) (int, string) { begin(f); return status, answer }
	}
	apiError := func(status int, message string) string {
		return answered(fmt.Sprintf(`"error":{"name":"APIError","data":{"message":%q,"statusCode":%d}}`, message, status))
	}
	for name, tc := range map[string]struct {
		turn  func(f *fakeServe, body []byte) (int, string)
		blame harness.Blame
		code  string
		text  string
	}{
		"401":            {fails(200, apiError(401, "bad key")), harness.BlameProvider, "provider_unauthorized", "HTTP 401: bad key"},
		"403":            {fails(200, apiError(403, "no")), harness.BlameProvider, "provider_unauthorized", ""},
		"429":            {fails(200, apiError(429, "slow")), harness.BlameProvider, "provider_rate_limited", ""},
		"500":            {fails(200, apiError(500, "x")), harness.BlameProvider, "provider_error", ""},
		"404":            {fails(200, apiError(404, "no route")), harness.BlameProvider, "provider_error", ""},
		"404 of a model": {fails(200, apiError(404, "The model x does not exist")), harness.BlameTest, "model_unknown", ""},
		"no status":      {fails(200, apiError(0, "Connection reset by server")), harness.BlameProvider, "provider_cut", ""},
		"unreachable":    {fails(200, apiError(0, "Unable to connect. Is the computer able to access the url?")), harness.BlameProvider, "provider_unreachable", ""},
		"no key":         {fails(200, answered(`"error":{"name":"ProviderAuthError","data":{"providerID":"p","message":"none"}}`)), harness.BlameProvider, "provider_unauthorized", "provider p"},
		"too long":       {fails(200, answered(`"error":{"name":"ContextOverflowError","data":{"message":"long"}}`)), harness.BlameProvider, "provider_context_overflow", ""},
		"cut off":        {fails(200, answered(`"error":{"name":"MessageOutputLengthError","data":{}}`)), harness.BlameProvider, "provider_output_length", ""},
		"filtered":       {fails(200, answered(`"error":{"name":"ContentFilterError","data":{"message":"no"}}`)), harness.BlameProvider, "provider_refused", ""},
		"aborted alone":  {fails(200, answered(`"error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}`)), harness.BlameAgent, "agent_aborted", ""},
		"a new error":    {fails(200, answered(`"error":{"name":"NewError","data":{"message":"odd"}}`)), harness.BlameAgent, "agent_error", "NewError: odd"},
		"no finish":      {fails(200, answered(`"x":0`)), harness.BlameAgent, "agent_protocol", "neither finished nor failed"},
		"other session":  {fails(200, strings.Replace(hello, `"sessionID":"ses_1","role"`, `"sessionID":"ses_2","role"`, 1)), harness.BlameAgent, "agent_protocol", "ses_2"},
		"nonsense":       {fails(200, `[]`), harness.BlameAgent, "agent_protocol", "not what it should be"},
		"400":            {fails(400, `{"name":"BadRequest"}`), harness.BlameAgent, "agent_protocol", "HTTP 400"},
		"500 alone":      {fails(500, `{"name":"UnknownError"}`), harness.BlameAgent, "agent_protocol", "HTTP 500"},
		"500 with an event": {func(f *fakeServe, _ []byte) (int, string) {
			begin(f)
			f.emit("session.error", `{"sessionID":"ses_1","error":{"name":"UnknownError","data":{"message":"Model not found: m3/x."}}}`)
			return 500, `{"name":"UnknownError","data":{"message":"Unexpected server error.","ref":"err_1"}}`
		}, harness.BlameTest, "model_unknown", "m3/x"},
		"a retry": {func(f *fakeServe, _ []byte) (int, string) {
			begin(f)
			f.emit("session.status", `{"sessionID":"ses_1","status":{"type":"retry","attempt":1,"message":"Too Many Requests","next":1}}`)
			<-f.aborted
			return 200, answered(`"x":0`) // neither finish nor error
		}, harness.BlameProvider, "provider_rate_limited", "Too Many Requests"},
		"an answer without an end": {func(f *fakeServe, _ []byte) (int, string) {
			begin(f)
			f.emit("message.updated", `{"sessionID":"ses_1","info":{"id":"msg_2","role":"assistant","sessionID":"ses_1","parentID":"msg_1","finish":"unknown"}}`)
			<-f.aborted
			return 200, answered(`"error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}`)
		}, harness.BlameProvider, "provider_cut", ""},
		"a server that died": {func(f *fakeServe, _ []byte) (int, string) {
			f.mu.Lock()
			f.mcp = `{"calc":{"status":"failed","error":"Connection closed"}}`
			f.mu.Unlock()
			return 200, hello
		}, harness.BlameServer, "server_failed", "Connection closed"},
		"a crash": {func(f *fakeServe, _ []byte) (int, string) {
			f.proc.tail = "panic: oh"
			f.proc.die(0, "SIGSEGV")
			f.hangUp()
			panic(http.ErrAbortHandler)
		}, harness.BlameAgent, "agent_crashed", "by SIGSEGV; its last words: panic: oh"},
		"a connection that is cut": {func(*fakeServe, []byte) (int, string) { panic(http.ErrAbortHandler) }, harness.BlameAgent, "agent_protocol", "did not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.turn = tc.turn
			s := f.open()
			turn, err := s.Send(t.Context(), &harness.Prompt{Text: "go"})
			if turn != nil {
				t.Errorf("the turn is %+v", turn)
			}
			wantBlame(t, err, tc.blame, tc.code, tc.text)
			if name != "a crash" && f.host.Drained() != 1 {
				t.Errorf("drained %d times", f.host.Drained())
			}
		})
	}
}

// TestTurnAnswers: what is an answer, and what makes it doubtful.
func TestTurnAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ answer, text, stop, doubt string }{
		"stop":       {hello, "hello", "stop", ""},
		"length":     {answered(`"finish":"length"`), "hello", "length", ""},
		"tool-calls": {answered(`"finish":"tool-calls"`), "hello", "tool-calls", `"tool-calls"`},
		"no text":    {strings.Replace(hello, `"text":"hello"`, `"text":""`, 1), "", "stop", "no text and no tool call"},
		"two texts": {strings.Replace(hello, `"parts":[`, `"parts":[{"type":"text","text":"one"},{"type":"text","text":"no","synthetic":true},{"type":"tool"},`, 1),
			"one\nhello", "stop", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.turn = func(f *fakeServe, _ []byte) (int, string) { begin(f); return 200, tc.answer }
			turn, err := f.open().Send(t.Context(), &harness.Prompt{Text: "go"})
			if err != nil || turn.Text != tc.text || turn.StopReason != tc.stop || !strings.Contains(turn.Doubt, tc.doubt) || (tc.doubt == "") != (turn.Doubt == "") {
				t.Errorf("%+v, %v", turn, err)
			}
		})
	}
}

// TestLateIdle: the second session.idle of a turn comes in the next, and ends nothing.
func TestLateIdle(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	n := 0
	f.turn = func(f *fakeServe, _ []byte) (int, string) {
		if n++; n == 2 {
			f.emit("session.idle", `{"sessionID":"ses_1"}`) // of the first, as are these
			begin(f)
			f.emit("message.part.updated", toolPart("p1", "calc_add", `{"status":"completed","input":{},"output":"x"}`))
		}
		if n == 1 {
			begin(f)
		} else {
			f.emit("session.status", `{"sessionID":"ses_1","status":{"type":"busy"}}`)
			f.emit("message.updated", strings.ReplaceAll(userMessage, "msg_1", "msg_3"))
			f.emit("message.updated", strings.NewReplacer("msg_1", "msg_3", "msg_2", "msg_4").Replace(assistantMessage))
		}
		part := toolPart(fmt.Sprint("p", n), "calc_add", `{"status":"completed","input":{},"output":"x"}`)
		answer := hello
		if n == 2 {
			part, answer = strings.Replace(part, "msg_2", "msg_4", 1), strings.NewReplacer("msg_1", "msg_3", "msg_2", "msg_4").Replace(hello)
		}
		f.emit("message.part.updated", part)
		return 200, answer
	}
	s := f.open()
	for range 2 {
		if _, err := s.Send(t.Context(), &harness.Prompt{Text: "go"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(short(f.host.Events()), "result success"); got != 2 {
		t.Errorf("%d results:\n%s", got, short(f.host.Events()))
	}
}

// TestCancelIgnored: an OpenCode that does not end a turn is not waited for, and takes no other.
func TestCancelIgnored(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	release := make(chan struct{})
	f.turn = func(f *fakeServe, _ []byte) (int, string) { begin(f); <-release; return 200, hello }
	s := f.open()
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.Send(ctx, &harness.Prompt{Text: "go"})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second || f.asked("POST /session/ses_1/abort") == 0 {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	_, err = s.Send(t.Context(), &harness.Prompt{Text: "again"})
	wantBlame(t, err, harness.BlameAgent, "agent_timeout", "abort")
}

// TestEventsInterrupted: a stream of events that breaks is opened again, and what was missed is asked for; one that stays away ends the turn.
func TestEventsInterrupted(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.spec.AskPermission = true
	replied := make(chan string, 1)
	missed := `[{"id":"per_1","sessionID":"ses_1","permission":"calc_add","tool":{"callID":"c"}}]`
	f.over = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		switch r.URL.Path {
		case "/permission":
			_, _ = w.Write([]byte(missed))
		case "/permission/per_1/reply":
			replied <- string(body)
			_, _ = w.Write([]byte("true"))
		default:
			return false
		}
		return true
	}
	f.turn = func(f *fakeServe, _ []byte) (int, string) {
		begin(f)
		f.hangUp()
		if got := <-replied; got != `{"reply":"once"}` {
			t.Errorf("the reply is %s", got)
		}
		return 200, hello
	}
	s := f.open()
	if turn, err := s.Send(t.Context(), &harness.Prompt{Text: "go"}); err != nil || turn.Text != "hello" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if asked := f.host.Asked(); len(asked) != 1 || asked[0].Server != "calc" || asked[0].Tool != "add" || asked[0].CallID != "c" {
		t.Errorf("asked %+v", asked)
	}
	if told := short(f.host.Events()); !strings.Contains(told, "notice events_interrupted") {
		t.Errorf("the events are\n%s", told)
	}
	f.over = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path == "/event" {
			w.WriteHeader(500)
			return true
		}
		return false
	}
	f.turn = func(f *fakeServe, _ []byte) (int, string) { f.hangUp(); <-f.aborted; return 200, hello }
	_, err := s.Send(t.Context(), &harness.Prompt{Text: "again"})
	wantBlame(t, err, harness.BlameAgent, "agent_protocol", "events cannot be read")
	_, err = s.Send(t.Context(), &harness.Prompt{Text: "once more"})
	wantBlame(t, err, harness.BlameAgent, "agent_protocol", "events cannot be read")
}

// TestPermissions: the answers to questions, and what cannot be asked anybody.
func TestPermissions(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.spec.AskPermission, f.cfg.Builtins = true, []string{"bash"}
	replied := make(chan string, 4)
	f.over = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if strings.HasPrefix(r.URL.Path, "/permission/") || strings.HasPrefix(r.URL.Path, "/question/") {
			replied <- r.URL.Path + " " + string(body)
			_, _ = w.Write([]byte("true"))
			return true
		}
		return false
	}
	f.host.Answer = func(_ context.Context, r *harness.PermissionRequest) harness.PermissionAnswer {
		if r.Kind == "bash" {
			return harness.Deny
		}
		return harness.Allow
	}
	f.turn = func(f *fakeServe, _ []byte) (int, string) {
		begin(f)
		for _, q := range []string{`{"id":"per_1","sessionID":"ses_1","permission":"calc_get_sum","tool":{"callID":"c"}}`, `{"id":"per_2","sessionID":"ses_1","permission":"bash"}`} {
			f.emit("permission.asked", q)
			f.emit("permission.asked", q) // once is enough
			<-replied
		}
		f.emit("permission.asked", `{"id":7}`)
		f.emit("question.asked", `{"id":"que_1","sessionID":"ses_1","questions":[]}`)
		if got := <-replied; got != "/question/que_1/reject " {
			t.Errorf("the question got %s", got)
		}
		return 200, answered(`"finish":"tool-calls"`)
	}
	s := f.open()
	_, err := s.Send(t.Context(), &harness.Prompt{Text: "go"})
	wantBlame(t, err, harness.BlamePolicy, "permission_refused", "bash")
	asked := f.host.Asked()
	if len(asked) != 2 || asked[0].Kind != "tool" || asked[0].Tool != "get_sum" || asked[1].Kind != "bash" || asked[1].Server != "" {
		t.Errorf("asked %+v", asked)
	}
	if f.asked(`POST /permission/per_1/reply {"reply":"once"}`) != 1 || f.asked(`POST /permission/per_2/reply {"reply":"reject"}`) != 1 {
		t.Errorf("the requests are %v", f.requests)
	}
}

// TestHistoryPages: the turn's messages are looked for as far back as it takes.
func TestHistoryPages(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var all []string
	all = append(all, `{"info":{"id":"msg_1","role":"user","sessionID":"ses_1"},"parts":[]}`)
	for i := range 150 {
		all = append(all, fmt.Sprintf(`{"info":{"id":"msg_s%d","role":"assistant","sessionID":"ses_1","parentID":"msg_1"},"parts":[{"id":"p%d","messageID":"msg_s%d","sessionID":"ses_1","type":"text","text":"t","time":{"end":1}}]}`, i, i, i))
	}
	f.over = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/session/ses_1/message" {
			return false
		}
		page := all
		if r.URL.Query().Get("limit") == "100" {
			page = all[len(all)-100:]
		}
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(page, ","))
		return true
	}
	if _, err := f.open().Send(t.Context(), &harness.Prompt{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(short(f.host.Events()), "say t"); n != 150 {
		t.Errorf("%d messages of 150 are told", n)
	}
}

// TestUsageAndCost: a cost above 0 is one.
func TestUsageAndCost(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	if _, err := f.open().Send(t.Context(), &harness.Prompt{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	for _, e := range f.host.Events() {
		if u, ok := e.(*harness.Usage); ok && u.Scope == "session" {
			if u.Cost != trace.Observe(0.5) || u.Currency != trace.Observe("USD") || u.ReasoningTokens.Value != 3 || u.CacheWriteTokens.Value != 5 || u.TotalTokens.OK() {
				t.Errorf("the usage is %+v", u.Usage)
			}
			return
		}
	}
	t.Error("there is no usage of the session")
}

// TestPrompts: what cannot be sent is the test's fault.
func TestPrompts(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := f.open()
	for name, p := range map[string]*harness.Prompt{
		"empty": {}, "audio": {Text: "x", Content: []trace.Content{{Type: "audio"}}}, "no image": {Content: []trace.Content{{Type: "image", Raw: trace.JSON(`{"mimeType":"image/png"}`)}}},
	} {
		_, err := s.Send(t.Context(), p)
		if wantBlame(t, err, harness.BlameTest, "option_unknown", ""); f.asked("POST /session/ses_1/message") != 0 {
			t.Errorf("%s: something was sent", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Send(ctx, &harness.Prompt{Text: "x"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := s.Send(t.Context(), &harness.Prompt{Text: "x"})
	wantBlame(t, err, harness.BlameTest, "session_closed", "")
	if err := s.Close(t.Context()); err != nil || f.proc.stops != 1 {
		t.Errorf("%v, stopped %d times", err, f.proc.stops)
	}
}
