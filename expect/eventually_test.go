package expect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

// changing is an execution that goes on as the test tells it.
type changing struct {
	mu      sync.Mutex
	t       *testing.T
	story   *story
	changed chan struct{}
	looks   int
	final   bool
}

func (c *changing) View() (trace.View, error) { return trace.View{}, trace.ErrNotFinalized }

func (c *changing) Snapshot() (trace.View, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	return trace.New("e1", c.story.arena).Snapshot()
}

func (c *changing) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
		if c.final {
			close(c.changed)
		}
	}
	return c.changed
}

func (c *changing) goOn(f func(*story)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.story)
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

func quoted(e *expect.Expectation) { e.ToolCall("quote", expect.Succeeded()) }

func TestEventually(t *testing.T) {
	t.Parallel()
	finish := func(s *story) {
		s.event(&trace.Event{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Payload: trace.JSON(`{"outcome":"completed"}`)})
	}
	type testCase struct {
		steps   []func(*story) // one a second
		checks  func(e *expect.Expectation)
		subject any           // instead of one that changes
		within  time.Duration // 0: a minute
		looks   int
		takes   time.Duration
		status  eval.Status
		parts   []string // of the message
	}
	call := func(s *story) { s.call("1", "quote", `{}`, okResult) }
	other := func(s *story) { s.call("2", "echo", `{}`, okResult) }
	for name, tc := range map[string]testCase{
		"at once":       {checks: func(e *expect.Expectation) { e.NoToolCall("quote") }, looks: 1, status: eval.Passed},
		"after a while": {steps: []func(*story){other, other, call, other}, checks: quoted, looks: 4, takes: 3 * time.Second, status: eval.Passed},
		"all of it":     {steps: []func(*story){call, other}, checks: func(e *expect.Expectation) { quoted(e); e.ToolCall("echo") }, looks: 3, takes: 2 * time.Second, status: eval.Passed},
		"the end":       {steps: []func(*story){other, finish}, checks: quoted, looks: 3, takes: 2 * time.Second, status: eval.Failed, parts: []string{"expect: eventually: did not hold", "and the execution has ended, after 3 tries", `no call of "quote"`}},
		"not in time": {steps: []func(*story){other}, checks: quoted, within: 5 * time.Second, looks: 3, takes: 5 * time.Second, status: eval.Failed,
			parts: []string{"within 5s (context deadline exceeded), after 3 tries", `tool call "quote": did not hold`, "of a snapshot", "execution e1"}},
		"wrong use":            {checks: func(e *expect.Expectation) { e.ToolCall("quote", expect.Times(-1)) }, looks: 1, status: eval.Error, parts: []string{"eventually: wrong use", "Times(-1)"}},
		"nothing":              {checks: func(*expect.Expectation) {}, looks: 1, status: eval.Error, parts: []string{"the function asks nothing"}},
		"no function":          {status: eval.Error, parts: []string{"the context or the function is nil"}},
		"what does not change": {subject: "x", checks: func(e *expect.Expectation) { e.Text("y") }, status: eval.Failed, parts: []string{`- "y"`}},
		"nil client":           {subject: (*m3.Client)(nil), checks: quoted, status: eval.Error, parts: []string{"the client is nil"}},
		"open for ever":        {subject: running{}, checks: quoted, status: eval.Error, parts: []string{"not finalized"}},
		"broken":               {subject: broken{}, checks: quoted, status: eval.Error, parts: []string{"there is no snapshot: gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fakeT{name: t.Name()}
				var recorded []*expect.Check
				stop := expect.Observe(f, &expect.Observer{Checked: func(c *expect.Check) { recorded = append(recorded, c) }})
				defer stop()
				within := tc.within
				if within == 0 {
					within = time.Minute
				}
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				c := &changing{t: t, story: newStory()}
				go func() {
					for _, step := range tc.steps {
						time.Sleep(time.Second)
						c.goOn(step)
					}
				}()
				subject := tc.subject
				if subject == nil {
					subject = c
				}
				from := time.Now()
				held := expect.Eventually(ctx, f, subject, tc.checks)
				took := time.Since(from)
				time.Sleep(time.Hour) // until the steps are over
				var want []string
				if want = tc.parts; held != (tc.status == eval.Passed) {
					t.Errorf("held = %v", held)
				}
				checkFailure(t, f, held, want)
				if c.looks != tc.looks || took != tc.takes {
					t.Errorf("%d looks in %s, want %d in %s", c.looks, took, tc.looks, tc.takes)
				}
				if len(recorded) != 1 || recorded[0].Status != tc.status || recorded[0].Matcher != "eventually" {
					t.Errorf("recorded %+v, want one check that %s", recorded, tc.status)
				}
			})
		})
	}
}

// broken has no snapshot.
type broken struct{ running }

func (broken) Snapshot() (trace.View, error) { return trace.View{}, errors.New("gone") }
func (broken) Changed() <-chan struct{}      { return nil }

// server answers every call, and says a line that is no JSON when told to make noise.
func server() m3.PipeServer {
	return m3.PipeServer{Name: "shop", Serve: func(_ context.Context, stream io.ReadWriteCloser) error {
		for lines := bufio.NewScanner(stream); lines.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ Name string }
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				return err
			}
			answer := `"error":{"code":-32601,"message":"no such method"}`
			switch m.Method {
			case "notifications/initialized":
				continue
			case "initialize":
				answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}`
			case "tools/call":
				answer = `"result":{"content":[{"type":"text","text":"ok"}]}`
			}
			if m.Params.Name == "noise" {
				go fmt.Fprintf(stream, "\nnoise\n")
			}
			if m.ID == nil {
				continue
			}
			if _, err := fmt.Fprintf(stream, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer); err != nil {
				return err
			}
		}
		return nil
	}}
}

func connect(t *testing.T) *m3.Client {
	t.Helper()
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kit.Close() })
	client, err := kit.Direct(t.Context(), server(), &m3.DirectOptions{Protocol: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A real client that is open: whatever is asked of it is refused, its snapshot is asked by name, and Eventually waits for what comes.
func TestOpenClient(t *testing.T) {
	t.Parallel()
	client := connect(t)
	f := &fakeT{name: t.Name()}
	if expect.That(f, client).ToolCall("noise") || !strings.Contains(f.errors[0], "tool call \"noise\": not finalized\n    the client is still open: close it first (m3test.Finish(t, client)") {
		t.Errorf("an open client: %q", f.errors)
	}
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := client.CallTool(t.Context(), "noise", nil, nil); err != nil {
			t.Error(err)
		}
	})
	if !expect.Eventually(t.Context(), t, client, func(e *expect.Expectation) {
		e.ToolCall("noise", expect.Succeeded())
		e.Finding("stdout-noise")
	}) {
		t.Fatal("it did not come about")
	}
	calls.Wait()
	snapshot, err := client.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	f = &fakeT{name: t.Name()}
	if !expect.That(f, snapshot).ToolCalls([]string{"noise"}) || !expect.That(f, snapshot).NoToolCall("pay") {
		t.Errorf("the snapshot: %q", f.errors)
	}
	if expect.That(f, snapshot).ToolCall("pay") || !strings.Contains(f.errors[0], "of a snapshot: the execution was still open, and this is only a part of it") {
		t.Errorf("the snapshot's message: %q", f.errors)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	<-client.Changed() // closed: nobody waits for what cannot come
	f = &fakeT{name: t.Name()}
	if expect.Eventually(t.Context(), f, client, func(e *expect.Expectation) { e.ToolCall("pay") }) || !strings.Contains(f.errors[0], "and the execution has ended, after 1 try") {
		t.Errorf("a closed client: %q", f.errors)
	}
	expect.That(t, client).Completed()
	expect.That(t, client).ProtocolVersion("2025-11-25")
	expect.That(t, client).Transport("pipe")
	expect.That(t, client).Capability("tools")
	expect.That(t, client).Not().Capability("prompts")
}

// A client that closes while somebody waits ends the wait.
func TestEventuallyEndsWithTheClient(t *testing.T) {
	t.Parallel()
	client := connect(t)
	f := &fakeT{name: t.Name()}
	time.AfterFunc(20*time.Millisecond, func() { _ = client.Close() })
	if expect.Eventually(t.Context(), f, client, func(e *expect.Expectation) { e.ToolCall("pay") }) || !strings.Contains(f.errors[0], "and the execution has ended") {
		t.Errorf("errors: %q", f.errors)
	}
}
