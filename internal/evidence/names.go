package evidence

import "bytes"

// maxName is the longest name that is looked at. A longer key is no name.
const maxName = 256

// names knows which names say that their value is secret: the words of spec/behaviour.md 7.8b, alone or as a separated
// part of a longer name, in any case and with any separator (api_key, X-Api-Key, apiKey), and the words added by the
// user. It is immutable.
type names struct {
	extra   map[string]struct{} // compact spellings: lower case, no separators
	longest int                 // of the built-in words and extra
}

// longestWord is the length of the longest built-in word.
const longestWord = len("proxyauthorization")

func newNames(extra []string) *names {
	n := &names{longest: longestWord}
	for _, e := range extra {
		var p parts
		p.split([]byte(e))
		if p.n == 0 {
			continue
		}
		if n.extra == nil {
			n.extra = map[string]struct{}{}
		}
		n.extra[string(p.buf[:p.n])] = struct{}{}
		n.longest = max(n.longest, p.n)
	}
	return n
}

// parts is a name in compact spelling together with where its parts begin. "X-API-Key" and "xApiKey" are x, api, key.
type parts struct {
	buf  [maxName]byte
	n    int
	from [maxName / 2]uint16
	k    int
	odd  bool // there are characters that are not in names of headers
}

const (
	classSeparator = iota
	classLower
	classUpper
	classDigit
)

func classOf(c byte) int {
	switch {
	case 'a' <= c && c <= 'z':
		return classLower
	case 'A' <= c && c <= 'Z':
		return classUpper
	case '0' <= c && c <= '9':
		return classDigit
	}
	return classSeparator
}

// split reads name. A name that is too long has no parts.
func (p *parts) split(name []byte) {
	p.n, p.k, p.odd = 0, 0, false
	if len(name) > maxName {
		return
	}
	prev := classSeparator
	for _, c := range name {
		cl := classOf(c)
		switch {
		case cl == classSeparator:
			prev = cl
			p.odd = p.odd || !isNameByte(c)
			continue
		case cl == classLower && prev == classUpper:
			// the K of APIKey begins a part, that of Key has begun one already
			if p.k > 0 && int(p.from[p.k-1]) != p.n-1 {
				p.begin(p.n - 1)
			}
		case cl != prev:
			p.begin(p.n)
		}
		if cl == classUpper {
			c |= 0x20
		}
		p.buf[p.n] = c
		p.n++
		prev = cl
	}
}

func (p *parts) begin(at int) {
	if p.k < len(p.from) {
		p.from[p.k] = uint16(at)
		p.k++
	}
}

func (p *parts) end(i int) int {
	if i+1 < p.k {
		return int(p.from[i+1])
	}
	return p.n
}

// any reports whether some run of parts, written together, is a word that is says yes to.
func (p *parts) any(longest int, is func(word []byte) bool) bool {
	for i := range p.k {
		from := int(p.from[i])
		for j := i; j < p.k && p.end(j)-from <= longest; j++ {
			if is(p.buf[from:p.end(j)]) {
				return true
			}
		}
	}
	return false
}

// custom reports whether the name is one of the "x-…auth/token/key/secret…" ones.
func (p *parts) custom() bool {
	if p.odd || p.k < 2 || p.end(0) != 1 || p.buf[0] != 'x' {
		return false
	}
	rest := p.buf[1:p.n]
	for _, w := range [...]string{"auth", "token", "key", "secret"} {
		if bytes.Contains(rest, []byte(w)) {
			return true
		}
	}
	return false
}

func (n *names) word(w []byte) bool {
	switch string(w) {
	case "authorization", "proxyauthorization", "cookie", "setcookie", "xapikey", "apikey", "token", "accesstoken", "refreshtoken",
		"idtoken", "authtoken", "bearertoken", "secret", "password", "passwd", "credential", "credentials", "privatekey",
		"clientsecret", "sessionkey":
		return true
	}
	if n.extra == nil {
		return false
	}
	_, ok := n.extra[string(w)]
	return ok
}

// sensitive reports whether a string under this name is secret. JSON escapes in the name are undone first.
// MCP's progressToken is none: it is an identifier that both sides repeat in the open.
func (n *names) sensitive(name []byte) bool {
	var p parts
	p.split(plainName(name))
	if p.n == 0 || string(p.buf[:p.n]) == "progresstoken" {
		return false
	}
	return p.any(n.longest, n.word) || p.custom()
}

// header reports whether the name is that of a header which carries credentials, rather than just any sensitive word.
func (n *names) header(name []byte) bool {
	var p parts
	p.split(plainName(name))
	switch string(p.buf[:p.n]) {
	case "authorization", "proxyauthorization", "cookie", "setcookie":
		return true
	}
	return p.custom()
}

// query reports whether the value of this query parameter is secret.
func (n *names) query(name []byte) bool {
	var p parts
	p.split(plainName(name))
	if string(p.buf[:p.n]) == "code" {
		return true
	}
	return p.custom() || p.any(n.longest, func(w []byte) bool {
		switch string(w) {
		case "auth", "bearer", "key", "signature", "sig":
			return true
		}
		return n.word(w)
	})
}

// plainName undoes the JSON escapes of a name, also nested ones. Names without any, nearly all, come back as they are.
func plainName(name []byte) []byte {
	for range maxNesting {
		if len(name) > 6*maxName || bytes.IndexByte(name, '\\') < 0 {
			break
		}
		plain := jsonEscapes.decode(nil, name)
		if len(plain) == len(name) {
			break
		}
		name = plain
	}
	return name
}
