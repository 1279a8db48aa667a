package acp

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/m3-go/m3/trace"
)

// raw is JSON as it stood in a frame. It aliases the line that it was decoded from.
type raw []byte

// UnmarshalJSON keeps the bytes themselves, unlike json.RawMessage, which copies them: a line is never reused, and a result may be 24 MB.
func (r *raw) UnmarshalJSON(b []byte) error { *r = b; return nil }

// MarshalJSON writes the bytes.
func (r raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

func (r raw) null() bool { return len(r) == 0 || string(r) == "null" }

// json returns a copy for whoever keeps it.
func (r raw) json() trace.JSON { return trace.JSON(slices.Clone(r)) }

// str is the value if it is a string, else "".
func (r raw) str() string {
	if len(r) == 0 || r[0] != '"' {
		return ""
	}
	var s string
	if json.Unmarshal(r, &s) != nil {
		return ""
	}
	return s
}

// object is a JSON object whose members are as they stood: names are compared exactly, and none is lost.
type object map[string]raw

// obj is the value if it is an object, else nil; a nil object has no members.
func (r raw) obj() object {
	if len(r) == 0 || r[0] != '{' {
		return nil
	}
	var o object
	if json.Unmarshal(r, &o) != nil {
		return nil
	}
	return o
}

// list is the value if it is an array, else nil.
func (r raw) list() []raw {
	if len(r) == 0 || r[0] != '[' {
		return nil
	}
	var l []raw
	if json.Unmarshal(r, &l) != nil {
		return nil
	}
	return l
}

// at follows a path of members.
func (r raw) at(path ...string) raw {
	for _, name := range path {
		r = r.obj()[name]
	}
	return r
}

// sameJSON reports whether two values are equal but for white space.
func sameJSON(a, b raw) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// encode is json.Marshal without HTML escapes, for values that cannot fail.
func encode(v any) raw {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return raw("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
