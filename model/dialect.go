package model

import (
	"github.com/m3-go/m3/harness"
)

// dialect is one protocol between an agent and its model.
type dialect interface {
	kind() harness.Dialect
	// path is that of requests for an answer, without /v1.
	path() string
	// parse reads such a request. An error is a body that is not one.
	parse(body []byte) (*request, error)
	// whole is the answer as it is sent without a stream.
	whole(a *answer) any
	// frames are the events of a stream, up to yield's false.
	frames(a *answer, yield func(frame) bool)
	// fill completes an error with what the provider says with a status; body is the body of an HTTP error.
	fill(status int, f Failure) Failure
	body(f Failure, id string) any
	// failed is the event of an error within a stream, after a number of events.
	failed(a *answer, f Failure, after int) frame
	// broken is an event that is not one.
	broken() string
	// callID is the id of a call of an answer.
	callID(answer string, i int) string
	// requestID is the header with the id of a request.
	requestID() string
	// models is the list of models.
	models(name string) any
}

var dialects = []dialect{responses{}, chat{}, messages{}}

// object is a JSON object. Its members are written in the order of their names.
type object = map[string]any

// createdAt is the time that answers say they were made: a script has no clock.
const createdAt = 1_700_000_000

// openAI is what both protocols of OpenAI share.
type openAI struct{}

func (openAI) fill(status int, f Failure) Failure { return openAIError(status, f) }

func (openAI) body(f Failure, _ string) any {
	return object{"error": object{"message": f.Message, "type": f.Type, "param": nil, "code": orNull(f.Code)}}
}

func (openAI) requestID() string { return "x-request-id" }

func (openAI) models(name string) any {
	return object{"object": "list", "data": []any{object{"id": name, "object": "model", "created": createdAt, "owned_by": "m3"}}}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
