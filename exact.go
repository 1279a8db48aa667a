package m3

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"

	"github.com/m3-go/m3/trace"
)

// unmarshal is json.Unmarshal for what a server sent, but member names count exactly: encoding/json also takes "Content" for content and "iserror" for
// isError, and a server that sends those would pass here while no other client understands it. Such a member is one that nobody knows.
func unmarshal(b []byte, v any) error {
	if names := memberNames(reflect.TypeOf(v).Elem()); miscased(b, names) {
		b = withoutMiscased(b, names)
	}
	return json.Unmarshal(b, v)
}

var nameCache sync.Map // reflect.Type → []string

// memberNames are the JSON names of a struct's fields.
func memberNames(t reflect.Type) []string {
	if names, ok := nameCache.Load(t); ok {
		return names.([]string)
	}
	var names []string
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				names = append(names, name)
			}
		}
	}
	nameCache.Store(t, names)
	return names
}

// miscased reports whether a member of the object b itself is, or may be, called like one of the names but for the case.
func miscased(b []byte, names []string) bool {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := stringEnd(b, i)
			if depth == 1 && isKey(b, end) && (bytes.IndexByte(b[i:end], '\\') >= 0 || folded(string(b[i+1:end-1]), names)) {
				return true
			}
			i = end - 1
		}
	}
	return false
}

// stringEnd is the place after the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		slashes := 0
		for j := i + n - 1; j >= i && b[j] == '\\'; j-- {
			slashes++
		}
		if i += n; slashes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}

func isKey(b []byte, end int) bool {
	for ; end < len(b); end++ {
		switch b[end] {
		case ' ', '\t', '\r', '\n':
		default:
			return b[end] == ':'
		}
	}
	return false
}

func folded(key string, names []string) bool {
	for _, name := range names {
		if key == name {
			return false
		}
		if strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

// withoutMiscased is the object without the members that are called like one of the names but for the case; what is no object stays as it is.
func withoutMiscased(b []byte, names []string) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil {
		return b
	}
	before := len(members)
	maps.DeleteFunc(members, func(key string, _ json.RawMessage) bool { return folded(key, names) })
	if len(members) == before {
		return b
	}
	out := []byte{'{'}
	for key, value := range members {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(trace.AppendString(out, key), ':')
		out = append(out, value...)
	}
	return append(out, '}')
}
