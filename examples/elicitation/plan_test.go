package elicitation

import (
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// A plan says what the server will ask, and answers. One test serves every protocol: before 2026-07-28 the client must have declared what it can answer.
func TestFormOnATool(t *testing.T) {
	t.Parallel()
	plan := elicit.Form("address", elicit.Message("Where should we deliver?")).Accept(elicit.Content{"city": "Pune"})
	for _, protocol := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: protocol, Elicitation: m3.ElicitForm})
			res, err := client.CallTool(t.Context(), "book_shipment", m3.Args{"weight_kg": 2}, &m3.CallOptions{Elicitation: plan})
			if err != nil {
				t.Fatal(err)
			}
			if res.Text() != "booked to Pune" {
				t.Errorf("text %q", res.Text())
			}
			view := m3test.Finish(t, client)
			expect.That(t, view).ToolCall("book_shipment", expect.Succeeded())
			if view.Elicitations().Len() != 1 {
				t.Fatalf("%d elicitations", view.Elicitations().Len())
			}
			e := view.Elicitations().At(0)
			if e.RequestKey != "address" || e.Mode != "form" || e.Action != elicit.ActionAccept || e.RoundIndex != 1 || e.OperationName != "book_shipment" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// A URL is compared and accepted. It is never opened.
func TestURLOnAPrompt(t *testing.T) {
	t.Parallel()
	plan := elicit.URL("checkout", elicit.Address("https://example.test/pay/123")).Accept()
	client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: "2026-07-28"})
	prompt, err := client.GetPrompt(t.Context(), "checkout", nil, &m3.CallOptions{Elicitation: plan})
	if err != nil {
		t.Fatal(err)
	}
	if got := prompt.Messages[0].Content.Text; got != "checkout: accept" {
		t.Errorf("text %q", got)
	}
	e := m3test.Finish(t, client).Elicitations().At(0)
	if e.OperationKind != trace.OperationPrompt || e.URL.Value != "https://example.test/pay/123" {
		t.Errorf("%+v", e)
	}
}

// Reading a resource may ask too. The trace shows one exchange with two attempts.
func TestElicitationOnAResource(t *testing.T) {
	t.Parallel()
	plan := elicit.Form("address").Accept(elicit.Content{"city": "Pune"})
	client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: "2026-07-28"})
	label, err := client.ReadResource(t.Context(), "shipping://label", &m3.CallOptions{Elicitation: plan})
	if err != nil {
		t.Fatal(err)
	}
	if label.Text() != "to Pune" {
		t.Errorf("text %q", label.Text())
	}
	for _, p := range m3test.Finish(t, client).Protocol().All() {
		if p.OperationKind != trace.OperationResource {
			continue
		}
		if len(p.Attempts) != 2 || !p.Attempts[0].InputRequired || p.Attempts[0].ContinuationState.Value != "label" || p.Attempts[1].RequestState.Value != "label" {
			t.Errorf("attempts %+v", p.Attempts)
		}
	}
}

// A composed plan follows the server whichever way it goes; what it requires and the server does not ask fails the call.
func TestComposedPlan(t *testing.T) {
	t.Parallel()
	plan := elicit.Sequence(
		elicit.Form("address").Accept(elicit.Content{"city": "Pune"}),
		elicit.Optional(elicit.Form("note").Accept(elicit.Content{"note": "Reception"})),
		elicit.Round( // one round that asks for both, in any order
			elicit.URL("checkout").Accept(),
			elicit.Form("terms").Accept(elicit.Content{}),
		),
	)
	client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: "2026-07-28"})
	for gift, attempts := range map[bool]int{false: 3, true: 4} {
		res, err := client.CallTool(t.Context(), "book_order", m3.Args{"gift": gift}, &m3.CallOptions{Elicitation: plan})
		if err != nil {
			t.Fatal(err)
		}
		if res.Text() != "ordered with 2 answers in the last round" {
			t.Errorf("text %q", res.Text())
		}
		view, err := client.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		calls := view.ToolCalls()
		if call := calls.At(calls.Len() - 1); len(call.Attempts) != attempts {
			t.Errorf("gift %v: %d attempts, want %d", gift, len(call.Attempts), attempts)
		}
	}
	_, err := client.CallTool(t.Context(), "book_shipment", nil, &m3.CallOptions{Elicitation: plan})
	var unused *elicit.ExpectationError
	if !errors.As(err, &unused) || unused.Details["reason"] != "incomplete" {
		t.Errorf("a plan that was not used up: %v", err)
	}
}

// Declining and cancelling are answers like any other, and may carry _meta. The tool decides what they mean.
func TestDeclineAndCancel(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: "2026-07-28"})
	for want, plan := range map[string]*elicit.Plan{
		"not booked: decline too far": elicit.Form("address").Decline(elicit.Meta{"reason": "too far"}),
		"not booked: cancel timeout":  elicit.Form("address").Cancel(elicit.Meta{"reason": "timeout"}),
	} {
		res, err := client.CallTool(t.Context(), "book_shipment", nil, &m3.CallOptions{Elicitation: plan})
		if err != nil {
			t.Fatal(err)
		}
		if res.IsError || res.Text() != want {
			t.Errorf("text %q, want %q", res.Text(), want)
		}
	}
}

// A server that never stops asking is stopped: so many rounds are answered, 10 when nothing is said.
func TestRoundLimit(t *testing.T) {
	t.Parallel()
	again := elicit.MaybeForm("address").Accept(elicit.Content{"city": "Pune"})
	client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: "2026-07-28"})
	_, err := client.CallTool(t.Context(), "ask_forever", nil, &m3.CallOptions{Elicitation: elicit.Sequence(again, again, again), RoundLimit: 2})
	var limit *elicit.RoundLimitError
	if !errors.As(err, &limit) || !limit.Terminal() || limit.Details["rounds"] != 3 {
		t.Errorf("%v", err)
	}
}
