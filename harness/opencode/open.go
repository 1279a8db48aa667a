package opencode

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// Open starts `opencode serve`, waits until it listens and every server is connected, subscribes to its events and makes the session.
func (d *driver) Open(ctx context.Context, spec *harness.Spec, host harness.Host) (harness.Session, error) {
	if e := d.validate(); e != nil {
		return nil, e
	}
	path, err := d.executable()
	if err != nil {
		return nil, err
	}
	n, bad := newNames(spec.Servers, spec.Tools)
	if bad != nil {
		return nil, bad
	}
	m, bad := d.model(spec)
	if bad != nil {
		return nil, bad
	}
	settings, err := d.settings(spec, m, n)
	if err != nil {
		return nil, &harness.Error{Blame: harness.BlameTest, Code: "option_unknown", Message: "opencode.Config: Options cannot be written as JSON: " + err.Error(), Err: err}
	}
	config, err := writeSettings(spec.Home, settings)
	if err != nil {
		return nil, &harness.Error{Blame: harness.BlameHarness, Code: "home_failed", Message: "OpenCode's configuration cannot be written: " + err.Error(), Err: err}
	}
	password := rand.Text()
	p, err := host.Start(ctx, &harness.Command{Path: path, Args: []string{"serve", "--hostname", "127.0.0.1", "--port", "0"}, Env: environment(spec, config, password),
		Dir: spec.Workspace, Role: "agent"})
	if err != nil {
		return nil, err
	}
	s := &session{d: d, host: host, proc: p, names: n, model: m, spec: *spec, password: password, quit: make(chan struct{}), past: map[string]bool{}}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.open(ctx); err != nil {
		s.shut(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return s, nil
}

func (s *session) open(ctx context.Context) error {
	base, err := s.listening(ctx)
	if err != nil {
		return err
	}
	s.api = newClient(s.host, base, s.password)
	if err := s.connected(ctx); err != nil {
		return err
	}
	for _, server := range s.spec.Servers {
		if err := s.host.Served(ctx, server.Name); err != nil {
			return s.unserved(server.Name, err)
		}
	}
	if err := s.listen(ctx); err != nil {
		return s.broke(ctx, "its events cannot be read", err)
	}
	var made sessionInfo
	if err := s.api.do(ctx, http.MethodPost, "/session", map[string]any{"title": "m3"}, &made); err != nil { // with a title no model is asked for one
		return s.broke(ctx, "it made no session", err)
	}
	if !sessionID.MatchString(made.ID) {
		return harness.Errorf(harness.BlameAgent, "agent_protocol", "OpenCode's session has the id %.80q, which is none", made.ID)
	}
	s.mu.Lock()
	s.id = made.ID
	s.mu.Unlock()
	s.host.Event(harness.Facts{"session_id": fact(made.ID), "provider_id": fact(s.model.ProviderID), "model_id": fact(s.model.ModelID)})
	return nil
}

// unserved is the failure of a server that OpenCode says it is connected to.
func (s *session) unserved(server string, err error) error {
	var own *harness.Error
	if errors.As(err, &own) {
		return err
	}
	return &harness.Error{Blame: harness.BlameServer, Code: "server_failed", Message: fmt.Sprintf("OpenCode is connected to server %s, and its tools were not listed: %v", server, err), Err: err}
}

var sessionID = regexp.MustCompile(`^ses[A-Za-z0-9_-]{1,252}$`)

// address is the line that says where it listens. --port 0 tries 4096 first, so that the port is never known before.
var address = regexp.MustCompile(`^opencode server listening on (http://127\.0\.0\.1:([0-9]{1,5}))/?$`)

// listening reads stdout until it says where it listens, and goes on reading it to its end.
func (s *session) listening(ctx context.Context) (string, error) {
	bound := s.d.cfg.StartTimeout
	if bound == 0 {
		bound = 30 * time.Second
	}
	found := make(chan string, 1)
	s.group.Go(func() { s.stdout(found) })
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case base, ok := <-found:
		if ok {
			return base, nil
		}
		return "", s.refused(ctx)
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
		return "", harness.Errorf(harness.BlameAgent, "agent_timeout", "OpenCode did not say within %s where it listens%s", bound, s.lastWords())
	}
}

// maxLine is the most that is kept of a line of stdout.
const maxLine = 64 << 10

// stdout reads the process's output. found gets the address, or is closed when there is none.
func (s *session) stdout(found chan<- string) {
	defer close(found)
	in := bufio.NewReaderSize(s.proc.Stdout(), maxLine)
	told := false
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			s.host.Frame(trace.ServerToClient, trace.FramingLine, line)
		}
		if m := address.FindSubmatch(trimLine(line)); m != nil && !told {
			told = true
			found <- string(m[1])
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func trimLine(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	return b
}

// refused is the failure of a process that ended before it listened. What it says of its configuration is m3's or the test's doing.
func (s *session) refused(ctx context.Context) error {
	if !s.gone(ctx) {
		return harness.Errorf(harness.BlameAgent, "agent_protocol", "OpenCode closed its output before it said where it listens%s", s.lastWords())
	}
	e := s.crash("OpenCode ended before it listened")
	if refusedConfiguration.MatchString(s.proc.StderrTail()) {
		e.Blame, e.Code = harness.BlameHarness, "configuration_refused"
	}
	return e
}

// connected asks for the state of every server. OpenCode answers when each is connected or has failed; a failed one it says nothing else of: its tools are just missing.
func (s *session) connected(ctx context.Context) error {
	if len(s.spec.Servers) == 0 {
		return nil
	}
	var states map[string]mcpStatus
	if err := s.api.do(ctx, http.MethodGet, "/mcp", nil, &states); err != nil {
		return s.broke(ctx, "it does not tell the state of its servers", err)
	}
	for _, server := range s.spec.Servers {
		st, there := states[s.names.keys[server.Name]]
		switch {
		case !there:
			return harness.Errorf(harness.BlameAgent, "servers_dropped", "OpenCode was given server %s and does not have it", server.Name)
		case st.Status != "connected":
			e := harness.Errorf(harness.BlameServer, "server_failed", "server %s is %s for OpenCode: %s", server.Name, st.Status, orElse(st.Error, "it says no more"))
			e.Details = map[string]any{"server": server.Name, "status": st.Status}
			if strings.Contains(strings.ToLower(st.Error), "protocol version") {
				e.Details["reason"] = "protocol_version"
			}
			return e
		}
	}
	return nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// resubscribe is how long m3 waits before it opens a stream of events that broke again, for each try.
var resubscribe = []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond}

// listen subscribes to the events, and reads them until the session ends.
func (s *session) listen(ctx context.Context) error {
	opened, cancel := context.WithCancel(s.life)
	stop := context.AfterFunc(ctx, cancel) // ctx bounds the opening alone
	body, err := s.api.subscribe(opened)
	if err != nil {
		cancel()
		return err
	}
	if !stop() {
		cancel()
		_ = body.Close()
		return ctx.Err()
	}
	s.group.Go(func() {
		defer cancel()
		s.follow(opened, body)
	})
	return nil
}

// follow reads events. A stream that breaks while the process runs is opened again; what was missed is asked for.
func (s *session) follow(ctx context.Context, body io.ReadCloser) {
	for {
		err := s.api.events(body, s.event)
		_ = body.Close()
		if ctx.Err() != nil || s.exited() {
			return
		}
		s.host.Event(&harness.Notice{Code: "events_interrupted", Message: "the stream of OpenCode's events broke: " + err.Error()})
		if body = s.again(ctx); body == nil {
			if ctx.Err() == nil && !s.exited() {
				s.fail(harness.Errorf(harness.BlameAgent, "agent_protocol", "OpenCode's events cannot be read any more: %v", err))
			}
			return
		}
		s.group.Go(func() { s.catchUp(ctx) })
	}
}

func (s *session) again(ctx context.Context) io.ReadCloser {
	for _, d := range resubscribe {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil
		}
		if body, err := s.api.subscribe(ctx); err == nil {
			return body
		}
	}
	return nil
}

// catchUp asks for what cannot wait and may have been missed: questions, and a retry. The rest is read at the end of the turn.
func (s *session) catchUp(ctx context.Context) {
	var questions []rawAsked
	if s.api.do(ctx, http.MethodGet, "/permission", nil, &questions) == nil {
		for _, q := range questions {
			s.asked(q.raw)
		}
	}
	var states map[string]status
	if s.api.do(ctx, http.MethodGet, "/session/status", nil, &states) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if st, ok := states[s.id]; ok && s.turn != nil && st.Type == "retry" {
			s.retrying(st, nil)
		}
	}
}

// rawAsked keeps a question as it came.
type rawAsked struct{ raw []byte }

// UnmarshalJSON never fails.
func (r *rawAsked) UnmarshalJSON(b []byte) error {
	r.raw = slices.Clone(b)
	return nil
}
