package driver

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/conformance"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// TestMain makes this test binary tiny, when it was started as tiny.
func TestMain(m *testing.M) {
	if os.Getenv("TINY_CONFIG") != "" {
		os.Exit(Tiny())
	}
	os.Exit(conformance.Run(m))
}

var shop = gosdk.Server("shop", exampleserver.New)

func tinyAgent(t *testing.T) *m3.Agent {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agents, err := m3test.Kit(t).Agents([]m3.Selection{{Harness: New(Config{Executable: exe})}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return agents[0]
}

// Both tapes: the call as the agent tells it is the call that passed.
func TestTurns(t *testing.T) {
	t.Parallel()
	session, err := tinyAgent(t).Session(t.Context(), &m3.SessionOptions{Server: shop})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, prompt := range []string{`shop quote {"weight_kg":2}`, `shop fail {"message":"no"}`} {
		if _, err := session.Send(t.Context(), prompt, nil); err != nil {
			t.Fatal(err)
		}
	}
	result, err := session.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, result).Completeness(trace.Complete)
	expect.That(t, result).ToolCalls([]string{"quote", "fail"})
	expect.That(t, result).ToolCall("fail", expect.ToolError())
	expect.That(t, result.Text()).Text("no")
	for _, c := range result.View().ToolCalls().All() {
		if c.Correlation != trace.Correlated || len(c.Conflicts) > 0 {
			t.Errorf("%s: %s, conflicts %+v", c.Tool.Value, c.Correlation, c.Conflicts)
		}
	}
}

// A turn that is cancelled ends, and the session goes on.
func TestCancel(t *testing.T) {
	t.Parallel()
	session, err := tinyAgent(t).Session(t.Context(), &m3.SessionOptions{Server: shop})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	turn, err := session.Send(t.Context(), "wait", &m3.SendOptions{Timeout: 200 * time.Millisecond})
	var timeout *m3.TimeoutError
	if !errors.As(err, &timeout) || turn.StopReason != "cancelled" {
		t.Errorf("%+v, %v", turn, err)
	}
	if turn, err := session.Send(t.Context(), `shop echo {"text":"still here"}`, nil); err != nil || turn.Text() != "still here" {
		t.Errorf("%q, %v", turn.Text(), err)
	}
}

// Whatever goes wrong is somebody's fault, and never a failed task.
func TestBlame(t *testing.T) {
	t.Parallel()
	result, err := tinyAgent(t).Run(t.Context(), "crash", &m3.RunOptions{Server: shop})
	if err == nil || result.Failure == nil || result.Failure.Blame != harness.BlameAgent || result.Failure.Code != "agent_crashed" {
		t.Errorf("a crash: %v", err)
	}
	agents, err := m3test.Kit(t).Agents([]m3.Selection{{Harness: New(Config{Executable: "/nonexistent/tiny"})}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	result, err = agents[0].Run(t.Context(), "hello", &m3.RunOptions{Server: shop})
	if err == nil || result.Failure == nil || result.Failure.Blame != harness.BlameHarness || result.Failure.Code != "executable_missing" {
		t.Errorf("no executable: %v", err)
	}
}
