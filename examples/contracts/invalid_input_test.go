package contracts

import (
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// With ValidateSchemas a mistake in the arguments is found on this side, and nothing is sent.
func TestInvalidInputIsNotSent(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, &m3.DirectOptions{ValidateSchemas: true})
	_, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": "two"}, nil)
	var invalid *m3.ValidationError
	if !errors.As(err, &invalid) || invalid.Details["kind"] != "invalid_arguments" {
		t.Fatalf("the call ended with %v, want a *m3.ValidationError about its arguments", err)
	}
	expect.That(t, m3test.Finish(t, client)).ToolCall("quote", expect.Times(0))
}

// Without it the arguments go out as they are: this is how to test what the server itself says of them.
func TestServerRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	r, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": "two"}, nil)
	var protocol *m3.ProtocolError
	switch {
	case errors.As(err, &protocol): // a JSON-RPC error, or
	case err == nil && r.IsError: // a result with isError: the protocol allows both
	default:
		t.Fatalf("the server accepted a text for a number: %+v, %v", r, err)
	}
	expect.That(t, m3test.Finish(t, client)).ToolCall("quote", expect.Failed(), expect.WithArguments(m3.Args{"weight_kg": "two"}))
}

// What a schema cannot say is the tool's own to refuse.
func TestToolRefusesImpossibleInput(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, &m3.DirectOptions{ValidateSchemas: true})
	r, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 101}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.IsError {
		t.Error("101 kg were accepted")
	}
	expect.That(t, r).TextContaining("at most 100")
}
