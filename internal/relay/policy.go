package relay

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
)

const methodCall, methodList = "tools/call", "tools/list"

// policy is the restriction of the tools. It decides from the bytes, for every parser that a server may have: one that takes the first of two
// equal members or the last, that ignores the case of names, that splits lines at CR, that guesses at broken JSON. What two of them could read
// differently, and one as a call to a forbidden tool, is refused.
type policy struct{ allow func(tool string) bool }

// refusal is why a message of the agent is not forwarded.
type refusal struct {
	tool   string // the tool it names; empty when that is in doubt
	reason string // a sentence for the agent, when it is not simply that the server has no such tool
}

// whole looks at what makes every message in a frame doubtful. The error is that of reading it.
func (p *policy) whole(body []byte, line bool, over bool, err error) *refusal {
	switch {
	case over:
		return &refusal{reason: "the message is too large to be checked"}
	case len(bytes.TrimSpace(body)) == 0:
		return nil
	case err != nil:
		return &refusal{reason: "the message is not valid JSON: " + err.Error()}
	case !utf8.Valid(body):
		return &refusal{reason: "the message is not valid UTF-8"}
	case line && bytes.IndexByte(body, '\r') >= 0:
		return &refusal{reason: "the message has a carriage return in it, where some servers end a line"}
	}
	return nil
}

// message looks at one message. In a batch no message may be an array itself.
func (p *policy) message(m *rpc.Envelope, batch bool) *refusal {
	if !m.Object {
		if batch && len(m.Raw) > 0 && m.Raw[0] == '[' {
			return &refusal{reason: "a batch in a batch"}
		}
		return nil
	}
	var methods, params [][]byte
	mcp.WalkMembers(m.Raw, 0, func(key []byte, at int) int {
		stop := mcp.SkipValue(m.Raw, at)
		switch name := mcp.Text(key); {
		case strings.EqualFold(name, "method"):
			methods = append(methods, m.Raw[at:stop])
		case strings.EqualFold(name, "params"):
			params = append(params, m.Raw[at:stop])
		}
		return stop
	})
	switch {
	case !isCall(methods):
		return nil
	case len(methods) > 1:
		return &refusal{reason: "the message has more than one method"}
	case len(params) > 1:
		return &refusal{reason: "the message has more than one params"}
	case len(params) == 0:
		return &refusal{reason: "the call names no tool"}
	}
	return p.call(params[0])
}

// isCall reports whether a parser could take the message for a call.
func isCall(methods [][]byte) bool {
	for _, m := range methods {
		if m[0] != '"' || strings.EqualFold(strings.TrimSpace(mcp.Text(m)), methodCall) {
			return true
		}
	}
	return false
}

// call looks at the parameters of a call.
func (p *policy) call(params []byte) *refusal {
	names := folded(params, 0, "name")
	switch {
	case len(names) == 0:
		return &refusal{reason: "the call names no tool"}
	case len(names) > 1:
		return &refusal{reason: "the call names more than one tool"}
	case names[0][0] != '"':
		return &refusal{reason: "the tool's name is not a string"}
	}
	tool := mcp.Text(names[0])
	if doubtful(names[0], tool) || !p.allow(tool) {
		return &refusal{tool: tool}
	}
	return nil
}

// doubtful reports whether a name has half of a surrogate pair in it, which some parsers keep and some replace.
func doubtful(raw []byte, text string) bool {
	return strings.ContainsRune(text, utf8.RuneError) && bytes.IndexByte(raw, '\\') >= 0
}

// folded returns the values of all members of the object at b[i] whose name is the given one in any case.
func folded(b []byte, i int, name string) (values [][]byte) {
	mcp.WalkMembers(b, i, func(key []byte, at int) int {
		stop := mcp.SkipValue(b, at)
		if strings.EqualFold(mcp.Text(key), name) {
			values = append(values, b[at:stop])
		}
		return stop
	})
	return values
}

// isList reports whether a parser could take the request for one of tools/list.
func isList(m *rpc.Envelope) bool {
	if m.Twice == "" && m.Method != nil {
		return strings.EqualFold(strings.TrimSpace(m.MethodName()), methodList)
	}
	for _, method := range folded(m.Raw, 0, "method") {
		if strings.EqualFold(strings.TrimSpace(mcp.Text(method)), methodList) {
			return true
		}
	}
	return false
}

// header looks at what HTTP says beside the body: a server may read the method and the tool from there (2026-07-28), or the body in another
// way than as JSON in UTF-8.
func (p *policy) header(h map[string][]string, list []rpc.Envelope) *refusal {
	if v := h["Content-Encoding"]; len(v) > 0 && !(len(v) == 1 && strings.EqualFold(v[0], "identity")) {
		return &refusal{reason: "the body has a Content-Encoding"}
	}
	if len(h["Content-Type"]) > 1 {
		return &refusal{reason: "the request has more than one Content-Type"}
	}
	for _, v := range h["Content-Type"] {
		_, params, err := mime.ParseMediaType(v)
		if set := params["charset"]; err != nil || set != "" && !strings.EqualFold(set, "utf-8") {
			return &refusal{reason: "the body is not said to be UTF-8"}
		}
	}
	call, tool := false, ""
	if len(list) == 1 && list[0].Method != nil {
		call = isCall([][]byte{list[0].Method})
		tool = mcp.Text(mcp.Member(list[0].Params, "name"))
	}
	for _, v := range h["Mcp-Method"] {
		if strings.EqualFold(strings.TrimSpace(v), methodCall) && !call {
			return &refusal{reason: "the header Mcp-Method says tools/call and the body does not"}
		}
	}
	for _, v := range h["Mcp-Name"] {
		if call && decodeHeader(strings.TrimSpace(v)) != tool {
			return &refusal{reason: "the header Mcp-Name and the body name different tools"}
		}
	}
	return nil
}
