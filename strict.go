package m3

import (
	"fmt"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

// Strictness says which findings are failures. The zero value makes none one.
type Strictness string

// The strictnesses, by the least severe finding that fails.
const (
	StrictNotes    Strictness = "note"    // every finding
	StrictWarnings Strictness = "warning" // warnings and errors
	StrictErrors   Strictness = "error"   // errors only
)

// severities, from remark to defect.
var severities = []trace.Severity{trace.SeverityNote, trace.SeverityWarning, trace.SeverityError}

func (s Strictness) check() error {
	if s == "" || slices.Contains(severities, trace.Severity(s)) {
		return nil
	}
	return validationf("Direct: Strict is %q: use m3.StrictNotes, m3.StrictWarnings or m3.StrictErrors", string(s))
}

// fails reports whether the finding is a failure. How grave findings were that were counted and not kept is not known: they are failures.
func (s Strictness) fails(f trace.Finding) bool {
	return s != "" && (f.Code == codeTruncated || slices.Index(severities, f.Severity) >= slices.Index(severities, trace.Severity(s)))
}

const codeTruncated = "findings-truncated"

// FindingsError says that a client saw findings that its DirectOptions.Strict makes failures. [Client.Close] returns it, and m3test fails the
// test with it.
type FindingsError struct {
	Message string
	// Details: operation ("close"), server, strict (the severity), count.
	Details map[string]any
	// Findings are those that are failures, in order.
	Findings []trace.Finding
}

func (e *FindingsError) Error() string { return "m3: " + e.Message }

// Code is "findings".
func (e *FindingsError) Code() string { return "findings" }

// strict returns what the findings of the whole execution make a failure; nil when nothing does.
func (c *Client) strict() error {
	var failed []trace.Finding
	for _, f := range c.Findings() {
		if c.opts.Strict.fails(f) {
			failed = append(failed, f)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	e := &FindingsError{Message: c.strictMessage(failed), Findings: failed,
		Details: map[string]any{"operation": "close", "server": c.server, "strict": string(c.opts.Strict), "count": len(failed)}}
	if f := c.kit.cfg.OnFindings; f != nil {
		f(e)
	}
	return e
}

// strictMessage lists the first of the findings, one a line.
func (c *Client) strictMessage(failed []trace.Finding) string {
	var b strings.Builder
	things := "findings"
	if len(failed) == 1 {
		things = "finding"
	}
	fmt.Fprintf(&b, "%s: %d %s of severity %s or above (DirectOptions.Strict):", c.server, len(failed), things, string(c.opts.Strict))
	const most = 10
	for i, f := range failed {
		if i == most {
			fmt.Fprintf(&b, "\n  and %d more", len(failed)-most)
			break
		}
		fmt.Fprintf(&b, "\n  %s (%s)", f.Code, f.Severity)
		if f.Sequence >= 0 {
			fmt.Fprintf(&b, " at event %d", f.Sequence)
		}
		b.WriteString(": " + strings.ReplaceAll(f.Message, "\n", " "))
		if f.Clause != "" {
			b.WriteString(" [" + f.Clause + "]")
		}
	}
	return b.String()
}
