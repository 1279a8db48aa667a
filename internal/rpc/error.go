package rpc

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// ErrorKind is the sort of failure that a [CallError] is.
type ErrorKind string

// The kinds.
const (
	// KindTransport: the connection, or the HTTP exchange, failed.
	KindTransport ErrorKind = "transport"
	// KindProtocol: something came that is no proper answer.
	KindProtocol ErrorKind = "protocol"
	// KindTimeout: the context's deadline passed.
	KindTimeout ErrorKind = "timeout"
	// KindCancelled: the context was cancelled.
	KindCancelled ErrorKind = "cancelled"
)

// failedKinds are the words of the mcp.call_failed event.
var failedKinds = map[ErrorKind]trace.Status{
	KindTransport: trace.StatusTransportError,
	KindProtocol:  trace.StatusProtocolError,
	KindTimeout:   trace.StatusTimedOut,
	KindCancelled: trace.StatusCancelled,
}

// CallError is every failure of [Conn.Call] that is not an answer. A JSON-RPC error of the server is one, and is in Response.Error.
type CallError struct {
	Kind   ErrorKind
	Method string
	// ID is the request's; empty when it was never made.
	ID     trace.RPCID
	Reason string          // one clear clause
	HTTP   *trace.HTTPInfo // the answer's HTTP side, when there was one
	// Sequence is the event that shows the failure best: the frame that is no proper answer, else the request; -1 when there is none.
	Sequence int64
	Err      error // the cause, or nil
	// Unwritten is set when the call ended because the server did not take its message in time.
	Unwritten *wire.WriteError
}

// Error names the method, the kind and the reason.
func (e *CallError) Error() string { return e.Method + ": " + string(e.Kind) + ": " + e.Reason }

// Unwrap returns the cause: the context's error for a timeout or a cancellation.
func (e *CallError) Unwrap() error { return e.Err }

// ErrorObject is a JSON-RPC error as it stood on the wire.
type ErrorObject struct {
	Code    trace.JSON // some servers send fractions or text; nil when there was none
	Message string
	Data    trace.JSON // nil when there was none
}

// Int returns the code when it is an integer.
func (e *ErrorObject) Int() (int64, bool) {
	text, ok := integerText(e.Code)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func integerText(code trace.JSON) (string, bool) {
	if kindOfID(code) != idInteger {
		return "", false
	}
	return integer(code)
}

// String is the code with the message.
func (e *ErrorObject) String() string { return fmt.Sprintf("error %s %q", e.Code, e.Message) }

// parseError reads an error member. problem says what is wrong with it; e is nil when it is no object.
func parseError(b []byte) (e *ErrorObject, problem string) {
	s := scanner{b: b, kinds: []uint64{1}}
	if b[0] != '{' {
		return nil, "it is no object: " + quote(b)
	}
	e = &ErrorObject{}
	var message []byte
	s.members(func(name string, value []byte) {
		switch name {
		case "code":
			e.Code = append(trace.JSON{}, value...)
		case "message":
			message = value
		case "data":
			e.Data = append(trace.JSON{}, value...)
		}
	})
	if message != nil {
		e.Message = unquote(message)
	}
	switch {
	case e.Code == nil:
		problem = "it has no code"
	case kindOfID(e.Code) != idInteger:
		problem = "its code is no integer: " + quote(e.Code)
	case message == nil:
		problem = "it has no message"
	case message[0] != '"':
		problem = "its message is no string"
	}
	return e, problem
}

// members calls fn with each member of the object, which is valid JSON.
func (s *scanner) members(fn func(name string, value []byte)) {
	s.i, s.depth = 1, 1
	for {
		s.space()
		if s.i >= len(s.b) || s.b[s.i] == '}' {
			return
		}
		if s.b[s.i] == ',' {
			s.i++
			continue
		}
		from := s.i
		if s.str() != nil {
			return
		}
		name := unquote(s.b[from:s.i])
		if s.colon() != nil {
			return
		}
		s.space()
		from = s.i
		if s.value() != nil {
			return
		}
		fn(name, s.b[from:s.i])
	}
}

// appendError appends the error object as JSON.
func appendError(dst []byte, e *ErrorObject) []byte {
	code := e.Code
	if len(code) == 0 {
		code = trace.JSON("-32603")
	}
	dst = append(append(dst, `{"code":`...), code...)
	dst = trace.AppendString(append(dst, `,"message":`...), e.Message)
	if e.Data != nil {
		dst = append(append(dst, `,"data":`...), e.Data...)
	}
	return append(dst, '}')
}

// statusText is an HTTP status for people.
func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))
}
