// Package elicit says how a test answers a server that asks for input during a call.
//
// It is for test authors. A [Plan] states what a server will ask and what the answer is; the call that the plan is attached to
// answers by it, and fails when the server asks for anything else, or does not ask for what the plan requires:
//
//	plan := elicit.Sequence(
//		elicit.Form("address", elicit.Message("Where to?")).Accept(elicit.Content{"city": "Pune"}),
//		elicit.Optional(elicit.Form("note").Accept(elicit.Content{"note": "Reception"})),
//		elicit.URL("checkout", elicit.Address("https://example.test/pay/123")).Accept(),
//	)
//	res, err := client.CallTool(ctx, "book_shipment", args, &m3.CallOptions{Elicitation: plan})
//
// # Building a plan
//
//	leaf      Form, URL             one request, exactly once        needs an answer: Accept, Decline or Cancel
//	          MaybeForm, MaybeURL   the same request, or none
//	composite Sequence(a, b, …)     one after the other
//	          Optional(a)           a, or nothing
//	          OneOf(a, b, …)        exactly one of them
//	          Round(a, b, …)        all of them in one round, in any order
//
// A round is what a server asks for at once. A leaf matches a round of one request; a round of several is matched by [Round] alone. A
// leaf compares the key, the kind, and what its options name; what they do not name may be anything. A URL is compared and
// never opened.
//
// A plan never changes: every method returns a new one, and what goes in or comes out is a copy. So one plan serves any number of
// calls at once. What is wrong with a plan is one [*PlanError], from [Plan.Err] and from whatever the plan is attached to;
// nothing here panics.
//
// # Numbers
//
// Content, schemas and metadata are JSON. What a plan gives back has its numbers as [encoding/json.Number], exactly as they were written.
// Where values are compared, 1, 1.0 and 10e-1 are one number, however large, and no number is a boolean.
//
// # Matching
//
// A [Matcher] follows one call through its plan. It keeps every way in which the plan explains the rounds so far. A round that no
// way explains is an [*ExpectationError], and so is one that two ways answer differently: nothing is sent then, and the error names the
// branches by their path, such as sequence[1].one_of[0] form "address".
package elicit
