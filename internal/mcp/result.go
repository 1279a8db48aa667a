package mcp

import (
	"bytes"

	"github.com/m3-go/m3/trace"
)

// The result types of 2026-07-28. An extension may add others.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)

// ResultType returns what kind of result it is: "complete" when the member is absent, as older servers leave it, "input_required" when the
// operation waits for input, else the server's own word. A resultType that is no string is returned as its JSON text, which is no known
// type. The result is scanned, not decoded.
func ResultType(result trace.JSON) string {
	kind, ok := resultType(result)
	if !ok {
		return ResultComplete
	}
	return kind
}

// resultType also tells an absent member from a complete one. The search for the bare word is a fast way out: a key could also be
// written with escapes, but no encoder does that to letters, and then the result counts as complete.
func resultType(result []byte) (string, bool) {
	if !bytes.Contains(result, []byte(`"resultType"`)) {
		return "", false
	}
	v := member(result, "resultType")
	if v == nil {
		return "", false
	}
	return text(v), true
}

// pausable are the methods whose results may ask for input (2026-07-28).
func pausable(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// checkResultType looks for what a modern result does wrong about its type. It returns the finding's code, severity and message, or an
// empty code.
func checkResultType(method string, result []byte) (code string, sev trace.Severity, msg string) {
	kind, ok := resultType(result)
	switch {
	case !ok:
		return "result-type-missing", trace.SeverityError, "the result of " + method + " has no resultType, which " + Version20260728 + " requires; it was taken as complete"
	case kind == ResultComplete:
		return "", "", ""
	case kind != ResultInputRequired:
		return "result-type-unknown", trace.SeverityWarning, "the result of " + method + " has the unknown resultType " + quote(kind)
	case !pausable(method):
		return "input-required-misplaced", trace.SeverityError, "the result of " + method + " asks for input; only tools/call, prompts/get and resources/read may"
	case member(result, "inputRequests") == nil && member(result, "requestState") == nil:
		return "input-required-empty", trace.SeverityError, "the result of " + method + " asks for input, but has neither inputRequests nor requestState"
	}
	return "", "", ""
}
