package m3_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// openFake opens a session of the fake agent with a server in this process.
func openFake(t *testing.T, k *m3.Kit, d *fakeDriver, opts *m3.SessionOptions) *m3.Session {
	t.Helper()
	if opts == nil {
		opts = &m3.SessionOptions{}
	}
	if opts.Server == nil {
		opts.Server = m3.PipeServer{Name: "calc", Serve: servePeer}
	}
	s, err := fakeAgents(t, k, d).Session(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSession(t *testing.T) {
	t.Parallel()
	s := openFake(t, agentKit(t), &fakeDriver{}, nil)
	if _, err := s.Result(); !errors.Is(err, m3.ErrSessionOpen) {
		t.Errorf("the result of an open session: %v", err)
	}
	one, err := s.Send(t.Context(), "call calc:echo\nsay one", &m3.SendOptions{Metadata: map[string]any{"step": 1}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Send(t.Context(), "say two", nil)
	if err != nil {
		t.Fatal(err)
	}
	if one.Text() != "one" || two.Text() != "two" || one.ID == two.ID || one.State.Index != 1 || two.State.Index != 2 {
		t.Errorf("turns %+v %+v", one, two)
	}
	if got := s.Snapshot(); got.State != m3.StateIdle || len(got.Turns) != 2 {
		t.Errorf("snapshot %+v", got)
	}
	res, err := s.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkEnd(t, res, nil, trace.OutcomeCompleted, "", "")
	if again, err := s.Result(); again != res || err != nil {
		t.Errorf("the result: %p %v, want %p", again, err, res)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close after finish: %v", err)
	}
	if _, err := s.Send(t.Context(), "say three", nil); !errors.Is(err, m3.ErrSessionClosed) {
		t.Errorf("send after finish: %v", err)
	}
	if n := wireCalls(res.View().ForTurn(one)); n != 1 {
		t.Errorf("%d calls in turn one", n)
	}
	if n := wireCalls(res.View().ForTurn(two.State)); n != 0 {
		t.Errorf("%d calls in turn two", n)
	}
	if len(res.Turns) != 2 || res.View().Summary().TurnCount != 2 {
		t.Errorf("%d turns, %d in the summary", len(res.Turns), res.View().Summary().TurnCount)
	}
	var created struct {
		Metadata map[string]any `json:"metadata"`
		Timeout  float64        `json:"timeout_seconds"`
	}
	for _, ev := range res.Trace.Events() {
		if ev.Kind == trace.KindTurnCreated && ev.TurnID == one.ID {
			if err := ev.Payload.Decode(&created); err != nil {
				t.Fatal(err)
			}
		}
	}
	if created.Timeout != 60 || len(created.Metadata) != 1 {
		t.Errorf("recorded of turn one: %+v", created)
	}
}

func TestSessionBusyAndCancel(t *testing.T) {
	t.Parallel()
	s := openFake(t, agentKit(t), &fakeDriver{}, nil)
	type answer struct {
		turn *m3.Turn
		err  error
	}
	sent := make(chan answer, 1)
	go func() {
		turn, err := s.Send(t.Context(), "call calc:echo\nwait", nil)
		sent <- answer{turn, err}
	}()
	for ev, err := range s.Events(t.Context()) { // until the call is on the wire
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == trace.KindMCPResponse && ev.TurnID != "" {
			break
		}
	}
	if _, err := s.Send(t.Context(), "say no", nil); !errors.Is(err, m3.ErrSessionBusy) {
		t.Errorf("a second message: %v", err)
	}
	s.Cancel()
	a := <-sent
	var cancelled *m3.CancelledError
	if !errors.As(a.err, &cancelled) || a.turn == nil || a.turn.State.Status != m3.TurnCancelled || a.turn.Text() != "interrupted" {
		t.Errorf("the cancelled turn: %+v %v", a.turn, a.err)
	}
	if turn, err := s.Send(t.Context(), "say on", nil); err != nil || turn.Text() != "on" {
		t.Errorf("after a cancelled turn: %v %v", turn, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := time.AfterFunc(50*time.Millisecond, cancel)
	defer stop.Stop()
	if _, err := s.Send(ctx, "wait", nil); !errors.As(err, &cancelled) {
		t.Errorf("a turn whose context ended: %v", err)
	}
	res, err := s.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkEnd(t, res, cancelled, trace.OutcomeCancelled, harness.BlameTest, "cancelled")
}

// TestSessionLimits: what an agent cannot do is refused, before or after.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	single := &fakeDriver{change: func(c *harness.Capabilities) { c.MultiTurn, c.Cancel = false, false }}
	s := openFake(t, agentKit(t), single, nil)
	if _, err := s.Send(t.Context(), "say one", nil); err != nil {
		t.Fatal(err)
	}
	var unsupported *m3.UnsupportedError
	if _, err := s.Send(t.Context(), "say two", nil); !errors.As(err, &unsupported) {
		t.Errorf("a second turn: %v", err)
	}
	noCancel := &fakeDriver{change: func(c *harness.Capabilities) { c.Cancel = false }}
	s = openFake(t, agentKit(t), noCancel, nil)
	var timeout *m3.TimeoutError
	if _, err := s.Send(t.Context(), "wait", &m3.SendOptions{Timeout: 50 * time.Millisecond}); !errors.As(err, &timeout) {
		t.Errorf("a turn over its deadline: %v", err)
	}
	if _, err := s.Send(t.Context(), "say on", nil); !errors.Is(err, m3.ErrSessionClosed) {
		t.Errorf("after a turn that cannot be cancelled: %v", err)
	}
}

func TestHandle(t *testing.T) {
	t.Parallel()
	a := fakeAgents(t, agentKit(t), &fakeDriver{})
	h, err := a.Submit(t.Context(), "call calc:echo\nwait", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
	if err != nil {
		t.Fatal(err)
	}
	var results sync.WaitGroup
	var got [2]*m3.Result
	for i := range got { // they wait while another reads
		results.Go(func() { got[i], _ = h.Result(context.Background()) })
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var timeout *m3.TimeoutError
	if _, err := h.Result(short); !errors.As(err, &timeout) {
		t.Errorf("a wait that is too short: %v", err)
	}
	var seen []trace.Event
	for ev, err := range h.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Sequence != int64(len(seen)) {
			t.Fatalf("event %d after %d", ev.Sequence, len(seen))
		}
		seen = append(seen, ev)
		if ev.Kind == trace.KindMCPResponse && ev.TurnID != "" { // it is live: the turn still waits
			if state := h.Snapshot().State; state != m3.StateRunning {
				t.Errorf("while the agent waits it is %s", state)
			}
			h.Cancel()
		}
	}
	results.Wait()
	res, err := h.Result(t.Context())
	var cancelled *m3.CancelledError
	if !errors.As(err, &cancelled) || res == nil || got[0] != res || got[1] != res {
		t.Fatalf("results %p %p %p, %v", got[0], got[1], res, err)
	}
	checkEnd(t, res, err, trace.OutcomeCancelled, harness.BlameTest, "cancelled")
	if len(seen) != res.Trace.Len() || seen[len(seen)-1].Kind != trace.KindExecutionFinished {
		t.Errorf("%d events live, %d in the trace", len(seen), res.Trace.Len())
	}
	n := 0
	for ev, err := range h.EventsAfter(t.Context(), 4) {
		if err != nil || ev.Sequence != int64(5+n) {
			t.Fatalf("event %d, %v", ev.Sequence, err)
		}
		n++
	}
	if n != len(seen)-5 {
		t.Errorf("%d events after the fifth, want %d", n, len(seen)-5)
	}
}

// TestHandleReaderLeaves: a reader may leave, or its context end, and the action goes on.
func TestHandleReaderLeaves(t *testing.T) {
	t.Parallel()
	h, err := fakeAgents(t, agentKit(t), &fakeDriver{}).Submit(t.Context(), "wait", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
	if err != nil {
		t.Fatal(err)
	}
	for range h.Events(t.Context()) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for ev, err := range h.Events(ctx) {
		if last = err; ev.Kind == trace.KindTurnCreated {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the end of the reader's context: %v", last)
	}
	if state := h.Snapshot().State; state == m3.StateFinished {
		t.Errorf("the action ended with its reader")
	}
	h.Cancel()
	if res, _ := h.Result(t.Context()); res.Outcome != trace.OutcomeCancelled {
		t.Errorf("outcome %s", res.Outcome)
	}
}

func TestAgentDeadlines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		kit, action time.Duration
		want        float64
	}{
		{"the action's own", time.Hour, 30 * time.Second, 30},
		{"the kit's", 45 * time.Second, 0, 45},
		{"the default", 0, 0, 180},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k, err := m3.New(m3.Config{ExecutionTimeout: c.kit})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			res, err := fakeAgents(t, k, &fakeDriver{}).Run(t.Context(), "say x", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Timeout: c.action})
			if err != nil {
				t.Fatal(err)
			}
			x, err := k.Store().Execution(t.Context(), res.ExecutionID)
			if err != nil {
				t.Fatal(err)
			}
			var spec struct {
				Timeout float64 `json:"timeout_seconds"`
			}
			if err := x.Spec.Decode(&spec); err != nil || spec.Timeout != c.want {
				t.Errorf("the deadline is %v s, want %v (%v)", spec.Timeout, c.want, err)
			}
		})
	}
}

// TestRunContext: Run waits, so the end of its context cancels.
func TestRunContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	res, err := fakeAgents(t, agentKit(t), &fakeDriver{}).Run(ctx, "wait", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
	if res == nil || err == nil {
		t.Fatalf("%v %v", res, err)
	}
	checkEnd(t, res, err, trace.OutcomeCancelled, harness.BlameTest, "cancelled")
}

// TestAgentDriverHangs: a driver that does not return stops nothing for long.
func TestAgentDriverHangs(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	d := &fakeDriver{open: func(*harness.Spec, harness.Host) (harness.Session, error) { return stuck(hold), nil }}
	k := agentKit(t)
	began := time.Now()
	res, err := fakeAgents(t, k, d).Run(t.Context(), "x", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Timeout: 100 * time.Millisecond})
	if res == nil {
		t.Fatal(err)
	}
	checkEnd(t, res, err, trace.OutcomeTimedOut, harness.BlameAgent, "agent_timeout")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if l := res.View().Limitations(); len(l) == 0 || l[0].Code != "cleanup_failed" {
		t.Errorf("limitations %v", l)
	}
}

// stuck is a session whose methods do not return before the channel is closed.
type stuck chan struct{}

func (s stuck) Send(context.Context, *harness.Prompt) (*harness.Turn, error) {
	<-s
	return nil, errors.New("too late")
}

func (s stuck) Close(context.Context) error {
	<-s
	return nil
}
