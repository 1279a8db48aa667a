// Package assertions shows what can be expected of results, errors and executions. docs/matchers.md has every matcher.
package assertions

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// A result in hand: its text, its blocks, and its structured content, exactly or as loosely as it matters.
func TestResult(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	quote, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil)
	expect.Require(t, err).Not().Error()

	expect.That(t, quote).Not().Error()
	expect.That(t, quote).Text("7.00 EUR in 2 days")
	expect.That(t, quote).TextMatching(`^\d+\.\d{2} [A-Z]{3} in`)
	expect.That(t, quote).Not().TextContaining("USD")
	expect.That(t, quote).Content([]m3.Content{{Type: "text", Text: "7.00 EUR in 2 days"}})

	expect.That(t, quote).StructuredContent(exampleserver.Quote{Price: 7, Currency: "EUR", Days: 2})
	expect.That(t, quote).StructuredContent(m3.Args{"price": 6.99}, expect.Partial(), expect.Tolerance(0.01))
	expect.That(t, quote).StructuredContent(m3.Args{"currency": "[A-Z]{3}"}, expect.Partial(), expect.Regex())
	expect.That(t, quote).StructuredContent(expect.Satisfying(func(q exampleserver.Quote) bool { return q.Price > 0 && q.Days < 7 }))
}

// Lists, prompts and resources are results too.
func TestOtherResults(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	prompts, err := client.ListPrompts(t.Context(), nil)
	expect.Require(t, err).Not().Error()
	expect.That(t, prompts).StructuredContent(m3.Args{"prompts": []m3.Args{{"name": "confirm_order"}}}, expect.Partial())

	templates, err := client.ListAllResourceTemplates(t.Context(), nil)
	expect.Require(t, err).Not().Error()
	expect.That(t, templates).StructuredContent([]m3.Args{{"uriTemplate": "shop://items/{id}", "name": "item"}}, expect.Partial(), expect.Unordered())

	prompt, err := client.GetPrompt(t.Context(), "confirm_order", map[string]string{"order_id": "order-1"}, nil)
	expect.Require(t, err).Not().Error()
	expect.That(t, prompt).Text("Confirm order order-1 in a friendly tone.")

	catalog, err := client.ReadResource(t.Context(), "shop://catalog", nil)
	expect.Require(t, err).Not().Error()
	expect.That(t, catalog).TextContaining("parcel\npallet")
}

// What fails, fails in one of two ways: the tool says so in its result, or the call has no result.
func TestErrors(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	sorry, err := client.CallTool(t.Context(), "fail", m3.Args{"message": "out of stock"}, nil)
	expect.Require(t, err).Not().Error()
	expect.That(t, sorry).Error(expect.ErrorCode("tool_error"), expect.ErrorContaining("out of stock"))

	_, err = client.ReadResource(t.Context(), "shop://items/elephant", nil)
	expect.That(t, err).Error(expect.ErrorCode("protocol_error"))
	_, err = client.ReadResource(t.Context(), "", nil)
	expect.That(t, err).Error(expect.ErrorIs(m3.ErrValidation))
}
