package elicit_test

import (
	"fmt"

	"github.com/m3-go/m3/elicit"
)

func Example() {
	plan := elicit.Sequence(
		elicit.Form("address").Accept(elicit.Content{"city": "Pune"}),
		elicit.Optional(elicit.Form("note").Decline()),
		elicit.URL("checkout", elicit.Address("https://example.test/pay/123")).Accept(),
	)
	m, err := elicit.NewMatcher(plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	answers, err := m.Round([]elicit.Request{&elicit.FormRequest{RequestKey: "address", RequestedSchema: map[string]any{"type": "object"}}})
	fmt.Println(answers["address"].Action, answers["address"].Content["city"], err)
	_, err = m.Round([]elicit.Request{&elicit.URLRequest{RequestKey: "checkout", URL: "https://example.test/pay/124"}})
	fmt.Println(err)
	// Output:
	// accept Pune <nil>
	// elicit: round 2 asks for url "checkout"; the plan expects sequence[1].optional[0] form "note" (request_key, mode differ), or sequence[2] url "checkout" (url differs)
}

func ExamplePlan_Err() {
	plan := elicit.Sequence(
		elicit.Form("name").Accept(elicit.Content{"name": "Ada"}),
		elicit.OneOf(elicit.Form("address").Accept(), elicit.Form("address").Decline()),
	)
	fmt.Println(plan.Err())
	// Output:
	// elicit: sequence[1].one_of[0] form "address": Accept of a form needs a Content, which may be empty
}
