package harness

import "fmt"

// Blame says whose fault it is that an action did not end as the agent's own answer. It is never a failed task.
type Blame string

// The blames.
const (
	BlameAgent    Blame = "agent"    // it crashed, broke its protocol, or never ended
	BlameProvider Blame = "provider" // the model refused, failed or was not reached: key, quota, 5xx, cut stream
	BlameServer   Blame = "server"   // a server under test did not start, died, or speaks no version that the agent speaks
	BlameHarness  Blame = "harness"  // m3 or its driver: a binary that is not there, a configuration that the agent refuses
	BlamePolicy   Blame = "policy"   // a permission was refused and the agent ended the turn for that
	BlameTest     Blame = "test"     // the test asked for what cannot be: an unknown model, mode or option
)

// Error is why an action failed.
type Error struct {
	Blame Blame
	// Code is a short stable word: provider_unauthorized, provider_rate_limited, provider_error, provider_cut, agent_crashed, agent_protocol, agent_timeout, servers_dropped,
	// server_failed, server_died, server_not_initialized, tools_missing, permission_refused, executable_missing, version_unknown, option_unknown, …
	Code string
	// Message is one clear sentence, redacted by the kit.
	Message string
	// Details are safe facts: status codes, exit codes, attempts.
	Details map[string]any
	Err     error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error].
func Errorf(blame Blame, code, format string, args ...any) *Error {
	return &Error{Blame: blame, Code: code, Message: fmt.Sprintf(format, args...)}
}

// UnavailableError is why an agent cannot be run here.
type UnavailableError struct {
	Kind   string
	Reason string // executable_missing, version_unknown, environment_missing
	// Message names what is missing and how to get it.
	Message string
}

func (e *UnavailableError) Error() string { return e.Message }
