package evidence

import (
	"bytes"
	"strings"
)

// url handles the colon at i when it is that of "scheme://", also written "scheme:\/\/" as JSON allows. It notes the user
// info and the values of credential-like parameters, and returns where the URL ends.
func (s *scanner) url(i int) (int, bool) {
	at, ok := afterSlashes(s.b, i)
	if !ok {
		return 0, false
	}
	start := i
	for start > 0 && i-start < 32 && isSchemeByte(s.b[start-1]) {
		start--
	}
	if start == i {
		return 0, false
	}
	end := urlEnd(s.b, at)
	s.userInfo(s.b[start:i], at)
	for k := at; k < end; k++ { // URLs within the URL
		if s.b[k] != ':' {
			continue
		}
		if inner, ok := afterSlashes(s.b, k); ok {
			s.userInfo(nil, inner)
			k = inner - 1
		}
	}
	if q := bytes.IndexAny(s.b[at:end], "?#"); q >= 0 {
		s.params(at+q+1, end)
	}
	return end, true
}

func isSchemeByte(c byte) bool {
	return classOf(c) != classSeparator || c == '+' || c == '-' || c == '.'
}

// afterSlashes returns the position after "://" at i, or after that with both slashes escaped.
func afterSlashes(b []byte, i int) (int, bool) {
	first := i + 1 + backslashes(b, i+1)
	if first >= len(b) || b[first] != '/' {
		return 0, false
	}
	second := first + 1 + backslashes(b, first+1)
	if second >= len(b) || b[second] != '/' || second-first != first-i {
		return 0, false
	}
	return second + 1, true
}

// userInfo notes what stands before the last @ of the authority at at. Outside of the web a lone user name is no secret.
func (s *scanner) userInfo(scheme []byte, at int) {
	sign := -1
	for end := at; end < len(s.b); {
		width, c := 1, s.b[end]
		if c == '\\' {
			if width, c = urlEscaped(s.b, end); width == 0 {
				break
			}
		}
		if c == '@' {
			sign = end
		}
		if c <= ' ' || bytes.IndexByte([]byte("/?#\"<>`\x7f"), c) >= 0 {
			break
		}
		end += width
	}
	if sign < 0 {
		return
	}
	web := scheme == nil || bytes.EqualFold(scheme, []byte("http")) || bytes.EqualFold(scheme, []byte("https"))
	if web || bytes.IndexByte(s.b[at:sign], ':') >= 0 {
		s.add(at, sign)
	}
}

// urlEnd returns where the URL ends whose authority begins at i. An apostrophe ends it, unless it is in the user info.
func urlEnd(b []byte, i int) int {
	for i < len(b) {
		switch c := b[i]; {
		case c == '\\':
			width, ch := urlEscaped(b, i)
			if width == 0 || ch <= ' ' || ch == '"' || ch == '<' || ch == '>' {
				return i
			}
			i += width
		case c <= ' ' || c == '"' || c == '\'' || c == '<' || c == '>' || c == '`' || c == 0x7F:
			return i
		default:
			i++
		}
	}
	return i
}

// urlEscaped decodes a JSON escape within a URL, at any depth of nesting: \/ and \u0026 are the ones that encoders write.
func urlEscaped(b []byte, i int) (width int, ch byte) {
	run := backslashes(b, i)
	rest := b[i+run:]
	switch {
	case len(rest) > 0 && rest[0] == '/':
		return run + 1, '/'
	case len(rest) >= 5 && rest[0] == 'u' && rest[1] == '0' && rest[2] == '0':
		if v, ok := hexByte(rest, 3); ok {
			return run + 5, v
		}
	}
	return 0, 0
}

// params notes the values of credential-like parameters in b[at:end]. & separates, also written &amp; or \u0026, and outside
// of secret values ; as well.
func (s *scanner) params(at, end int) {
	name, value := at, -1 // where they begin
	for i := at; i <= end; {
		width, c := 1, byte('&')
		if i < end {
			if c = s.b[i]; c == '\\' {
				width, c = urlEscaped(s.b, i)
				width = max(width, 1)
			}
		}
		switch {
		case c == '=' && value < 0:
			value = i + width
			if !s.names.query(urlEscapes.decode(nil, s.b[name:i])) {
				value = end + 1
			}
		case c == '&' || c == '#', (c == ';' || c == '?') && (value < 0 || value > end):
			if value >= 0 && value <= i {
				s.add(value, min(i, end))
			}
			name, value = i+width, -1
		}
		i += width
	}
}

// urlSuspicious reports whether "://" or `:\/` at i begins a URL with user info or parameters.
func urlSuspicious(b []byte, i int) bool {
	at, ok := afterSlashes(b, i)
	if !ok {
		return false
	}
	end := urlEnd(b, at)
	for k, c := range b[at:end] {
		if c == '@' || c == '?' || c == '#' {
			return true
		}
		if c == ':' {
			if _, ok := afterSlashes(b, at+k); ok {
				return true
			}
		}
	}
	return end < len(b) && b[end] == '\''
}

// Endpoint returns a URL as [Redactor.URL] does, and without the value of any parameter in its query: names stay, so that requests can be told
// apart. A parameter without a name is a value.
func (r *Redactor) Endpoint(u string) string {
	u = r.URL(u)
	from := strings.IndexByte(u, '?')
	if from < 0 || r.off {
		return u
	}
	query, fragment := u[from+1:], ""
	if end := strings.IndexByte(query, '#'); end >= 0 {
		query, fragment = query[:end], query[end:]
	}
	var b strings.Builder
	b.WriteString(u[:from+1])
	for len(query) > 0 {
		end := strings.IndexAny(query, "&;")
		if end < 0 {
			end = len(query)
		}
		name, value, named := strings.Cut(query[:end], "=")
		switch {
		case named && value == "", name == "" && !named:
			b.WriteString(query[:end])
		case named:
			b.WriteString(name + "=" + mark)
		default:
			b.WriteString(mark)
		}
		if query = query[end:]; query != "" {
			b.WriteByte(query[0])
			query = query[1:]
		}
	}
	return b.String() + fragment
}
