package m3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	maxInbox      = 4096     // messages that wait to be taken
	maxInboxBytes = 64 << 20 // and their bytes
)

// RawMessage is something that the server sent: a frame, whatever is in it, or the end of an HTTP answer.
type RawMessage struct {
	// Body is the frame's text: a line without its terminator, the data of a server-sent event, an HTTP body. Nil at the end of an HTTP answer.
	Body []byte
	// End says that an HTTP answer is over. Every HTTP exchange has one such message, after its frames; Err is then why it failed, if it did.
	End bool
	Err error
	// HTTP is the exchange that carried it; nil on streams. Its values are redacted where the tape's are.
	HTTP *trace.HTTPInfo
	// Event is the name of a server-sent event; empty is message.
	Event string
	// Sequence is the event that holds the frame in the trace; -1 for an End.
	Sequence int64

	// What a JSON object in the frame says; nil and empty where it does not, or is none.
	ID     trace.JSON
	Method string
	Params trace.JSON
	Result trace.JSON
	Error  *trace.RPCError
	// Batch holds the parts of a JSON array.
	Batch []trace.JSON
}

// Status is the HTTP status; 0 on streams.
func (m *RawMessage) Status() int {
	if m.HTTP == nil {
		return 0
	}
	return m.HTTP.Status
}

// Header is a header of the HTTP answer, or empty.
func (m *RawMessage) Header(name string) string {
	if m.HTTP == nil {
		return ""
	}
	for _, h := range m.HTTP.Header {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// IsAnswer reports whether it is an answer to the request with this id, given as JSON text: "1" for the number, "\"1\"" for the text.
func (m *RawMessage) IsAnswer(id string) bool {
	return m.Method == "" && (m.Result != nil || m.Error != nil) && string(m.ID) == id
}

// String is a short form for messages of a test.
func (m *RawMessage) String() string {
	text := string(m.Body)
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	switch {
	case m.End && m.Err != nil:
		return fmt.Sprintf("HTTP exchange failed: %v", m.Err)
	case m.End:
		return fmt.Sprintf("end of HTTP %d", m.Status())
	case m.HTTP != nil:
		return fmt.Sprintf("HTTP %d %s", m.Status(), text)
	}
	return text
}

// parse reads the JSON-RPC envelope, as far as there is one.
func (m *RawMessage) parse() {
	var env struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    json.RawMessage `json:"code"`
			Message any             `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	body := bytes.TrimSpace(m.Body)
	if len(body) > 0 && body[0] == '[' {
		var parts []json.RawMessage
		if json.Unmarshal(body, &parts) == nil {
			for _, p := range parts {
				m.Batch = append(m.Batch, trace.JSON(p))
			}
		}
		return
	}
	if json.Unmarshal(body, &env) != nil {
		return
	}
	m.ID, m.Params, m.Result = trace.JSON(env.ID), trace.JSON(env.Params), trace.JSON(env.Result)
	_ = json.Unmarshal(env.Method, &m.Method) // a method that is no string is none
	if e := env.Error; e != nil {
		m.Error = &trace.RPCError{Code: trace.JSON(e.Code)}
		m.Error.Message, _ = e.Message.(string)
		if e.Data != nil {
			m.Error.Data = trace.Observe(trace.JSON(e.Data))
		}
	}
}

// Code is the JSON-RPC error code, and false when there is none or it is no integer.
func (m *RawMessage) Code() (int64, bool) {
	if m.Error == nil {
		return 0, false
	}
	var n int64
	err := m.Error.Code.Decode(&n)
	return n, err == nil
}

// inbox keeps what arrived until somebody takes it.
type inbox struct {
	mu    sync.Mutex
	list  []*RawMessage
	bytes int
	lost  int
	came  chan struct{} // closed and made anew with each arrival
}

func newInbox() *inbox { return &inbox{came: make(chan struct{})} }

// frame is told of each frame, on a reader.
func (b *inbox) frame(f *wire.Frame) {
	if f.Direction != trace.ServerToClient {
		return
	}
	m := &RawMessage{Body: bytes.Clone(f.Body), HTTP: f.HTTP, Event: f.Event, Sequence: f.Sequence}
	if m.Body == nil {
		m.Body = []byte{}
	}
	m.parse()
	b.put(m)
}

func (b *inbox) exchange(x *wire.Exchange) {
	b.put(&RawMessage{End: true, Err: x.Err, HTTP: x.HTTP, Sequence: -1})
}

// put adds a message. When nobody takes them, the oldest go.
func (b *inbox) put(m *RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, m)
	b.bytes += len(m.Body)
	for len(b.list) > maxInbox || b.bytes > maxInboxBytes && len(b.list) > 1 {
		b.bytes -= len(b.list[0].Body)
		b.list = b.list[1:]
		b.lost++
	}
	close(b.came)
	b.came = make(chan struct{})
}

// take removes the first message that matches; without one it returns what to wait for.
func (b *inbox) take(match func(*RawMessage) bool) (m *RawMessage, came <-chan struct{}, waiting []*RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range b.list {
		if match(m) {
			b.list = append(b.list[:i:i], b.list[i+1:]...)
			b.bytes -= len(m.Body)
			return m, nil, nil
		}
	}
	return nil, b.came, b.list
}

// Next takes the next message, ends of HTTP answers included, in the order of arrival.
func (r *Raw) Next(ctx context.Context) (*RawMessage, error) {
	return r.Expect(ctx, "a message", func(*RawMessage) bool { return true })
}

// Take takes everything that has arrived, without waiting. Lost counts the older messages that were dropped because nobody took them.
func (r *Raw) Take() (messages []*RawMessage, lost int) {
	b := r.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	messages, lost = b.list, b.lost
	b.list, b.bytes, b.lost = nil, 0, 0
	return messages, lost
}

// Expect waits for a message that matches and takes it; what came before it stays. what names it in the error, which also says what did come. Without
// a deadline in ctx the client's Timeout holds. The errors are *TimeoutError, *CancelledError, and *TransportError when the connection ended.
func (r *Raw) Expect(ctx context.Context, what string, match func(*RawMessage) bool) (*RawMessage, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, r.client.opts.Timeout, errOperationDeadline)
	defer cancel()
	for {
		m, came, waiting := r.inbox.take(match)
		if m != nil {
			return m, nil
		}
		select {
		case <-came:
		case <-r.conn.Done():
			if m, _, waiting = r.inbox.take(match); m != nil {
				return m, nil
			}
			return nil, r.failure(bounded, "expect "+what, errors.New("the connection ended; "+instead(waiting)))
		case <-bounded.Done():
			return nil, r.failure(bounded, "expect "+what, errors.New("it did not come; "+instead(waiting)))
		}
	}
}

// instead says what there is instead.
func instead(waiting []*RawMessage) string {
	if len(waiting) == 0 {
		return "nothing came"
	}
	last := waiting[len(waiting)-1]
	return fmt.Sprintf("%d other messages came, the last is: %s", len(waiting), last)
}

// ExpectAnswer waits for the answer to the request with this id, as JSON text: a result or an error.
func (r *Raw) ExpectAnswer(ctx context.Context, id string) (*RawMessage, error) {
	return r.Expect(ctx, "the answer to "+id, func(m *RawMessage) bool { return m.IsAnswer(id) })
}

// ExpectResult waits for the answer to the request with this id; an error is a *ProtocolError.
func (r *Raw) ExpectResult(ctx context.Context, id string) (*RawMessage, error) {
	m, err := r.ExpectAnswer(ctx, id)
	if err != nil || m.Error == nil {
		return m, err
	}
	return m, &ProtocolError{Message: r.client.kit.redactor.String(fmt.Sprintf("expect the result of %s: the server answered with error %s: %s", id, m.Error.Code, m.Error.Message)), RPC: m.Error,
		Details: map[string]any{"operation": "expect", "phase": "call", "error_kind": "remote", "protocol_code": string(m.Error.Code)}}
}

// ExpectError waits for an error, the next one whatever request it is for, and checks that its code is among codes; none allows every code. Another code is
// a *ProtocolError, and so is a result that comes instead.
func (r *Raw) ExpectError(ctx context.Context, codes ...int64) (*RawMessage, error) {
	m, err := r.Expect(ctx, "an error", func(m *RawMessage) bool { return m.Error != nil || m.Result != nil })
	if err != nil {
		return nil, err
	}
	code, ok := m.Code()
	if m.Error != nil && len(codes) == 0 {
		return m, nil
	}
	for _, want := range codes {
		if ok && code == want {
			return m, nil
		}
	}
	return m, &ProtocolError{Message: r.client.kit.redactor.String(fmt.Sprintf("expect an error of %v: the server sent %s", codes, m)), RPC: m.Error,
		Details: map[string]any{"operation": "expect", "phase": "call", "error_kind": "malformed"}}
}

// ExpectStatus waits for the end of the next HTTP answer, and checks that its status is among statuses. Another one is a *ProtocolError; a broken exchange is a *TransportError. The
// answer's frames stay for [Raw.Next].
func (r *Raw) ExpectStatus(ctx context.Context, statuses ...int) (*RawMessage, error) {
	m, err := r.Expect(ctx, "an HTTP answer", func(m *RawMessage) bool { return m.End })
	switch {
	case err != nil:
		return nil, err
	case m.Err != nil:
		return m, r.failure(ctx, "expect an HTTP answer", m.Err)
	}
	for _, s := range statuses {
		if m.Status() == s {
			return m, nil
		}
	}
	return m, &ProtocolError{Message: fmt.Sprintf("expect HTTP %v: the server answered %d", statuses, m.Status()),
		Details: map[string]any{"operation": "expect", "phase": "call", "error_kind": "malformed"}}
}

// ExpectSilence fails with a *ProtocolError when a frame is there or comes within d; 0 is 100 ms. Ends of HTTP answers do not count.
func (r *Raw) ExpectSilence(ctx context.Context, d time.Duration) error {
	if d == 0 {
		d = quiet
	}
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	m, err := r.Expect(bounded, "silence", func(m *RawMessage) bool { return !m.End })
	switch {
	case ctx.Err() != nil:
		return r.failure(ctx, "expect silence", ctx.Err())
	case err == nil:
		return &ProtocolError{Message: "expect silence: the server sent " + r.client.kit.redactor.String(m.String()), Details: map[string]any{"operation": "expect", "phase": "call", "error_kind": "malformed"}}
	}
	return nil
}

// ExpectClosed waits until the server has ended the connection.
func (r *Raw) ExpectClosed(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, r.client.opts.Timeout, errOperationDeadline)
	defer cancel()
	select {
	case <-r.conn.Done():
		return nil
	case <-bounded.Done():
		return r.failure(bounded, "expect the end of the connection", errors.New("it is still open"))
	}
}
