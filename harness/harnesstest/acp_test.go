package harnesstest_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/harness/harnesstest"
)

func TestMain(m *testing.M) {
	if acpagent.Active() {
		os.Exit(acpagent.Main())
	}
	os.Exit(m.Run())
}

// scripted is the scripted ACP agent; change may spoil what it does.
func scripted(change func(*acpagent.Step)) func([][]harnesstest.Step) harness.Driver {
	return func(turns [][]harnesstest.Step) harness.Driver {
		script := &acpagent.Script{}
		for _, turn := range turns {
			var steps []acpagent.Step
			for _, s := range turn {
				step := translate(s)
				if change != nil {
					change(&step)
				}
				steps = append(steps, step)
			}
			script.Turns = append(script.Turns, steps)
		}
		return acp.New(acpagent.Config("", script))
	}
}

func translate(s harnesstest.Step) acpagent.Step {
	switch {
	case s.Tool != "":
		c := &acpagent.Call{Server: "suite", Tool: s.Tool, Ask: s.Ask}
		if s.Args != nil {
			c.Arguments, _ = json.Marshal(s.Args) // of strings and numbers
		}
		return acpagent.Step{Call: c}
	case s.Hang:
		return acpagent.Step{Hang: "cancel"}
	}
	return acpagent.Step{Say: s.Say}
}

// TestACP: the scripted agent skips nothing.
func TestACP(t *testing.T) {
	t.Parallel()
	harnesstest.Run(t, harnesstest.Config{Name: "acp", Driver: scripted(nil)})
}
