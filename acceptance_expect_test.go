package m3_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
)

// verdicts is a test that only listens.
type verdicts struct {
	name   string
	errors []string
}

func (v *verdicts) Helper()      {}
func (v *verdicts) Name() string { return v.name }
func (v *verdicts) FailNow()     {}
func (v *verdicts) Errorf(format string, args ...any) {
	v.errors = append(v.errors, fmt.Sprintf(format, args...))
}

// C59: an expectation about an open execution fails and says why, whether what it asks for has happened, has not, or must not.
func TestOpenExecutionFailsEveryExpectation(t *testing.T) {
	t.Parallel()
	client := connect(t, newKit(t, m3.Config{}), scripted, &m3.DirectOptions{Protocol: "2025-11-25"})
	if _, err := client.CallTool(t.Context(), "echo", nil, nil); err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func(e *expect.Expectation) bool{
		"happened":       func(e *expect.Expectation) bool { return e.ToolCall("echo", expect.Succeeded()) },
		"has not":        func(e *expect.Expectation) bool { return e.ToolCall("fail") },
		"must not":       func(e *expect.Expectation) bool { return e.ToolCall("fail", expect.Times(0)) },
		"exactly so far": func(e *expect.Expectation) bool { return e.ToolCall("echo", expect.Times(1)) },
	} {
		v := &verdicts{name: t.Name() + "/" + name}
		if check(expect.That(v, client)) || len(v.errors) != 1 || !strings.Contains(v.errors[0], "still open") {
			t.Errorf("%s: %q", name, v.errors)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	v := &verdicts{name: t.Name()}
	if !expect.That(v, client).ToolCall("echo", expect.Succeeded(), expect.Times(1)) {
		t.Errorf("the closed client: %q", v.errors)
	}
}
