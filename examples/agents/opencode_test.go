package agents

import (
	"os"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/model"
)

// openCode selects the real OpenCode, or skips the test where it is not installed.
func openCode(t *testing.T, m m3.Model) m3.Selection {
	t.Helper()
	driver := opencode.New(opencode.Config{})
	if _, err := driver.Check(t.Context()); err != nil {
		t.Skipf("%v; then run this test again", err)
	}
	return m3.Selection{Harness: driver, Models: []m3.Model{m}}
}

// The agent is the real program, the server is the real one, and the model is a list of answers: no key, no cost, and the same every time.
func TestOpenCodeScripted(t *testing.T) {
	t.Parallel()
	script := model.Script{
		model.Think("The price depends on the weight.").Call("shop:quote", m3.Args{"weight_kg": 2}).When(model.Text("2 kg"), model.OffersOnly("shop:quote")),
		model.Say("It costs 7 EUR.").When(model.Result("7.00 EUR")),
	}
	result, err := agent(t, openCode(t, model.Scripted("script", script))).Run(t.Context(), "What does a parcel of 2 kg cost?",
		&m3.RunOptions{Server: shop, Tools: m3.OnlyTools("shop:quote"), Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, result).ToolCalls([]string{"quote"})
	expect.That(t, result).ToolCall("quote", expect.Succeeded(), expect.WithArguments(m3.Args{"weight_kg": 2}))
	expect.That(t, result.Text()).Text("It costs 7 EUR.")
	// The third tape: what the agent asked the model.
	turns := 0
	for _, x := range result.View().Provider().All() {
		if x.Category == "turn" {
			turns++
		}
	}
	if turns != 2 {
		t.Errorf("the model was asked %d times for an answer, want 2", turns)
	}
}

// live is the variable that lets TestOpenCodeLive spend money. It names the model: M3_EXAMPLE_LIVE=anthropic/claude-haiku-4-5, with ANTHROPIC_API_KEY set.
const live = "M3_EXAMPLE_LIVE"

// The same with a real model. What it says differs from run to run, so that a test asks for what must be so: which tool was called, with what, and at what cost.
func TestOpenCodeLive(t *testing.T) {
	t.Parallel()
	name := os.Getenv(live)
	if name == "" {
		t.Skipf("this test asks a real model and costs money: set %s to a model of Anthropic's as OpenCode names it (anthropic/claude-haiku-4-5), and ANTHROPIC_API_KEY, and run it again", live)
	}
	selection := openCode(t, m3.ModelName(name))
	selection.CredentialEnv = map[string]string{"ANTHROPIC_API_KEY": "ANTHROPIC_API_KEY"} // by reference: what the agent expects, and where it comes from
	result, err := agent(t, selection).Run(t.Context(), "What does it cost to send a parcel of 2 kg? Use the tool, and answer in one sentence.",
		&m3.RunOptions{Server: shop, Tools: m3.OnlyTools("shop:quote"), Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, result).ToolCall("quote", expect.Succeeded(), expect.WithArguments(m3.Args{"weight_kg": 2}, expect.Partial()))
	expect.That(t, result.Text()).TextContaining("7")
	if wrong := overBudget(result.View(), budget); wrong != "" {
		t.Error(wrong)
	}
}
