// Package baseline shows how to find out what a change of a server did: run its tests twice, and compare.
//
//	m3 test ./examples/baseline                                    # prints where feedback.json is; the run's id is in its path
//	SHOP=next m3 test --baseline RUN_ID ./examples/baseline
//
// The second run is of the next release, in which a tool lost an argument, its description changed, and heavy parcels got dearer. All tests pass in both: what got worse
// is what is evaluated.
package baseline

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/m3test"
)

// evaluator is the name under which verdicts are found again in the other run.
const evaluator = "shop.affordable.v1"

type quoteIn struct {
	WeightKG float64 `json:"weight_kg" jsonschema:"what the parcel weighs"`
	Express  bool    `json:"express,omitempty" jsonschema:"by tomorrow"`
}

type nextIn struct {
	WeightKG float64 `json:"weight_kg" jsonschema:"what the parcel weighs"`
}

type quoteOut struct {
	Price float64 `json:"price"`
}

// shop is the server under test, in the release that the environment names.
var shop = gosdk.Server("shop", func() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	if os.Getenv("SHOP") == "next" {
		mcp.AddTool(s, &mcp.Tool{Name: "quote", Description: "Get the price of a parcel."}, func(_ context.Context, _ *mcp.CallToolRequest, in nextIn) (*mcp.CallToolResult, quoteOut, error) {
			return nil, quoteOut{5 + 2*in.WeightKG}, nil
		})
		return s
	}
	mcp.AddTool(s, &mcp.Tool{Name: "quote", Description: "Say what a parcel costs, in EUR."}, func(_ context.Context, _ *mcp.CallToolRequest, in quoteIn) (*mcp.CallToolResult, quoteOut, error) {
		return nil, quoteOut{5 + in.WeightKG}, nil
	})
	return s
})

func TestQuotes(t *testing.T) {
	for weight := 1; weight <= 10; weight++ {
		t.Run(fmt.Sprintf("%d_kg", weight), func(t *testing.T) {
			kit := m3test.Kit(t)
			if err := kit.RegisterEvaluator(evaluator, affordable); err != nil {
				t.Fatal(err)
			}
			client := m3test.Direct(t, shop, nil)
			if _, err := client.ListAllTools(t.Context(), nil); err != nil { // a run knows the tools that were listed in it
				t.Fatal(err)
			}
			r, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": weight}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			expect.That(t, client).ToolCall("quote", expect.WithArguments(m3.Args{"weight_kg": weight}))
			if _, err := kit.Evaluate(t.Context(), r.StructuredContent, evaluator, &m3.EvaluateOptions{Execution: client.ExecutionID()}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// affordable passes when the price is at most 15 EUR.
func affordable(_ context.Context, e eval.Context) (eval.Decision, error) {
	var quote quoteOut
	if err := e.Subject.Decode(&quote); err != nil {
		return eval.Decision{}, err
	}
	return eval.PassIf(quote.Price <= 15, fmt.Sprintf("%.2f EUR", quote.Price)), nil
}
