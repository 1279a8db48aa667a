package model

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/harness"
)

// Scripted is a model that answers as the script says. The name is what the agent is given as the model's, and by which results are grouped; "" is "scripted".
// The model may be used by any number of executions at once: each goes through the script from its beginning.
func Scripted(name string, script Script) harness.ProvidedModel {
	if name == "" {
		name = "scripted"
	}
	return &scripted{name: name, script: slices.Clone(script)}
}

type scripted struct {
	name   string
	script Script
}

// ModelName implements harness.Model.
func (s *scripted) ModelName() string { return s.name }

// Provide opens a provider on loopback for one execution. It fails with a *[ScriptError] when the script is none, and with an error that names them when the agent
// speaks none of the dialects.
func (s *scripted) Provide(ctx context.Context, p *harness.Provision) (harness.Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p == nil {
		p = &harness.Provision{}
	}
	if err := s.script.Validate(); err != nil {
		return nil, err
	}
	d, err := speak(p.Dialects)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("model: no port for the provider: %w", err)
	}
	return s.open(listener, d, p), nil
}

// speak chooses the first dialect of the agent's that a provider has.
func speak(wanted []harness.Dialect) (dialect, error) {
	for _, w := range wanted {
		for _, d := range dialects {
			if d.kind() == w {
				return d, nil
			}
		}
	}
	if len(wanted) == 0 {
		return nil, harness.Errorf(harness.BlameTest, "option_unknown", "model: the agent cannot be pointed at a provider, so that a scripted model is not for it")
	}
	return nil, harness.Errorf(harness.BlameTest, "option_unknown", "model: the agent speaks %v, and scripted models speak openai_responses, openai_chat and anthropic_messages", wanted)
}

func (s *scripted) open(listener net.Listener, d dialect, p *harness.Provision) *provider {
	ctx, cancel := context.WithCancel(context.Background())
	pr := &provider{
		name: s.name, script: newProgress(s.script), dialect: d, key: "m3-" + strings.ToLower(rand.Text()), record: p.Record,
		names: &namer{servers: slices.Clone(p.Servers), rule: p.ToolName}, base: "http://" + listener.Addr().String(), ctx: ctx, cancel: cancel, done: make(chan struct{}),
	}
	pr.server = &http.Server{
		Handler: pr, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: discard,
	}
	go func() {
		defer close(pr.done)
		_ = pr.server.Serve(listener) // ends with Close
	}()
	return pr
}
