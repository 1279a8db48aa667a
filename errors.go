package m3

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/m3-go/m3/trace"
)

// Error is a failure without data of its own: the sentinel that it wraps says what kind. Code is stable, Details hold no
// values of the test or the server.
type Error struct {
	CodeText string
	Message  string
	Details  map[string]any
	Err      error
}

func (e *Error) Error() string { return "m3: " + e.Message }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Code is the stable machine code.
func (e *Error) Code() string { return e.CodeText }

// The sentinels. Match them with errors.Is.
var (
	// ErrValidation matches every error about what the caller passed, or about a contract that did not hold.
	// It is trace.ErrValidation.
	ErrValidation = trace.ErrValidation
	// ErrKitClosed is returned by every use of a closed kit.
	ErrKitClosed = errors.New("m3: the kit is closed")
	// ErrClientClosed is returned by every use of a closed client.
	ErrClientClosed = errors.New("m3: the client is closed")
	// ErrSessionOpen is returned where a finished session is needed and this one is open.
	ErrSessionOpen = errors.New("m3: the session is still open")
	// ErrSessionBusy is returned by Send while another message of the session is under way.
	ErrSessionBusy = errors.New("m3: the session is busy")
	// ErrSessionClosed is returned by Send on a session that has ended.
	ErrSessionClosed = errors.New("m3: the session is closed")
	// ErrTraceNotFinalized is returned where a finished execution is needed and this one is open. It is trace.ErrNotFinalized.
	ErrTraceNotFinalized = trace.ErrNotFinalized
	// ErrTraceUnavailable is returned when a stored trace cannot be used. It is trace.ErrUnavailable.
	ErrTraceUnavailable = trace.ErrUnavailable
	// ErrRawEvidenceUnavailable is returned for a reference to evidence that is not there, forged ones included.
	ErrRawEvidenceUnavailable = errors.New("m3: raw evidence unavailable")
)

// ValidationError says that an argument, a schema or a contract does not hold. It is found on this side: no answer of a server is a
// ValidationError by itself.
type ValidationError struct {
	Message string
	// Details name the operation, the tool and the kind ("invalid_arguments", "invalid_result", "invalid_schema"), never a value.
	Details map[string]any
}

func (e *ValidationError) Error() string { return "m3: " + e.Message }

// Is makes errors.Is(err, ErrValidation) true.
func (e *ValidationError) Is(target error) bool { return target == ErrValidation }

// Code is "invalid_argument".
func (e *ValidationError) Code() string { return "invalid_argument" }

// TransportError says that the server could not be reached or went away.
type TransportError struct {
	Message string
	// Details: operation, phase ("authentication", "build", "start", "initialization", "call"), and where there is a process exit_code or signal.
	Details map[string]any
	// Stderr is the end of what the server's process wrote to stderr, redacted; in phase "build", what go build wrote.
	Stderr string
	Err    error
}

func (e *TransportError) Error() string {
	if e.Details["phase"] == "build" {
		return "m3: " + e.Message + outputSuffix("output of go build", e.Stderr)
	}
	return "m3: " + e.Message + stderrSuffix(e.Stderr)
}

// Unwrap returns the cause, if there is one.
func (e *TransportError) Unwrap() error { return e.Err }

// Code is "transport_error".
func (e *TransportError) Code() string { return "transport_error" }

// ProtocolError is a JSON-RPC error that the server answered with, or an answer that breaks the protocol.
type ProtocolError struct {
	Message string
	// Details: operation, phase, error_kind ("remote" for a JSON-RPC error, "malformed" for a broken answer), protocol_code.
	Details map[string]any
	// RPC is the server's error object; nil when the answer was no JSON-RPC error.
	RPC *trace.RPCError
	// Stderr is the end of what the server's process wrote to stderr, when it failed to start.
	Stderr string
	Err    error
}

func (e *ProtocolError) Error() string { return "m3: " + e.Message + stderrSuffix(e.Stderr) }

// Unwrap returns the cause, if there is one.
func (e *ProtocolError) Unwrap() error { return e.Err }

// Code is "protocol_error".
func (e *ProtocolError) Code() string { return "protocol_error" }

// RPCCode returns the JSON-RPC error code, and false when there is none or it is no integer.
func (e *ProtocolError) RPCCode() (int64, bool) {
	if e.RPC == nil {
		return 0, false
	}
	var n int64
	err := e.RPC.Code.Decode(&n)
	return n, err == nil
}

// TimeoutError says that a deadline passed. It also is context.DeadlineExceeded.
type TimeoutError struct {
	Message string
	Details map[string]any // operation, timeout_seconds
	Stderr  string
	Err     error
}

func (e *TimeoutError) Error() string { return "m3: " + e.Message + stderrSuffix(e.Stderr) }

// Unwrap returns the cause, if there is one.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout reports true, as net.Error does.
func (e *TimeoutError) Timeout() bool { return true }

// Code is "timeout".
func (e *TimeoutError) Code() string { return "timeout" }

// CancelledError says that the caller's context, or the kit, ended the call. It also is context.Canceled.
type CancelledError struct {
	Message string
	Details map[string]any
	Err     error
}

func (e *CancelledError) Error() string { return "m3: " + e.Message }

// Unwrap returns the cause, if there is one.
func (e *CancelledError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, context.Canceled) true.
func (e *CancelledError) Is(target error) bool { return target == context.Canceled }

// Code is "cancelled".
func (e *CancelledError) Code() string { return "cancelled" }

// UnsupportedError says that a feature is not there: in the negotiated protocol version, or in m3.
type UnsupportedError struct {
	Message string
	Details map[string]any
	// Raw is the server's result that cannot be used, when there is one.
	Raw trace.JSON
}

func (e *UnsupportedError) Error() string { return "m3: " + e.Message }

// Code is "unsupported".
func (e *UnsupportedError) Code() string { return "unsupported" }

// EndpointTrustError says that an address may not be used at the trust level given. Its text holds no value of the URL but
// the host.
type EndpointTrustError struct {
	Message string
	Details map[string]any
}

func (e *EndpointTrustError) Error() string { return "m3: " + e.Message }

// Code is "endpoint_trust".
func (e *EndpointTrustError) Code() string { return "endpoint_trust" }

// RawEvidenceIntegrityError says that stored evidence is not what the reference, or the store itself, says.
type RawEvidenceIntegrityError struct {
	Message string
	Details map[string]any
	Err     error
}

func (e *RawEvidenceIntegrityError) Error() string { return "m3: " + e.Message }

// Unwrap returns the store's error.
func (e *RawEvidenceIntegrityError) Unwrap() error { return e.Err }

// Code is "raw_evidence_integrity".
func (e *RawEvidenceIntegrityError) Code() string { return "raw_evidence_integrity" }

func validationf(format string, args ...any) *ValidationError {
	return &ValidationError{Message: fmt.Sprintf(format, args...)}
}

// stderrSuffix shows the end of a server's stderr below an error, where the reason usually stands.
func stderrSuffix(tail string) string { return outputSuffix("stderr of the server", tail) }

func outputSuffix(what, tail string) string {
	tail = strings.TrimRight(tail, "\n")
	if tail == "" {
		return ""
	}
	lines := strings.Split(tail, "\n")
	const most = 12
	note := ""
	if len(lines) > most {
		note = fmt.Sprintf(" (last %d of %d lines)", most, len(lines))
		lines = lines[len(lines)-most:]
	}
	const width = 400
	for i, line := range lines {
		if len(line) > width {
			lines[i] = strings.ToValidUTF8(line[:width], "") + fmt.Sprintf("… (%d bytes)", len(line))
		}
	}
	return "\n  " + what + note + ":\n    " + strings.Join(lines, "\n    ")
}

// during puts before an error's text what m3 was doing when it came, and leaves its type as it is.
func during(what string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *TransportError:
		c := *e
		c.Message = what + ": " + c.Message
		return &c
	case *ProtocolError:
		c := *e
		c.Message = what + ": " + c.Message
		return &c
	case *TimeoutError:
		c := *e
		c.Message = what + ": " + c.Message
		return &c
	case *CancelledError:
		c := *e
		c.Message = what + ": " + c.Message
		return &c
	case *UnsupportedError:
		c := *e
		c.Message = what + ": " + c.Message
		return &c
	default:
		return err
	}
}
