package elicitation

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/m3test"
)

// By hand a test sees what the server asks, and may answer what no plan would: the wrong state, the wrong key, no answer at all.
func TestManualContinuation(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: "2026-07-28"})
	args := m3.Args{"gift": false}
	pending, err := client.CallTool(t.Context(), "book_order", args, &m3.CallOptions{AllowInputRequired: true})
	if err != nil {
		t.Fatal(err)
	}
	in := pending.InputRequired
	if in == nil {
		t.Fatal("the server does not ask")
	}
	form, ok := in.Requests["address"].(*elicit.FormRequest)
	if !ok || form.Message != "Where should we deliver?" || in.RequestState == nil {
		t.Fatalf("%+v", in)
	}
	again, err := client.CallTool(t.Context(), "book_order", args, &m3.CallOptions{
		AllowInputRequired: true,
		RequestState:       in.RequestState,
		InputResponses:     map[string]elicit.Response{"address": elicit.Accept(elicit.Content{"city": "Pune"})},
	})
	if err != nil {
		t.Fatal(err)
	}
	if again.InputRequired == nil || len(again.InputRequired.Requests) != 2 {
		t.Fatalf("%+v", again.InputRequired)
	}
	done, err := client.CallTool(t.Context(), "book_order", args, &m3.CallOptions{
		RequestState:   again.InputRequired.RequestState,
		InputResponses: map[string]elicit.Response{"checkout": elicit.Accept(nil), "unknown": elicit.Cancel()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if done.Text() != "ordered with 2 answers in the last round" {
		t.Errorf("text %q", done.Text())
	}
}

// A call without a plan fails when the server asks: nothing is answered by chance.
func TestUnexpectedElicitation(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shipping, &m3.DirectOptions{Protocol: "2026-07-28"})
	_, err := client.CallTool(t.Context(), "book_shipment", nil, nil)
	var unexpected *elicit.ExpectationError
	if !errors.As(err, &unexpected) || unexpected.Details["request_key"] != "address" {
		t.Errorf("%v", err)
	}
}

// Completions and roots that a server asks for in its rounds are answered by what the client was given: a function, a script, a list. The plan is for
// the rest.
func TestSamplingAndRootsInsideRounds(t *testing.T) {
	t.Parallel()
	plan := elicit.Form("address").Accept(elicit.Content{"city": "Pune"})
	byFunction := &m3.DirectOptions{Protocol: "2026-07-28", Roots: m3.Roots("file:///workspace"),
		Sampling: func(_ context.Context, r *m3.SamplingRequest) (*m3.SamplingResult, error) {
			return &m3.SamplingResult{Text: strings.ToUpper(r.Messages[0].Content[0].Text)}, nil
		}}
	byScript := &m3.DirectOptions{Protocol: "2026-07-28", Roots: m3.Roots("file:///workspace"),
		SamplingScript: []m3.SamplingResult{{Text: "We deliver."}}} // one that is not used up, or not enough, fails the test
	for want, opts := range map[string]*m3.DirectOptions{"A SLOGAN, PLEASE. in file:///workspace": byFunction, "We deliver. in file:///workspace": byScript} {
		client := m3test.Direct(t, shipping, opts)
		res, err := client.CallTool(t.Context(), "describe", nil, &m3.CallOptions{Elicitation: plan})
		if err != nil {
			t.Fatal(err)
		}
		if res.Text() != want {
			t.Errorf("text %q, want %q", res.Text(), want)
		}
		view := m3test.Finish(t, client)
		if n := view.Elicitations().Len(); n != 1 || view.Elicitations().At(0).RoundIndex != 2 {
			t.Errorf("%d elicitations; the round without one counts too", n)
		}
	}
}
