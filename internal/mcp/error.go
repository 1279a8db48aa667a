package mcp

import (
	"errors"
	"fmt"
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
	msg := fmt.Sprintf("connect: %s: %s", e.Stage, e.Reason)
	if e.Probe != nil {
		msg += "; before that, " + e.Probe.Error()
	}
	return msg
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// versionError is the refusal of a version: it names what was asked and what is there.
func versionError(stage Stage, asked string, offered []string) *ConnectError {
	return &ConnectError{
		Stage: stage, Protocol: asked, Offered: offered, Err: ErrVersion,
		Reason: fmt.Sprintf("asked for protocol %s, but the server %s", asked, offers(offered)),
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
