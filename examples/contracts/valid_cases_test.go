package contracts

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// Many inputs, one check. Every case is a subtest: it has a name for -run, an execution of its own, and it fails alone.
func TestValidQuotes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args m3.Args
		want exampleserver.Quote
	}{
		"light":   {m3.Args{"weight_kg": 0.1}, exampleserver.Quote{Price: 4.15, Currency: "EUR", Days: 2}},
		"heavy":   {m3.Args{"weight_kg": 100}, exampleserver.Quote{Price: 154, Currency: "EUR", Days: 2}},
		"abroad":  {m3.Args{"weight_kg": 2, "country": "DE"}, exampleserver.Quote{Price: 12, Currency: "EUR", Days: 6}},
		"at home": {m3.Args{"weight_kg": 2, "country": "IN"}, exampleserver.Quote{Price: 7, Currency: "EUR", Days: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := m3test.Direct(t, shop, &m3.DirectOptions{ValidateSchemas: true})
			r, err := client.CallTool(t.Context(), "quote", tc.args, nil)
			if err != nil {
				t.Fatal(err)
			}
			expect.That(t, r).StructuredContent(tc.want)
		})
	}
}
