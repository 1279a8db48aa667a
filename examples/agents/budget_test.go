package agents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/trace"
)

// budget is what one execution may cost, in the currency that agents report: US dollars.
const budget = 0.05

// overBudget reads the cost from the finalized trace, and says what is wrong with it; empty: nothing. A cost that was not reported is not a cost of zero.
func overBudget(view trace.View, most float64) string {
	usage := view.Summary().Usage
	cost := usage.Value.Cost
	switch {
	case !usage.OK() || !cost.OK():
		return "the agent did not report what the execution cost"
	case cost.Value > most:
		return fmt.Sprintf("the execution cost %g %s, and its budget is %g", cost.Value, usage.Value.Currency.Value, most)
	}
	return ""
}

// The check itself is tested with an agent that only says what it cost.
func TestBudget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		steps []acpagent.Step
		want  string
	}{
		"within":       {[]acpagent.Step{{Cost: 0.02}, {Say: "Done."}}, ""},
		"over":         {[]acpagent.Step{{Cost: 0.07}, {Say: "Done."}}, "cost 0.07 USD"},
		"not reported": {[]acpagent.Step{{Say: "Done."}}, "did not report"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := agent(t, scripted(tc.steps)).Run(t.Context(), "Spend something.", &m3.RunOptions{Server: gosdk.Server("shop", exampleserver.New)})
			if err != nil {
				t.Fatal(err)
			}
			if got := overBudget(result.View(), budget); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
