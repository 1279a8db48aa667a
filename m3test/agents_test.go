package m3test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
)

// echoDriver is an agent in this process that repeats what it is told.
type echoDriver struct{}

func (echoDriver) Kind() string { return "echo" }
func (echoDriver) Capabilities() harness.Capabilities {
	return harness.Capabilities{HTTPServers: true, Cancel: true, Dialects: []harness.Dialect{harness.OpenAIChat}}
}
func (echoDriver) Check(context.Context) (harness.Installation, error) {
	return harness.Installation{Version: "1"}, nil
}
func (echoDriver) Open(context.Context, *harness.Spec, harness.Host) (harness.Session, error) {
	return echoDriver{}, nil
}
func (echoDriver) Close(context.Context) error { return nil }
func (echoDriver) Send(ctx context.Context, p *harness.Prompt) (*harness.Turn, error) {
	if p.Text == "wait" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &harness.Turn{Text: p.Text}, nil
}

// unmetModel is a model whose script nobody asks for.
type unmetModel struct{}

func (unmetModel) ModelName() string { return "scripted" }
func (unmetModel) Provide(context.Context, *harness.Provision) (harness.Provider, error) {
	return unmetModel{}, nil
}
func (unmetModel) Endpoint() harness.ModelEndpoint {
	return harness.ModelEndpoint{Dialect: harness.OpenAIChat}
}
func (unmetModel) Finish(context.Context) error {
	return errors.New("step 1 (say) was never asked for")
}

// runEcho runs one action with the test's kit.
func runEcho(t *testing.T, p *process, f *fakeT, text string, models ...m3.Model) (*m3.Result, error) {
	t.Helper()
	agents, err := p.kit(f).Agents([]m3.Selection{{Harness: echoDriver{}, Models: models}}, 1)
	if err != nil {
		t.Error(err)
		return nil, err
	}
	return agents[0].Run(t.Context(), text, &m3.RunOptions{Server: m3.HandlerServer{Name: "none", Handler: http.NotFoundHandler()}, Tools: m3.NoTools})
}

// TestExecutionTimeout: what the flag or the variable says is the deadline of actions that name none.
func TestExecutionTimeout(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{timeout: newTimeoutFlag("0.2")})
	began := time.Now()
	f := run(t, "TestA", func(f *fakeT) {
		res, err := runEcho(t, p, f, "wait")
		var timeout *m3.TimeoutError
		if !errors.As(err, &timeout) || res == nil || res.Failure.Code != "agent_timeout" {
			t.Errorf("%v %v", res, err)
		}
	})
	if f.failed || time.Since(began) > 30*time.Second {
		t.Errorf("failed %v: %q", f.failed, f.messages)
	}
	wrong := newProcess(settings{timeout: newTimeoutFlag("soon")})
	f = run(t, "TestB", func(f *fakeT) { wrong.kit(f) })
	if !f.failed || !f.says("M3_EXECUTION_TIMEOUT", "soon", "positive number of seconds") {
		t.Errorf("a wrong variable: %q", f.messages)
	}
	var flag timeoutFlag
	if err := flag.Set("90s"); err != nil || flag.d != 90*time.Second || flag.String() != "90s" {
		t.Errorf("the flag is %v, %v", flag, err)
	}
	if flag.Set("") == nil || flag.Set("-1") == nil || flag.d != 90*time.Second {
		t.Errorf("a wrong flag changes it to %v", flag)
	}
	if os.Getenv("M3_EXECUTION_TIMEOUT") != "" {
		t.Error("the variable is still in the environment")
	}
}

// TestUnmetScript: a step that the agent never asked for fails the test, also one that does not look.
func TestUnmetScript(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{})
	f := run(t, "TestA", func(f *fakeT) {
		res, err := runEcho(t, p, f, "hello", unmetModel{})
		if err == nil || res.Failure == nil || res.Failure.Code != "script_unmet" || res.Text() != "hello" {
			t.Errorf("%v %v", res, err)
		}
	})
	if !f.failed || len(f.messages) != 1 || !f.says("step 1 (say) was never asked for") {
		t.Errorf("failed %v: %q", f.failed, f.messages)
	}
	// A session that only the clean-up closes tells it as well, once.
	f = run(t, "TestB", func(f *fakeT) {
		agents, err := p.kit(f).Agents([]m3.Selection{{Harness: echoDriver{}, Models: []m3.Model{unmetModel{}}}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agents[0].Session(t.Context(), &m3.SessionOptions{Server: m3.HandlerServer{Name: "none", Handler: http.NotFoundHandler()}, Tools: m3.NoTools}); err != nil {
			t.Error(err)
		}
	})
	if !f.failed || len(f.messages) != 1 || !f.says("step 1") {
		t.Errorf("failed %v: %q", f.failed, f.messages)
	}
}
