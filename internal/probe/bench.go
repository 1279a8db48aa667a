package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// bench is the server under probe: what it said of itself, and the connections to it.
type bench struct {
	kit    *m3.Kit
	server m3.Server
	opts   Options

	http     bool
	loopback bool
	modern   bool
	version  string
	caps     map[string]json.RawMessage
	tools    []m3.ToolInfo
	prompts  []m3.PromptInfo
	init     m3.Initialization

	startup time.Duration // how long the good client took to connect

	shared  *m3.Raw                   // past its handshake; nil until it is needed, and after it broke
	session string                    // the shared connection's HTTP session id
	fresh   []*m3.Raw                 // the present probe's own connections
	offers  map[string]*m3.RawMessage // answers to initialize by version asked
	calls   map[string]*toolCall      // valid calls, by tool: each is made once a run
	seen    map[*m3.Raw]int64         // the last HTTP exchange that was looked at
	used    []trace.ExecutionID
}

// reply is what came back for one frame.
type reply struct {
	messages []*m3.RawMessage // frames that are not the server's own requests and notifications
	own      []*m3.RawMessage // those
	status   int              // HTTP; 0 on a stream, and when there was no answer
	header   func(name string) string
	err      error // nothing could be sent, or the exchange broke
	alive    bool  // on a stream: a ping after the frame was answered
}

// answer is the answer to the request with the id, or nil.
func (r *reply) answer(id string) *m3.RawMessage {
	for _, m := range r.messages {
		if m.IsAnswer(id) {
			return m
		}
	}
	return nil
}

// any is the first answer of whatever id, or nil.
func (r *reply) any() *m3.RawMessage {
	for _, m := range r.messages {
		if m.Result != nil || m.Error != nil {
			return m
		}
	}
	return nil
}

// result reports whether some request was carried out.
func (r *reply) result() *m3.RawMessage {
	for _, m := range r.messages {
		if m.Result != nil {
			return m
		}
	}
	return nil
}

// saw is a short form of everything that came.
func (r *reply) saw() string {
	switch {
	case len(r.messages) > 0:
		return r.messages[0].String()
	case r.status != 0:
		return fmt.Sprintf("HTTP %d without a body", r.status)
	case r.err != nil:
		return r.err.Error()
	}
	return "nothing"
}

// grace is how long an answer without a usable id may come after the answer to a later ping.
const grace = 150 * time.Millisecond

// afterPing is the same for the answer to a hostile frame with a readable id, which costs a server no work.
const afterPing = 400 * time.Millisecond

// aliveWait is how long the sign of life after a probe may take: a server that is only slow is not dead.
const aliveWait = 10 * time.Second

// starting bounds what happens first on a connection: the server may still be starting, which took it so long the first time.
func (b *bench) starting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.opts.Patience+3*b.startup)
}

// open makes a connection without a handshake.
func (b *bench) open(ctx context.Context) (*m3.Raw, error) {
	o := &m3.DirectOptions{Timeout: b.opts.Start, StartTimeout: b.opts.Start}
	if b.modern {
		o.Protocol = b.version
	}
	raw, err := b.kit.Raw(ctx, b.server, o)
	if err == nil {
		b.used = append(b.used, raw.ExecutionID())
	}
	return raw, err
}

// own makes a connection that ends with the probe.
func (b *bench) own(ctx context.Context) (*m3.Raw, error) {
	raw, err := b.open(ctx)
	if err == nil {
		b.fresh = append(b.fresh, raw)
	}
	return raw, err
}

// tidy closes the connections of a probe.
func (b *bench) tidy() {
	for _, raw := range b.fresh {
		_ = raw.Close() // how the server ends is no probe's matter
		delete(b.seen, raw)
	}
	b.fresh = nil
}

// conn is the shared connection, past its handshake.
func (b *bench) conn(ctx context.Context) (*m3.Raw, error) {
	if b.shared != nil {
		return b.shared, nil
	}
	raw, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.handshake(ctx, raw); err != nil {
		_ = raw.Close()
		return nil, err
	}
	b.shared = raw
	return raw, nil
}

func (b *bench) handshake(ctx context.Context, raw *m3.Raw) error {
	if b.modern {
		return raw.Alive(ctx)
	}
	res, err := raw.Handshake(ctx, b.version)
	if err != nil {
		return err
	}
	b.session = res.Header("Mcp-Session-Id")
	return nil
}

// drop gives the shared connection up.
func (b *bench) drop() {
	if b.shared != nil {
		_ = b.shared.Close() // it is broken already
		delete(b.seen, b.shared)
		b.shared = nil
	}
}

// ask sends a proper request on the shared connection.
func (b *bench) ask(ctx context.Context, method, params string) (*reply, string) {
	raw, err := b.conn(ctx)
	if err != nil {
		return &reply{err: err}, ""
	}
	id, frame := raw.Request(method, params)
	return b.pokeFor(ctx, raw, &m3.RawFrame{Body: frame}, id, b.opts.Patience), id
}

// send sends bytes on the shared connection. id is that of the answer that is hoped for, or empty.
func (b *bench) send(ctx context.Context, body, id string) *reply {
	raw, err := b.conn(ctx)
	if err != nil {
		return &reply{err: err}
	}
	return b.poke(ctx, raw, &m3.RawFrame{Body: []byte(body)}, id)
}

// poke sends a frame and collects what comes of it. On a stream a ping follows, so that silence need not be waited for.
func (b *bench) poke(ctx context.Context, raw *m3.Raw, f *m3.RawFrame, id string) *reply {
	return b.pokeFor(ctx, raw, f, id, afterPing)
}

// pokeFor is poke for a request that may take its time: wait is how long its answer may come after that to the ping.
func (b *bench) pokeFor(ctx context.Context, raw *m3.Raw, f *m3.RawFrame, id string, wait time.Duration) *reply {
	if b.http {
		return b.post(ctx, raw, f, id)
	}
	b.drain(raw)
	r := &reply{}
	bounded, cancel := context.WithTimeout(ctx, b.opts.Patience)
	defer cancel()
	if r.err = raw.SendFrame(bounded, f); r.err != nil {
		return r
	}
	ping, frame := b.sign(raw)
	if r.err = raw.Send(bounded, frame); r.err != nil {
		return r
	}
	deadline := time.Now().Add(b.opts.Patience)
	for {
		m, err := b.next(ctx, raw, deadline)
		switch {
		case err != nil:
			if !r.alive {
				r.err = err
			}
			return r
		case m.IsAnswer(ping):
			r.alive = true
			deadline = earlier(deadline, time.Now().Add(wait))
			if id == "" && r.any() == nil {
				deadline = time.Now().Add(grace)
			}
		case m.Method != "":
			r.own = append(r.own, m)
		default:
			r.messages = append(r.messages, m)
		}
		if r.alive && (id == "" && r.any() != nil || id != "" && r.answer(id) != nil) {
			return r
		}
		if r.alive && r.nameless() != nil { // it is the answer, unless the real one is only late
			deadline = earlier(deadline, time.Now().Add(grace))
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// drain throws away what earlier frames left behind.
func (b *bench) drain(raw *m3.Raw) {
	old, _ := raw.Take()
	for _, m := range old {
		if m.HTTP != nil {
			b.seen[raw] = max(b.seen[raw], m.HTTP.Exchange)
		}
	}
}

// nameless is an error without an id, which answers what had no readable one.
func (r *reply) nameless() *m3.RawMessage {
	for _, m := range r.messages {
		if m.Error != nil && (m.ID == nil || string(m.ID) == "null") {
			return m
		}
	}
	return nil
}

func (b *bench) next(ctx context.Context, raw *m3.Raw, deadline time.Time) (*m3.RawMessage, error) {
	bounded, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return raw.Next(bounded)
}

// sign is a request that every server answers at once.
func (b *bench) sign(raw *m3.Raw) (id string, frame []byte) {
	if b.modern {
		return raw.Request("server/discover", "")
	}
	return raw.Request("ping", "")
}

// post sends a frame over HTTP and collects its answer.
func (b *bench) post(ctx context.Context, raw *m3.Raw, f *m3.RawFrame, id string) *reply {
	r := &reply{header: func(string) string { return "" }}
	b.drain(raw)
	bounded, cancel := context.WithTimeout(ctx, b.opts.Patience)
	defer cancel()
	if r.err = raw.SendFrame(bounded, f); r.err != nil {
		var timeout *m3.TimeoutError
		if errors.As(r.err, &timeout) {
			return r
		}
	}
	before := b.seen[raw]
	if f.Method == http.MethodGet && r.err == nil { // an event stream may stay silent
		bounded, cancel = context.WithTimeout(ctx, grace)
		defer cancel()
	}
	for {
		m, err := raw.Next(bounded)
		if err != nil {
			if f.Method == http.MethodGet && r.err == nil {
				r.status, r.header = http.StatusOK, func(string) string { return "text/event-stream" }
				return r
			}
			if r.err == nil && r.status == 0 {
				r.err = err
			}
			return r
		}
		if m.HTTP == nil || m.HTTP.Exchange <= before {
			continue
		}
		b.seen[raw] = max(b.seen[raw], m.HTTP.Exchange)
		if r.status == 0 {
			r.status, r.header = m.Status(), m.Header
		}
		switch {
		case m.End:
			if r.err == nil {
				r.err = m.Err
			}
			if m.Err != nil && len(r.messages) == 0 {
				r.status = 0
			}
			return r
		case m.Method != "":
			r.own = append(r.own, m)
		default:
			r.messages = append(r.messages, m)
		}
		if id != "" && r.answer(id) != nil && isStream(r) {
			return r // the stream's end need not be waited for
		}
	}
}

// alive checks the shared connection, if there is one.
func (b *bench) alive(ctx context.Context) error {
	if b.shared == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, aliveWait)
	defer cancel()
	id, frame := b.sign(b.shared)
	if b.http {
		r := b.post(ctx, b.shared, &m3.RawFrame{Body: frame}, id)
		if r.answer(id) == nil {
			return fmt.Errorf("a proper request is no longer answered: %s", r.saw())
		}
		return nil
	}
	if err := b.shared.Send(ctx, frame); err != nil {
		return err
	}
	_, err := b.shared.ExpectAnswer(ctx, id)
	return err
}
