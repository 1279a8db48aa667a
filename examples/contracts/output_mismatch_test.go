package contracts

import (
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// bad_output says in its schema that the price is a number, and answers with a text.
func TestOutputMismatch(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, &m3.DirectOptions{ValidateSchemas: true})
	_, err := client.CallTool(t.Context(), "bad_output", m3.Args{}, nil)
	var invalid *m3.ValidationError
	if !errors.As(err, &invalid) || invalid.Details["kind"] != "invalid_result" {
		t.Fatalf("the call ended with %v, want a *m3.ValidationError about its result", err)
	}
	// The call itself succeeded: what the server sent is in the trace, as it was.
	expect.That(t, m3test.Finish(t, client)).ToolCall("bad_output", expect.Succeeded(), expect.ResultStructured(m3.Args{"price": "four"}))
}

// Validation is asked for: without it the result is what it is.
func TestOutputIsNotValidatedUnasked(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	r, err := client.CallTool(t.Context(), "bad_output", m3.Args{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, r).StructuredContent(m3.Args{"price": "four"})
}
