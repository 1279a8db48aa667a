// Command program compares agents without any test runner: it gives one case to every agent that is selected, and prints a table of what the store has of it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"text/tabwriter"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
)

// caseID names the scenario, the same for every agent, so that what belongs together is found again.
const caseID = "price-of-2kg"

func main() {
	if acpagent.Active() { // started by itself, as the scripted agent
		os.Exit(acpagent.Main())
	}
	log.SetFlags(0)
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// selections are the agents to compare. In place of these two, which follow a script, stand yours: opencode.New(opencode.Config{}) with some models.
func selections() []m3.Selection {
	asks := acpagent.Step{Call: &acpagent.Call{Server: "shop", Tool: "quote", Arguments: json.RawMessage(`{"weight_kg":2}`)}}
	return []m3.Selection{
		{Name: "careful", Harness: scripted(asks, acpagent.Step{Say: "{{result}}"})},
		{Name: "hasty", Harness: scripted(acpagent.Step{Say: "About 10 EUR, I guess."})},
	}
}

func scripted(steps ...acpagent.Step) harness.Driver {
	return acp.New(acpagent.Config("", &acpagent.Script{Turns: [][]acpagent.Step{steps}}))
}

func run(ctx context.Context, out io.Writer) (err error) {
	history := memory.New(nil)
	kit, err := m3.New(m3.Config{Store: history})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kit.Close()) }()
	agents, err := kit.Agents(selections(), 2) // two trials each; nothing is started yet
	if err != nil {
		return err
	}
	if err := ask(ctx, agents); err != nil {
		return err
	}
	return table(ctx, out, history)
}

// ask gives all agents the case, at the same time, and waits for them. What an agent made of it is in the store; an error is what kept it from ending its turn.
func ask(ctx context.Context, agents []*m3.Agent) error {
	shop := gosdk.Server("shop", exampleserver.New) // each execution has a server of its own
	handles := make([]*m3.Handle, 0, len(agents))
	for _, a := range agents {
		h, err := a.Submit(ctx, "What does a parcel of 2 kg cost?", &m3.RunOptions{Server: shop, Case: caseID})
		if err != nil {
			return err
		}
		handles = append(handles, h)
	}
	var failed error
	for i, h := range handles {
		if _, err := h.Result(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s, trial %d: %w", agents[i].Name(), agents[i].Trial(), err))
		}
	}
	return failed
}

// table prints what the store has of the case.
func table(ctx context.Context, out io.Writer, history store.Reader) error {
	executions, err := history.Executions(ctx, &store.ExecutionQuery{Case: caseID})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tTRIAL\tOUTCOME\tCALLS\tANSWER")
	for _, x := range executions {
		var spec struct {
			Name  string
			Trial int
		}
		if err := x.Spec.Decode(&spec); err != nil {
			return err
		}
		recorded, err := history.Trace(ctx, x.ID)
		if err != nil {
			return err
		}
		view, err := recorded.View()
		if err != nil {
			return err
		}
		messages := view.Messages()
		answer := messages.At(messages.Len() - 1).Content[0].Text
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\n", spec.Name, spec.Trial, view.Outcome(), view.ToolCalls().Len(), answer)
	}
	return w.Flush()
}
