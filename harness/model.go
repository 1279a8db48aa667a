package harness

import (
	"context"
	"time"

	"github.com/m3-go/m3/trace"
)

// Model is what a selection says of the model: m3.ModelName("gpt-5.6-sol"), or one that brings its own provider (model.Scripted).
type Model interface {
	// ModelName is the name that the agent is given, and by which results are grouped.
	ModelName() string
}

// ProvidedModel is a [Model] with a provider of its own. The kit provides it anew for each execution, so that executions never share a script's progress.
type ProvidedModel interface {
	Model
	// Provide opens a provider for one execution on loopback, in one of the dialects that the agent speaks. ctx bounds the opening.
	Provide(ctx context.Context, p *Provision) (Provider, error)
}

// Provision is what a provider is opened for.
type Provision struct {
	Execution trace.ExecutionID
	// Dialects are what the agent speaks, the preferred first.
	Dialects []Dialect
	// Servers are the aliases of the servers, which scripts name tools by ("calc:add").
	Servers []string
	// ToolName turns a server's alias and tool into the name that the agent gives it, as far as that is a rule; nil: the provider finds the tool among
	// those that the request offers.
	ToolName func(server, tool string) string
	// Record takes each exchange as it ends. It may be called from several goroutines; nil: nothing is recorded.
	Record func(*ModelExchange)
}

// Provider is an open provider.
type Provider interface {
	Endpoint() ModelEndpoint
	// Finish closes the provider. Its error is what the script promised and the agent did not ask for, or asked for beyond it: it names the steps.
	Finish(ctx context.Context) error
}

// ModelExchange is one request of an agent to its model, and what it got: the third tape.
type ModelExchange struct {
	Dialect Dialect
	// Role is what the request is for: "turn", or one of the side requests that agents make ("title", "summary", "guardian", "classifier", "count_tokens", "models", "probe", "unknown").
	Role string
	// Step is the script's step that answered, "" for none.
	Step    string
	Path    string
	Started time.Time
	Elapsed time.Duration
	Status  int
	// Request is the body as it came; the key is not in it.
	Request trace.JSON
	// Response is the whole answer, streams gathered, in the dialect's non-streaming shape.
	Response trace.JSON
	// Error says how it went wrong: a refused key, an unexpected request, a scripted fault.
	Error string
}
