package mcp

import (
	"bytes"
	"encoding/json"
)

// The scanner finds members of a JSON object without decoding the rest of it. A tool's result may be megabytes of text, and all that this
// package wants of it is one short member. It trusts that its input is JSON; on anything else it stops early.

// eachMember calls fn with every member of the JSON object obj, in order: the key as it stands, quotes included, and the value's JSON text.
// Both are parts of obj. It reports whether obj was an object and was read to its end.
func eachMember(obj []byte, fn func(key, value []byte)) bool {
	_, whole := members(obj, skipSpace(obj, 0), func(key []byte, at int) int {
		stop := skipValue(obj, at)
		if stop > at {
			fn(key, obj[at:stop])
		}
		return stop
	})
	return whole
}

// members walks the JSON object that starts at i. It calls fn with each key as it stands and where its value starts; fn returns the index after
// the value, which it may walk itself. The result is the index after the object, and whether there was one and it was read to its end.
func members(b []byte, i int, fn func(key []byte, at int) int) (int, bool) {
	if i >= len(b) || b[i] != '{' {
		return i, false
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	for i < len(b) && b[i] == '"' {
		end := skipString(b, i)
		colon := skipSpace(b, end)
		if colon >= len(b) || b[colon] != ':' {
			return colon, false
		}
		start := skipSpace(b, colon+1)
		stop := fn(b[i:end], start)
		if stop <= start {
			return start, false
		}
		i = skipSpace(b, stop)
		if i < len(b) && b[i] == '}' {
			return i + 1, true
		}
		if i >= len(b) || b[i] != ',' {
			return i, false
		}
		i = skipSpace(b, i+1)
	}
	return i, false
}

// elements walks the JSON array that starts at i, as members does an object.
func elements(b []byte, i int, fn func(n, at int) int) (int, bool) {
	if i >= len(b) || b[i] != '[' {
		return i, false
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for n := 0; ; n++ {
		stop := fn(n, i)
		if stop <= i {
			return i, false
		}
		i = skipSpace(b, stop)
		if i < len(b) && b[i] == ']' {
			return i + 1, true
		}
		if i >= len(b) || b[i] != ',' {
			return i, false
		}
		i = skipSpace(b, i+1)
	}
}

// member returns the value of the object's member, nil when there is none. Of duplicates the last one counts, as in
// encoding/json, so that what is said about a message agrees with its decoded form.
func member(obj []byte, name string) []byte {
	var found []byte
	eachMember(obj, func(key, value []byte) {
		if keyIs(key, name) {
			found = value
		}
	})
	return found
}

// keyIs compares a key as it stands with a name, without garbage where the key has no escapes.
func keyIs(key []byte, name string) bool {
	if len(key) == len(name)+2 {
		return string(key[1:len(key)-1]) == name
	}
	return len(key) > len(name)+2 && bytes.IndexByte(key, '\\') >= 0 && text(key) == name
}

// textMember returns the object's member when it is a string.
func textMember(obj []byte, name string) (string, bool) {
	v := member(obj, name)
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	return text(v), true
}

// text returns the value of a JSON string, quotes included in s.
func text(s []byte) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return string(s)
	}
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s[1 : len(s)-1])
	}
	var v string
	if json.Unmarshal(s, &v) != nil {
		return string(s[1 : len(s)-1])
	}
	return v
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the value that starts at i, or i when none does.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	case ',', ':', '}', ']':
		return i
	}
	for i < len(b) && !endsScalar(b[i]) {
		i++
	}
	return i
}

func endsScalar(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return false
}

// skipNested returns the index after the object or array that starts at i.
func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

// skipString returns the index after the string that starts at i. It jumps from quote to quote, because most of a big result is text.
func skipString(b []byte, i int) int {
	for j := i + 1; ; {
		n := bytes.IndexByte(b[j:], '"')
		if n < 0 {
			return len(b)
		}
		j += n
		slashes := 0
		for k := j - 1; k > i && b[k] == '\\'; k-- {
			slashes++
		}
		j++
		if slashes%2 == 0 {
			return j
		}
	}
}
