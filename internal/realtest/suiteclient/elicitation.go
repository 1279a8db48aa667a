package main

import (
	"context"
	"errors"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
)

// The scenarios in which the server asks for input.

func elicitsForms(o *m3.DirectOptions) { o.Elicitation = m3.ElicitForm }

// answerWithDefaults accepts a form as it stands. m3 fills in no default by itself: a plan says what goes out. So the plan holds those of the suite's form.
func answerWithDefaults(ctx context.Context, c *m3.Client, _ *job) error {
	if _, err := usableTools(ctx, c); err != nil {
		return err
	}
	form := elicit.Form("defaults").Accept(elicit.Content{"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true})
	return call(ctx, c, "test_client_elicitation_defaults", nil, &m3.CallOptions{Elicitation: form})
}

// continueCalls answers input_required by a plan and by hand, and does something else between the rounds.
func continueCalls(ctx context.Context, c *m3.Client, _ *job) error {
	if _, err := usableTools(ctx, c); err != nil {
		return err
	}
	confirm := elicit.Form("confirm").Accept(elicit.Content{"confirmed": true})
	return errors.Join(call(ctx, c, "test_mrtr_no_state", nil, &m3.CallOptions{Elicitation: confirm}), continueByHand(ctx, c),
		call(ctx, c, "test_mrtr_no_result_type", nil, nil))
}

func continueByHand(ctx context.Context, c *m3.Client) error {
	first, err := c.CallTool(ctx, "test_mrtr_echo_state", nil, &m3.CallOptions{AllowInputRequired: true})
	if err != nil {
		return err
	}
	if first.InputRequired == nil || first.InputRequired.Requests["confirm"] == nil {
		return errors.New("test_mrtr_echo_state does not ask for confirm")
	}
	if err := call(ctx, c, "test_mrtr_unrelated", nil, nil); err != nil {
		return err
	}
	return call(ctx, c, "test_mrtr_echo_state", nil, &m3.CallOptions{RequestState: first.InputRequired.RequestState,
		InputResponses: map[string]elicit.Response{"confirm": elicit.Accept(elicit.Content{"confirmed": true})}})
}
