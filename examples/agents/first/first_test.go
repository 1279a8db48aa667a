package first

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/model"
)

// The server under test: a Go package here; any other program is named by Command and Args.
var shop = m3.StdioServer{Name: "shop", Build: "../../internal/exampleserver/command"}

func TestQuote(t *testing.T) {
	driver := opencode.New(opencode.Config{})
	if _, err := driver.Check(t.Context()); err != nil {
		t.Skip(err) // it says what to install
	}
	script := model.Script{ // in place of a model: no key, no cost, the same every time
		model.Call("shop:quote", m3.Args{"weight_kg": 2}),
		model.Say("It costs 7 EUR.").When(model.Result("7.00 EUR")),
	}
	agents, err := m3test.Kit(t).Agents([]m3.Selection{{Harness: driver, Models: []m3.Model{model.Scripted("script", script)}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	result, err := agents[0].Run(t.Context(), "What does a parcel of 2 kg cost?", &m3.RunOptions{Server: shop})
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, result).ToolCall("quote", expect.Succeeded(), expect.WithArguments(m3.Args{"weight_kg": 2}))
	expect.That(t, result.Text()).TextContaining("7 EUR")
}
