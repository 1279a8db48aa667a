package relay

import (
	"bytes"
	"encoding/base64"
	"strings"

	"github.com/m3-go/m3/internal/mcp"
)

// filter cuts the tools that are not allowed out of an answer to tools/list, and leaves every other byte as it is. It returns nil when there is nothing
// to cut. The answer must be valid JSON.
func (p *policy) filter(answer []byte) []byte {
	c := cutter{p: p, b: answer}
	c.members(mcp.SkipSpace(answer, 0), "result", func(at int) int {
		return c.members(at, "tools", c.tools)
	})
	if c.last == 0 {
		return nil
	}
	return append(c.out, answer[c.last:]...)
}

// cutter copies what stays.
type cutter struct {
	p    *policy
	b    []byte
	out  []byte
	last int // what stands before is in out, or cut
}

// members calls fn with where the value of each member of that name starts. What is no object has none.
func (c *cutter) members(at int, name string, fn func(at int) int) int {
	if at >= len(c.b) || c.b[at] != '{' {
		return mcp.SkipValue(c.b, at)
	}
	end, _ := mcp.WalkMembers(c.b, at, func(key []byte, at int) int {
		if strings.EqualFold(mcp.Text(key), name) {
			return fn(at)
		}
		return mcp.SkipValue(c.b, at)
	})
	return end
}

// tools cuts the array that starts at b[at].
func (c *cutter) tools(at int) int {
	if at >= len(c.b) || c.b[at] != '[' {
		return mcp.SkipValue(c.b, at)
	}
	type span struct{ from, to int }
	var keep []span
	n, first, last := 0, 0, 0
	end, _ := mcp.WalkElements(c.b, at, func(_, at int) int {
		stop := mcp.SkipValue(c.b, at)
		if n == 0 {
			first = at
		}
		last = stop
		n++
		if c.p.shown(c.b[at:stop]) {
			keep = append(keep, span{at, stop})
		}
		return stop
	})
	if len(keep) == n {
		return end
	}
	c.out = append(c.out, c.b[c.last:first]...)
	for i, s := range keep {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.b[s.from:s.to]...)
	}
	c.last = last
	return end
}

// shown reports whether a tool of a list may be seen: every name that it has is allowed.
func (p *policy) shown(tool []byte) bool {
	names := folded(tool, 0, "name")
	for _, raw := range names {
		if name := mcp.Text(raw); raw[0] != '"' || doubtful(raw, name) || !p.allow(name) {
			return false
		}
	}
	return len(names) > 0
}

// inEvent returns a server-sent event with other data: its other fields, comments and line ends stay.
func inEvent(raw, data []byte) []byte {
	var out []byte
	done := false
	for len(raw) > 0 {
		line, end := cutLine(raw)
		raw = raw[len(line)+len(end):]
		name, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), []byte(":"))
		if string(name) != "data" {
			out = append(append(out, line...), end...)
			continue
		}
		if done {
			continue
		}
		done = true
		out = append(out, line[:len(line)-len(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))]...)
		for part := range bytes.Lines(data) {
			out = append(append(append(out, "data: "...), bytes.TrimRight(part, "\r\n")...), end...)
		}
	}
	return out
}

// cutLine returns the first line of an event and what ends it.
func cutLine(b []byte) (line, end []byte) {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0:
		return b, nil
	case b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
		return b[:i], b[i : i+2]
	}
	return b[:i], b[i : i+1]
}

// decodeHeader undoes the base64 form of a header value of 2026-07-28.
func decodeHeader(v string) string {
	if inside, ok := strings.CutPrefix(v, "=?base64?"); ok && strings.HasSuffix(inside, "?=") {
		if b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inside, "?=")); err == nil {
			return string(b)
		}
	}
	return v
}
