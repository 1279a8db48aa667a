package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// Session is an open session with a server. It may be used from several goroutines.
type Session struct {
	link *link
	info *Info
	meta *meta
	more [ElicitForm | ElicitURL + 1]atomic.Pointer[meta] // with more modes of elicitation, made at their first use
}

// Op is one request of a session.
type Op struct {
	Method string
	// Params is nil, an [Appender] such as *[Target], or anything that encodes to a JSON object: a struct, a map, json.RawMessage. It must not
	// have a _meta member. Raw JSON goes out as it is.
	Params any
	// Meta is put into _meta. A member that the session writes itself (protocol version, capabilities, client info, progress token)
	// is replaced by one of the same name here.
	Meta map[string]any
	// Name is what the operation names, for the HTTP header Mcp-Name. Empty takes it from a *Target.
	Name string
	// Own marks a request that m3 makes for itself.
	Own bool
	// Progress is called with each progress notification, in order, never on the reader: it may make calls. Do returns after the last
	// one was handled, or ctx ended. What a server sends just after its answer may still be told.
	Progress func(Progress)
	// Header is added to the HTTP request.
	Header http.Header
	// Elicit are modes of elicitation that this request declares beside the session's, from 2026-07-28 on.
	Elicit Modes
	// Note is JSON that is kept with the request's event and not sent.
	Note trace.JSON
	// Issued, if not nil, is told the request's id before anything is sent.
	Issued func(id trace.RPCID)
	// Claimed says that the caller takes a result of any type: an extension's own is then no finding.
	Claimed bool
}

// ParamsError is a request that was never sent, because its params cannot be encoded.
type ParamsError struct {
	Method string
	Err    error
}

// Error names the method and what is wrong.
func (e *ParamsError) Error() string { return e.Method + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ParamsError) Unwrap() error { return e.Err }

// Protocol is the protocol version of the session.
func (s *Session) Protocol() string { return s.info.ProtocolVersion }

// Modern reports whether the session is one of 2026-07-28 or later.
func (s *Session) Modern() bool { return !s.info.Legacy }

// Info is what the server said of itself. The value is shared: it must not be changed.
func (s *Session) Info() *Info { return s.info }

// Connection names the session's connection in the trace.
func (s *Session) Connection() trace.ConnectionID { return s.link.id }

// RPC is the connection under the session, for what is not the protocol's everyday use. Requests sent by it have no _meta.
func (s *Session) RPC() *rpc.Conn { return s.link.conn }

// Done is closed when the connection has ended.
func (s *Session) Done() <-chan struct{} { return s.link.conn.Done() }

// Err says why the connection ended; nil while it is open and after Close.
func (s *Session) Err() error { return s.link.conn.Err() }

// Close ends the session and its connection. Calls that wait fail. It is idempotent.
func (s *Session) Close() error { return s.link.conn.Close() }

// Do sends a request and waits for its answer. ctx bounds the wait; when it ends first the server is told that the request is cancelled. The error is
// a *[ParamsError] when nothing was sent, else a *rpc.CallError; a JSON-RPC error of the server is in the Response. Of the result only
// the structure is looked at, for findings: see [ResultType] and [CheckResult].
func (s *Session) Do(ctx context.Context, op *Op) (*rpc.Response, error) {
	token, report, err := s.openProgress(op)
	if err != nil {
		return nil, err
	}
	if report != nil {
		defer s.link.progress.close(token, report)
	}
	if !s.info.Legacy && !s.link.logs.Load() && s.meta.asksForLogs(op.Meta) {
		s.link.logs.Store(true)
	}
	buf := buffers.Get().(*[]byte)
	params, err := s.metaFor(op.Elicit).appendParams((*buf)[:0], op.Params, token, op.Meta)
	if err != nil {
		return nil, &ParamsError{op.Method, err}
	}
	resp, err := s.link.conn.Call(ctx, &rpc.Request{
		Method: op.Method, Params: orNil(params), Name: op.name(), Header: op.Header, Phase: trace.PhaseMCPCall, Own: op.Own, Note: op.Note, Issued: op.Issued,
	})
	if cap(params) <= keepBuffer { // Call kept nothing of it
		*buf = params
		buffers.Put(buf)
	}
	if err != nil {
		s.failed(op, report, err)
		return nil, err
	}
	if report != nil {
		report.wait(ctx)
	}
	s.check(op, resp)
	return resp, nil
}

// Notify sends a notification. Params follow the rules of [Op]; a notification has no _meta of the session's.
func (s *Session) Notify(ctx context.Context, method string, params any) error {
	b, err := (&meta{}).appendParams(nil, params, "", nil)
	if err != nil {
		return &ParamsError{method, err}
	}
	return s.link.conn.Notify(ctx, method, orNil(b))
}

// orNil makes no params of empty ones: they are left out of the message.
func orNil(params []byte) []byte {
	if len(params) == 0 {
		return nil
	}
	return params
}

func (op *Op) name() string {
	if t, ok := op.Params.(*Target); ok && op.Name == "" {
		return t.name()
	}
	return op.Name
}

// openProgress registers the op's callback, under the token in its Meta if there is one. A token without a callback is registered too: progress
// under it is not unknown.
func (s *Session) openProgress(op *Op) (trace.RPCID, *reporter, error) {
	own, ok := op.Meta[metaProgress]
	if op.Progress == nil && !ok {
		return "", nil, nil
	}
	var token trace.RPCID
	if ok {
		b, err := Encode(own)
		if err != nil {
			return "", nil, &ParamsError{op.Method, fmt.Errorf("_meta: %s: %w", metaProgress, err)}
		}
		token = trace.RPCID(b)
	}
	token, r := s.link.progress.open(token, op.Progress)
	return token, r, nil
}

// failed is called when a call ended without an answer. A call that timed out while the server waited for an answer of ours is named with
// what it waited for: each side may have been waiting for the other.
func (s *Session) failed(op *Op, report *reporter, err error) {
	if report != nil {
		report.drop()
	}
	var call *rpc.CallError
	if !errors.As(err, &call) || call.Kind != rpc.KindTimeout {
		return
	}
	if method, id, ok := s.link.serving.oldest(); ok {
		s.link.find(trace.Finding{
			Code: "waiting-pair", Severity: trace.SeverityWarning, Sequence: call.Sequence, Offset: -1, RPCID: call.ID,
			Message: fmt.Sprintf("%s (id %s) timed out while the server's %s (id %s) was not answered yet", op.Method, call.ID, shorten(method), id),
		})
	}
}

// check looks at what is wrong with a result, whether or not anybody will use it.
func (s *Session) check(op *Op, resp *rpc.Response) {
	if resp.Error != nil {
		return
	}
	if !s.info.Legacy {
		if code, sev, msg := checkResultType(op.Method, resp.Result); code != "" && !(op.Claimed && code == "result-type-unknown") {
			s.link.find(trace.Finding{Code: code, Severity: sev, Message: msg, Sequence: resp.Received, Offset: -1, RPCID: resp.ID})
		}
	}
	if defects := CheckResult(op.Method, resp.Result); len(defects) > 0 {
		s.link.find(trace.Finding{
			Code: "result-malformed", Severity: trace.SeverityError, Message: defectsText(op.Method, defects),
			Sequence: resp.Received, Offset: -1, RPCID: resp.ID, Clause: clauseOf(op.Method),
		})
	}
}
