package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/m3-go/m3/trace"
)

// Appender is a params value that writes itself: one JSON object without a _meta member. Everything that is called often implements it.
type Appender interface {
	AppendParams(dst []byte) ([]byte, error)
}

// Target is the params of the three operations that name one thing: tools/call and prompts/get (Name), resources/read (URI). JSON values go
// out as they are, with their exact numbers, duplicate keys and order; only line breaks, which cannot stand in a frame, become spaces.
type Target struct {
	Name string // of a tool or prompt
	URI  string // of a resource; then Name is not sent
	// Arguments is any JSON value; nil leaves the member out.
	Arguments trace.JSON
	// InputResponses and RequestState continue an operation that asked for input. RequestState is the JSON text that the server sent, so that
	// it is echoed exactly. Nil leaves them out.
	InputResponses trace.JSON
	RequestState   trace.JSON
}

// AppendParams appends the params object. The error says which member is not JSON.
func (t *Target) AppendParams(dst []byte) ([]byte, error) {
	if t.URI != "" {
		dst = append(dst, `{"uri":`...)
		dst = trace.AppendString(dst, t.URI)
	} else {
		dst = append(dst, `{"name":`...)
		dst = trace.AppendString(dst, t.Name)
	}
	var err error
	for _, m := range [...]struct {
		key   string
		value trace.JSON
	}{{`,"arguments":`, t.Arguments}, {`,"inputResponses":`, t.InputResponses}, {`,"requestState":`, t.RequestState}} {
		if m.value == nil {
			continue
		}
		dst = append(dst, m.key...)
		if dst, err = appendRaw(dst, m.value); err != nil {
			return dst, fmt.Errorf("%s: %w", m.key[2:len(m.key)-2], err)
		}
	}
	return append(dst, '}'), nil
}

// name is what the HTTP header Mcp-Name carries.
func (t *Target) name() string {
	if t.URI != "" {
		return t.URI
	}
	return t.Name
}

// errNotJSON is wrapped by the error about a raw value that is not JSON.
var errNotJSON = errors.New("not valid JSON")

// appendRaw appends JSON text as it is, on one line.
func appendRaw(dst []byte, raw []byte) ([]byte, error) {
	if !json.Valid(raw) {
		return dst, fmt.Errorf("%w: %s", errNotJSON, quote(string(raw)))
	}
	return onOneLine(append(dst, raw...), len(dst)), nil
}

// onOneLine turns the line breaks after from into spaces. In JSON they can only stand between tokens.
func onOneLine(b []byte, from int) []byte {
	for _, c := range []byte{'\n', '\r'} {
		for i := from; ; i++ {
			n := bytes.IndexByte(b[i:], c)
			if n < 0 {
				break
			}
			i += n
			b[i] = ' '
		}
	}
	return b
}

// Encode returns v as JSON for a request: raw JSON (json.RawMessage, trace.JSON) as it is, everything else as encoding/json writes it, but
// without its HTML escapes. A nil v gives nil. Use it for the arguments of a [Target].
func Encode(v any) (trace.JSON, error) {
	if v == nil {
		return nil, nil
	}
	return appendValue(nil, v)
}

func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case json.RawMessage:
		return appendRaw(dst, v)
	case trace.JSON:
		return appendRaw(dst, v)
	}
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, err
	}
	b := buf.Bytes()
	return onOneLine(b[:len(b)-1], len(dst)), nil // Encode ends with a line break
}

// appendParams appends what stands under params: the caller's object with a _meta that merges the session's members (already
// encoded, in m), the progress token and the caller's own. It appends nothing when there is nothing to send.
func (m *meta) appendParams(dst []byte, params any, token trace.RPCID, own map[string]any) ([]byte, error) {
	start := len(dst)
	dst, err := appendObject(dst, params)
	if err != nil {
		return dst[:start], err
	}
	if len(m.members) == 0 && token == "" && len(own) == 0 {
		return dst, nil
	}
	dst = openObject(dst, start)
	dst, err = m.append(append(dst, `"_meta":{`...), token, own)
	if err != nil {
		return dst[:start], fmt.Errorf("_meta: %w", err)
	}
	return append(dst, '}', '}'), nil
}

// openObject takes the closing brace of the object at start off again and leaves dst ready for one more member. No object at
// all becomes a new one.
func openObject(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, '{')
	}
	dst = bytes.TrimRight(dst, " \t")
	dst = bytes.TrimRight(dst[:len(dst)-1], " \t")
	if dst[len(dst)-1] == '{' {
		return dst
	}
	return append(dst, ',')
}

// appendObject appends the caller's params, nothing for nil. They must be an object without _meta.
func appendObject(dst []byte, params any) ([]byte, error) {
	start := len(dst)
	var err error
	switch p := params.(type) {
	case nil:
		return dst, nil
	case Appender:
		return p.AppendParams(dst)
	default:
		dst, err = appendValue(dst, p)
	}
	if err != nil {
		return dst, fmt.Errorf("params: %w", err)
	}
	obj := dst[start:]
	if i := skipSpace(obj, 0); i == len(obj) || obj[i] != '{' {
		return dst, fmt.Errorf("params must be a JSON object, not %s", quote(string(obj)))
	}
	if bytes.Contains(obj, []byte(`"_meta"`)) && member(obj, "_meta") != nil {
		return dst, errors.New("params must not have a _meta member: m3 writes it; put yours into Meta")
	}
	return dst, nil
}

// meta is the part of _meta that is the same in every request of a session, encoded once.
type meta struct {
	members []byte   // `"a":1,"b":2`, without braces; empty in the legacy eras
	keys    []string // of members
}

const (
	metaProtocol     = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaProgress     = "progressToken"
)

// newMeta encodes the members that the protocol version asks for.
func newMeta(protocol string, c *Capabilities, name, version string) *meta {
	if !Modern(protocol) {
		return &meta{}
	}
	b := appendKey(nil, metaProtocol)
	b = trace.AppendString(b, protocol)
	b = appendKey(b, metaClientInfo)
	b = appendImplementation(b, name, version)
	b = appendKey(b, metaCapabilities)
	b = c.append(b, protocol)
	return &meta{members: b, keys: []string{metaProtocol, metaClientInfo, metaCapabilities}}
}

// append appends the members of _meta. A member that the caller gives himself replaces the session's: a test may want to lie.
func (m *meta) append(dst []byte, token trace.RPCID, own map[string]any) ([]byte, error) {
	first := len(dst)
	if !m.overridden(own) {
		dst = append(dst, m.members...)
	} else {
		eachMember(slices.Concat([]byte{'{'}, m.members, []byte{'}'}), func(key, value []byte) {
			if _, ok := own[text(key)]; !ok {
				dst = appendMember(dst, first, key, value)
			}
		})
	}
	if _, ok := own[metaProgress]; token != "" && !ok {
		dst = appendMember(dst, first, []byte(`"progressToken"`), []byte(token))
	}
	if len(own) == 0 {
		return dst, nil
	}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		v, err := appendValue(nil, own[key])
		if err != nil {
			return dst, fmt.Errorf("%s: %w", key, err)
		}
		dst = appendMember(dst, first, trace.AppendString(nil, key), v)
	}
	return dst, nil
}

func (m *meta) overridden(own map[string]any) bool {
	return len(own) > 0 && slices.ContainsFunc(m.keys, func(k string) bool { _, ok := own[k]; return ok })
}

// appendMember appends one member; first is where the members begin, for the comma.
func appendMember(dst []byte, first int, key, value []byte) []byte {
	if len(dst) > first {
		dst = append(dst, ',')
	}
	dst = append(dst, key...)
	dst = append(dst, ':')
	return append(dst, value...)
}

func appendKey(dst []byte, key string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(trace.AppendString(dst, key), ':')
}

func appendImplementation(dst []byte, name, version string) []byte {
	dst = append(dst, `{"name":`...)
	dst = trace.AppendString(dst, name)
	dst = append(dst, `,"version":`...)
	dst = trace.AppendString(dst, version)
	return append(dst, '}')
}

// buffers holds the params of calls that have ended, to be written over by the next.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// keepBuffer bounds what stays in the pool: a big call must not hold its memory for ever.
const keepBuffer = 64 << 10

// quote shortens text that came from outside for a message.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
