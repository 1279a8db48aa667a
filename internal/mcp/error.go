package mcp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/m3-go/m3/internal/rpc"
)

// ErrVersion is in the chain of a [ConnectError] whose reason is that client and server have no usable protocol version in common.
var ErrVersion = errors.New("mcp: no common protocol version")

// Stage is the step of [Connect] that failed.
type Stage string

// The stages, in order.
const (
	StageConfig      Stage = "config"
	StageDial        Stage = "dial"
	StageDiscover    Stage = "server/discover"
	StageInitialize  Stage = "initialize"
	StageInitialized Stage = "notifications/initialized"
)

// ConnectError is every failure of [Connect].
type ConnectError struct {
	Stage  Stage
	Reason string // one clear clause
	// Protocol is the version that was asked for; empty when none was pinned and the failure is not about versions.
	Protocol string
	// Offered lists the versions that the server named instead.
	Offered []string
	// Answer is the server's JSON-RPC error, when it answered with one.
	Answer *rpc.ErrorObject
	// Probe says why server/discover did not settle the era before Stage failed; nil when there was no probe. Both failures are told,
	// because the second often only follows from the first.
	Probe error
	// Err is the cause: a *rpc.CallError when a call got no answer, the error of Dial, [ErrVersion]; or nil.
	Err error
}

// Error says what failed and why, the probe's failure included.
func (e *ConnectError) Error() string {
	msg := fmt.Sprintf("%s: %s", e.Stage, e.Reason)
	if e.Probe != nil && !e.alike() {
		msg += "; before that, " + e.Probe.Error()
	}
	return msg
}

// alike reports whether the probe failed for the same reason: telling it twice would not help.
func (e *ConnectError) alike() bool {
	reason := e.Reason
	if e.Answer != nil {
		reason = strings.TrimPrefix(reason, "the server answered "+string(e.Stage)+" ")
	}
	return strings.HasSuffix(e.Probe.Error(), " "+reason)
}

// errorRunes is how many characters of the message of a JSON-RPC error stand in the text of an error. The whole message is in the error's value
// and in the trace.
const errorRunes = 1000

// ErrorText is a JSON-RPC error for the text of an error: its code and at most 1,000 characters of its message, with a note of its full size. It
// continues "the server answered with". Secrets must be taken out of the message before.
func ErrorText(e *rpc.ErrorObject) string {
	code := ""
	if len(e.Code) > 0 {
		code = " " + shorten(string(e.Code))
	}
	switch {
	case code == "" && e.Message == "":
		return "an error object without code and message"
	case code == "":
		return "an error without a code: " + cut(e.Message)
	case e.Message == "":
		return "error" + code + " without a message"
	}
	return "error" + code + ": " + cut(e.Message)
}

// cut bounds a message.
func cut(s string) string {
	n := 0
	for i := range s {
		if n == errorRunes {
			return fmt.Sprintf("%s… (%d bytes in all)", s[:i], len(s))
		}
		n++
	}
	return s
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// versionError is the refusal of a version: it names what was asked and what is there.
func versionError(stage Stage, asked string, offered []string) *ConnectError {
	but := offers(offered)
	if slices.Contains(offered, asked) {
		but = "refused it although it " + but
	}
	return &ConnectError{
		Stage: stage, Protocol: asked, Offered: offered, Err: ErrVersion,
		Reason: fmt.Sprintf("asked for protocol %s, but the server %s", asked, but),
	}
}

func offers(versions []string) string {
	switch len(versions) {
	case 0:
		return "does not speak it, and names no other version"
	case 1:
		return "offers " + shorten(versions[0])
	}
	return "offers " + shorten(strings.Join(versions, ", "))
}

// shorten bounds text from outside, without quotes.
func shorten(s string) string {
	q := quote(s)
	if len(q) == len(s)+2 {
		return s
	}
	return q
}
