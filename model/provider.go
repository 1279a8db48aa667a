package model

import (
	"context"
	"io"
	"log"
	"net/http"
	"sync"

	"github.com/m3-go/m3/harness"
)

// discard takes what net/http would print about broken connections: scripts break them on purpose.
var discard = log.New(io.Discard, "", 0)

// provider is an open provider of one execution.
type provider struct {
	name    string
	script  *progress
	dialect dialect
	names   *namer
	key     string
	base    string
	record  func(*harness.ModelExchange)
	server  *http.Server
	ctx     context.Context // ends with the provider; requests are within it
	cancel  context.CancelFunc
	done    chan struct{} // the server's loop has ended

	mu     sync.Mutex
	closed bool
	active sync.WaitGroup
	finish sync.Once
	result error
}

// Endpoint implements harness.Provider.
func (p *provider) Endpoint() harness.ModelEndpoint {
	return harness.ModelEndpoint{Dialect: p.dialect.kind(), BaseURL: p.base, Key: p.key, Model: p.name}
}

// Finish closes the provider: answers that hang or wait are broken off, and every exchange is recorded before it returns. Its error is an *[UnmetError] when the
// script was not followed. It is idempotent and needs no more than a moment, so that ctx is not looked at.
func (p *provider) Finish(context.Context) error {
	p.finish.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.cancel()
		_ = p.server.Close() // of a listener on loopback
		p.active.Wait()
		<-p.done
		if problems := p.script.all(); len(problems) > 0 {
			p.result = &UnmetError{Model: p.name, Problems: problems}
		}
	})
	return p.result
}

// enter counts a request in, unless the provider is closing.
func (p *provider) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.active.Add(1)
	return true
}
