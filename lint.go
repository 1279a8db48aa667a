package m3

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// What a server lists and answers is looked at for what is known to break clients. Nothing here changes a result.

const (
	clauseTools = "server/tools"
	// hugeResult is from how many bytes on a result is told: about 250,000 tokens.
	hugeResult = 1 << 20
	maxLinted  = 4096
	// maxDoubled is the shortest payload whose repetition is told.
	minDoubled = 64
)

var (
	// specName is the rule of 2025-11-25 (SEP-986), hostName that of the strictest known hosts.
	specName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)
	hostName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// linter remembers which tools were looked at, and the names of the list in hand.
type linter struct {
	mu    sync.Mutex
	seen  map[[sha256.Size]byte]bool
	names map[string]bool
}

// lintPage looks at one page of tools; first says that a list begins with it.
func lintPage[T any](c *Client, p *Page[T], first bool, sequence int64) {
	tools, ok := any(p.Items).([]ToolInfo)
	if !ok {
		return
	}
	c.linter.mu.Lock()
	defer c.linter.mu.Unlock()
	if first || c.linter.names == nil {
		c.linter.names = map[string]bool{}
	}
	for i := range tools {
		t := &tools[i]
		if t.Name != "" && c.linter.names[t.Name] {
			c.tape.Find(trace.Finding{Code: "duplicate-tool-name", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseTools,
				Message: fmt.Sprintf("two tools are called %s: a call of that name is ambiguous", shorten(t.Name))})
		}
		c.linter.names[t.Name] = true
		if c.linter.isNew(t.Raw) {
			c.lintTool(t, sequence)
		}
	}
}

// isNew reports whether the item was not looked at before.
func (l *linter) isNew(raw []byte) bool {
	key := sha256.Sum256(raw)
	if l.seen[key] || len(l.seen) >= maxLinted {
		return false
	}
	if l.seen == nil {
		l.seen = map[[sha256.Size]byte]bool{}
	}
	l.seen[key] = true
	return true
}

func (c *Client) lintTool(t *ToolInfo, sequence int64) {
	switch {
	case t.Malformed != "" && len(mcp.CheckResult("tools/list", trace.JSON(`{"tools":[`+string(t.Raw)+`]}`))) > 0:
		return // the result's own finding says it
	case t.Malformed != "":
		c.tape.Find(trace.Finding{Code: "tool-malformed", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("an item of tools/list is no tool (%s); the others stay usable", t.Malformed)})
		return
	case !specName.MatchString(t.Name):
		c.tape.Find(trace.Finding{Code: "tool-name", Severity: trace.SeverityWarning, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the tool name %s: names should be 1 to 128 letters, digits, '_', '-', '.' and '/'; some clients then drop every tool", shorten(t.Name))})
	case !hostName.MatchString(t.Name):
		c.tape.Find(trace.Finding{Code: "tool-name-host", Severity: trace.SeverityNote, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the tool name %s: it is allowed, but hosts with the rule [a-zA-Z0-9_-]{1,64} refuse it", shorten(t.Name))})
	}
	if t.InputSchema == nil {
		c.tape.Find(trace.Finding{Code: "tool-malformed", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the tool %s has no inputSchema", shorten(t.Name))})
	}
	c.lintSchema(t.Name, "inputSchema", t.InputSchema, sequence)
	c.lintSchema(t.Name, "outputSchema", t.OutputSchema, sequence)
}

// lintSchema looks at one schema.
func (c *Client) lintSchema(tool, member string, raw trace.JSON, sequence int64) {
	if raw == nil {
		return
	}
	if _, err := compileSchema(raw); err != nil {
		c.tape.Find(trace.Finding{Code: "schema-unusable", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the tool %s: its %s cannot be used: %s", shorten(tool), member, schemaReason(err))})
		return
	}
	var head struct {
		Dialect string `json:"$schema"`
		Type    any    `json:"type"`
	}
	_ = json.Unmarshal(raw, &head) // a schema that is true or false has neither
	if head.Dialect != "" && !bytes.Contains([]byte(head.Dialect), []byte("2020-12")) {
		c.tape.Find(trace.Finding{Code: "schema-dialect", Severity: trace.SeverityNote, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the tool %s: its %s names the dialect %s; clients that know only 2020-12 refuse it", shorten(tool), member, shorten(head.Dialect))})
	}
	if head.Type != "object" {
		c.tape.Find(trace.Finding{Code: "schema-type", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the tool %s: the type of its %s must be \"object\"", shorten(tool), member)})
	}
	if bytes.Contains(raw, []byte(`"$ref"`)) {
		c.tape.Find(trace.Finding{Code: "schema-ref", Severity: trace.SeverityNote, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the tool %s: its %s uses $ref, which several clients do not resolve", shorten(tool), member)})
	}
}

// lintResult looks at the result of a tool.
func (c *Client) lintResult(tool string, r *ToolCallResult, sequence int64) {
	if n := len(r.Raw); n > hugeResult {
		c.tape.Find(trace.Finding{Code: "result-huge", Severity: trace.SeverityNote, Sequence: sequence, Offset: -1, Clause: clauseTools,
			Message: fmt.Sprintf("the result of %s has %d bytes, about %d tokens: no model can read it whole", shorten(tool), n, n/4)})
	}
	if r.StructuredContent == nil {
		return
	}
	var raw struct {
		Content []struct{ Type, Data string }
	}
	if !bytes.Contains(r.Raw, []byte(`"data"`)) || json.Unmarshal(r.Raw, &raw) != nil {
		return
	}
	for _, b := range raw.Content {
		if len(b.Data) >= minDoubled && bytes.Contains(r.StructuredContent, []byte(b.Data)) {
			c.tape.Find(trace.Finding{Code: "result-doubled", Severity: trace.SeverityWarning, Sequence: sequence, Offset: -1, Clause: clauseTools,
				Message: fmt.Sprintf("the result of %s carries the same %s of %d bytes as content and again in structuredContent: about %d tokens twice", shorten(tool), b.Type, len(b.Data), len(b.Data)/4)})
		}
	}
}

// mismatched notes a result that does not fit its tool's schema, and returns err.
func (c *Client) mismatched(sequence int64, err error) error {
	var v *ValidationError
	if errors.As(err, &v) && v.Details["kind"] == "invalid_result" {
		c.tape.Find(trace.Finding{Code: "output-mismatch", Severity: trace.SeverityError, Sequence: sequence, Offset: -1, Clause: clauseTools, Message: v.Message})
	}
	return err
}

// shorten bounds a name from outside.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%.*q…", most, s)
	}
	return fmt.Sprintf("%q", s)
}
