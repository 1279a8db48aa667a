package acpagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// message is a line in either direction.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error makes an Error an error.
func (e *Error) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// peer is the agent's side of the connection.
type peer struct {
	out       io.Writer
	stringIDs bool

	mu      sync.Mutex
	next    int
	pending map[string]chan message
}

func newPeer(out io.Writer, stringIDs bool) *peer {
	return &peer{out: out, stringIDs: stringIDs, pending: map[string]chan message{}}
}

func (p *peer) line(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(append(b, '\n')) // a client that is gone ends the input as well
}

func (p *peer) write(m *message) {
	m.JSONRPC = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		b = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"acpagent/broken","params":{"error":%q}}`, err)
	}
	p.line(b)
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

func (p *peer) notify(method string, params any) {
	p.write(&message{Method: method, Params: encode(params)})
}

func (p *peer) reply(id json.RawMessage, result any) {
	p.write(&message{ID: id, Result: encode(result)})
}

func (p *peer) refuse(id json.RawMessage, e Error) {
	if e.Code == 0 {
		e.Code = -32603
	}
	p.write(&message{ID: id, Error: &e})
}

// request asks the client. When ctx ends it withdraws the request.
func (p *peer) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	p.mu.Lock()
	id := strconv.Itoa(p.next)
	if p.stringIDs {
		id = strconv.Quote("r-" + id)
	}
	p.next++
	answer := make(chan message, 1)
	p.pending[id] = answer
	p.mu.Unlock()
	p.write(&message{ID: json.RawMessage(id), Method: method, Params: encode(params)})
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-ctx.Done():
		p.notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(id)})
		return nil, ctx.Err()
	}
}

func (p *peer) answered(m message) {
	p.mu.Lock()
	ch := p.pending[string(m.ID)]
	delete(p.pending, string(m.ID))
	p.mu.Unlock()
	if ch != nil {
		ch <- m
	}
}

// serve reads messages until the end of in.
func (p *peer) serve(in io.Reader, handle func(message)) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		var m message
		if len(line) > 0 && json.Unmarshal(line, &m) == nil {
			if m.Method == "" {
				p.answered(m)
			} else {
				handle(m)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
