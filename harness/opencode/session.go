package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// session implements harness.Session.
type session struct {
	d        *driver
	host     harness.Host
	proc     harness.Process
	api      *client
	names    *names
	model    modelRef
	spec     harness.Spec
	password string
	life     context.Context // ends with the session
	end      context.CancelFunc
	group    sync.WaitGroup // everything that runs beside
	once     sync.Once
	quit     chan struct{} // closed when the process is gone after Close

	mu     sync.Mutex
	id     string
	turn   *turn // the one under way
	turns  int
	past   map[string]bool // the user's messages of the turns before
	tools  *harness.Tools  // the restriction of the last turn
	broken *harness.Error  // why no further message can be sent
	closed bool
}

// Send gives OpenCode one message and waits for the end of its turn.
func (s *session) Send(ctx context.Context, p *harness.Prompt) (*harness.Turn, error) {
	parts, bad := prompted(p)
	if bad != nil {
		return nil, bad
	}
	t, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.finish(t)
	if s.turns > 1 { // Open has just asked
		if err := s.connected(ctx); err != nil {
			return nil, ended(ctx, err)
		}
	}
	if err := s.restrict(ctx, p.Tools); err != nil {
		return nil, ended(ctx, err)
	}
	answer, err := s.post(ctx, t, map[string]any{"model": s.model, "parts": parts})
	return s.settle(ctx, t, answer, err)
}

// ended prefers the end of ctx as the reason.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// begin makes the turn, unless the session cannot take one.
func (s *session) begin(ctx context.Context) (*turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case s.closed:
		return nil, errClosed()
	case s.broken != nil:
		return nil, s.broken
	case s.turn != nil:
		return nil, harness.Errorf(harness.BlameHarness, "session_busy", "a message of the session is under way")
	}
	if s.exited() {
		return nil, s.crash("OpenCode ended between two turns")
	}
	t := newTurn(s)
	s.turn = t
	s.turns++
	return t, nil
}

func errClosed() *harness.Error {
	return harness.Errorf(harness.BlameTest, "session_closed", "the session was closed")
}

// finish ends what runs for a turn.
func (s *session) finish(t *turn) {
	s.mu.Lock()
	if s.turn == t {
		s.turn = nil
	}
	maps.Copy(s.past, t.parents)
	s.mu.Unlock()
	t.cancel()
	t.group.Wait()
}

// restrict sets which tools the turn may use. OpenCode keeps what a message says of tools for all later ones, and takes it as allowed without asking; so the session's own rules are set, and set back.
func (s *session) restrict(ctx context.Context, tools *harness.Tools) error {
	if tools == nil && s.tools == nil {
		return nil
	}
	s.tools = tools
	if tools == nil {
		tools = &s.spec.Tools
	}
	rules := s.d.rules(within(tools, &s.spec.Tools), s.spec.AskPermission, s.names)
	if err := s.api.do(ctx, http.MethodPatch, "/session/"+s.id, map[string]any{"permission": rules}, nil); err != nil {
		return s.broke(ctx, "it did not take the turn's tools", err)
	}
	return nil
}

// within is what both allow.
func within(turn, session *harness.Tools) *harness.Tools {
	switch {
	case session.All:
		return turn
	case turn.All:
		return session
	}
	out := &harness.Tools{Allowed: map[string][]string{}}
	for server, tools := range turn.Allowed {
		for _, tool := range tools {
			for _, other := range session.Allowed[server] {
				if tool == other {
					out.Allowed[server] = append(out.Allowed[server], tool)
				}
			}
		}
	}
	return out
}

// inputPart is a part of a message to OpenCode.
type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Mime     string `json:"mime,omitempty"`
	Filename string `json:"filename,omitempty"`
	URL      string `json:"url,omitempty"`
}

// prompted is a message in OpenCode's parts.
func prompted(p *harness.Prompt) ([]inputPart, *harness.Error) {
	var parts []inputPart
	if p.Text != "" {
		parts = append(parts, inputPart{Type: "text", Text: p.Text})
	}
	for i, c := range p.Content {
		switch c.Type {
		case "text":
			parts = append(parts, inputPart{Type: "text", Text: c.Text})
		case "image":
			var image struct{ MimeType, Data string }
			if json.Unmarshal(c.Raw, &image) != nil || image.MimeType == "" || image.Data == "" {
				return nil, harness.Errorf(harness.BlameTest, "option_unknown", "block %d of the message is no image: it needs mimeType and data", i+1)
			}
			parts = append(parts, inputPart{Type: "file", Mime: image.MimeType, Filename: fmt.Sprintf("image-%d", i+1), URL: "data:" + image.MimeType + ";base64," + image.Data})
		default:
			return nil, harness.Errorf(harness.BlameTest, "option_unknown", "OpenCode takes no content of type %q", c.Type)
		}
	}
	if len(parts) == 0 {
		return nil, harness.Errorf(harness.BlameTest, "option_unknown", "the message is empty")
	}
	return parts, nil
}

func (s *session) grace() time.Duration {
	if s.spec.CancelGrace > 0 {
		return s.spec.CancelGrace
	}
	return 2 * time.Second
}

// errUnended says that OpenCode did not end a turn that was aborted.
var errUnended = errors.New("OpenCode did not end the turn when it was told to")

// post sends the message and waits for its answer, which comes at the end of the turn. Dropping the request would not end the turn, so that it lives as long as the session.
func (s *session) post(ctx context.Context, t *turn, body any) (*message, error) {
	type result struct {
		m   *message
		err error
	}
	done := make(chan result, 1)
	asking, cancel := context.WithCancel(s.life)
	defer cancel()
	t.group.Go(func() {
		m := &message{}
		err := s.api.do(asking, http.MethodPost, "/session/"+s.id+"/message", body, m)
		done <- result{m, err}
	})
	select {
	case r := <-done:
		return r.m, r.err
	case <-ctx.Done():
	case <-t.stop:
	}
	t.cancel() // questions that are open need no answer any more
	bounded, cease := context.WithTimeout(s.life, s.grace())
	defer cease()
	for again := 100 * time.Millisecond; ; again *= 4 { // an abort that comes before OpenCode has begun the turn does nothing
		s.abort(bounded)
		select {
		case r := <-done:
			return r.m, r.err
		case <-time.After(again):
			continue
		case <-bounded.Done():
		}
		s.breakOff(harness.Errorf(harness.BlameAgent, "agent_timeout", "OpenCode did not end a turn within %s of its abort, so that no other can begin", s.grace()))
		return nil, errUnended
	}
}

// abort tells OpenCode to end the turn.
func (s *session) abort(ctx context.Context) {
	_ = s.api.do(ctx, http.MethodPost, "/session/"+s.id+"/abort", nil, nil) // whether it did is seen by the end of the turn
}

func (s *session) breakOff(e *harness.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = e
	}
}

// fail ends the turn under way for a reason of the driver's, and takes no further one.
func (s *session) fail(e *harness.Error) {
	s.breakOff(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.giveUp(e)
	}
}

// settleBound is how long the end of a turn waits for what OpenCode still tells of it.
const settleBound = 5 * time.Second

// settle reads what the turn was and says how it ended.
func (s *session) settle(ctx context.Context, t *turn, answer *message, err error) (*harness.Turn, error) {
	bound := settleBound
	if ctx.Err() != nil {
		bound = time.Second
	}
	bounded, cancel := context.WithTimeout(s.life, bound)
	defer cancel()
	if !s.exited() && !errors.Is(err, errUnended) {
		t.wait(bounded)
		s.read(bounded, t, answer)
	}
	s.mu.Lock()
	t.complete()
	s.mu.Unlock()
	s.account(bounded, t)
	_ = s.host.Drain(ctx) // what is missing is said by the kit
	if ctx.Err() != nil {
		t.lifecycle("aborted", answer)
		return nil, ctx.Err()
	}
	turn, e := s.outcome(t, answer, err)
	if e == nil || e.Blame == harness.BlameAgent {
		if down := s.connected(bounded); isServer(down) {
			turn, e = nil, down.(*harness.Error)
		}
	}
	if e != nil {
		t.lifecycle("failed", answer)
		return nil, e
	}
	t.lifecycle("completed", answer)
	return turn, nil
}

func isServer(err error) bool {
	var e *harness.Error
	return errors.As(err, &e) && e.Blame == harness.BlameServer
}

// pages are how many messages are asked for: the last ones, until those of the turn are among them.
var pages = []int{100, 1000, 10000}

// read goes through the turn's messages as OpenCode stores them. The answer holds the last one alone; calls are in those before it, one for each step of the model.
func (s *session) read(ctx context.Context, t *turn, answer *message) {
	if answer != nil && answer.Info.ParentID != "" {
		s.mu.Lock()
		t.parents[answer.Info.ParentID] = true
		s.mu.Unlock()
	}
	var all []message
	for _, limit := range pages {
		all = nil
		q := url.Values{"limit": {fmt.Sprint(limit)}}
		if err := s.api.do(ctx, http.MethodGet, "/session/"+s.id+"/message?"+q.Encode(), nil, &all); err != nil {
			s.host.Event(&harness.Notice{Code: "capture_incomplete", Message: "the messages of the turn cannot be read: " + err.Error()})
			return
		}
		if len(all) < limit || s.holds(t, all) {
			s.replay(t, all)
			return
		}
	}
	s.host.Event(&harness.Notice{Code: "capture_incomplete", Message: fmt.Sprintf("the turn has more than %d messages", pages[len(pages)-1])})
	s.replay(t, all)
}

// holds reports whether the page reaches back to the message that began the turn.
func (s *session) holds(t *turn, all []message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		if all[i].Info.Role == "user" && t.parents[all[i].Info.ID] {
			return true
		}
	}
	return false
}

func (s *session) replay(t *turn, all []message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		m := &all[i]
		if m.Info.Role != "assistant" || !t.parents[m.Info.ParentID] {
			continue
		}
		if m.Info.SessionID != s.id {
			t.stranger(m.Info.SessionID)
			continue
		}
		t.message(&m.Info)
		for _, raw := range m.Parts {
			t.part(raw)
		}
	}
}

// account tells what OpenCode says the session has cost so far.
func (s *session) account(ctx context.Context, t *turn) {
	s.mu.Lock()
	t.usage()
	s.mu.Unlock()
	var info sessionInfo
	if s.exited() || s.api.do(ctx, http.MethodGet, "/session/"+s.id, nil, &info) != nil || info.Tokens == nil || info.ID != s.id {
		return // the steps are told already
	}
	s.host.Event(&harness.Usage{Scope: "session", Usage: usage(info.Tokens, info.Cost)})
}

// Close ends the process: SIGTERM, upon which OpenCode closes its servers and exits with 143.
func (s *session) Close(ctx context.Context) error {
	s.shut(ctx)
	return nil
}

// term is how long OpenCode may take to end orderly.
const term = 5 * time.Second

func (s *session) shut(ctx context.Context) {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.end()
		bound := term
		if at, ok := ctx.Deadline(); ok {
			bound = max(min(bound, time.Until(at)), time.Millisecond)
		}
		s.proc.Stop(time.Millisecond, bound) // it does not read stdin
		s.group.Wait()
		if s.api != nil {
			s.api.close()
		}
		close(s.quit)
	})
	<-s.quit
}

func (s *session) exited() bool {
	select {
	case <-s.proc.Exited():
		return true
	default:
		return false
	}
}

// gone waits a moment for the end of a process whose connection broke.
func (s *session) gone(ctx context.Context) bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-s.proc.Exited():
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return s.exited()
}

// crash is the failure of a process that ended by itself.
func (s *session) crash(what string) *harness.Error {
	code, signal, ok := s.proc.Exit()
	how := ""
	details := map[string]any{}
	switch {
	case ok && signal != "":
		how, details["signal"] = ", by "+signal, signal
	case ok:
		how, details["exit_code"] = fmt.Sprintf(", with exit code %d", code), code
	}
	e := harness.Errorf(harness.BlameAgent, "agent_crashed", "%s%s%s", what, how, s.lastWords())
	e.Details = details
	return e
}

// lastWords is the end of stderr, for a message.
func (s *session) lastWords() string {
	said := strings.TrimSpace(s.proc.StderrTail())
	if said == "" {
		return ""
	}
	if len(said) > 600 {
		said = "…" + strings.ToValidUTF8(said[len(said)-600:], "")
	}
	return "; its last words: " + said
}

// fact is a fact as text.
func fact(text string) trace.Observation[trace.JSON] {
	b, _ := json.Marshal(text)
	return trace.Observe(trace.JSON(b))
}
