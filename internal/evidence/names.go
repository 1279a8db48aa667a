package evidence

import "bytes"

// maxName is the longest name that is looked at. A longer key is no name.
const maxName = 256

// names knows which names say that their value is secret: the words of spec/behaviour.md 7.8b, alone or as a separated
// part of a longer name, in any case and with any separator (api_key, X-Api-Key, apiKey), and the words added by the
// user. It is immutable.
type names struct {
	extra   map[string]splits // by compact spelling: lower case, no separators
	longest int               // of the built-in words and extra
}

// splits are the places in a compact word at which separators may stand: bit i for before byte i.
type splits uint64

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
			n.extra = map[string]splits{}
		}
		word := string(p.buf[:p.n])
		may := n.extra[word]
		for i := 1; i < p.k; i++ {
			may |= 1 << p.from[i]
		}
		n.extra[word] = may
		n.longest = max(n.longest, p.n)
	}
	return n
}

// parts is a name in compact spelling together with where its parts begin. "X-API-Key" and "xApiKey" are x, api, key.
type parts struct {
	buf  [maxName]byte
	n    int
	from [maxName / 2]uint16
	sep  [maxName / 2]bool // there is a separator before it, not just a change of case
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
				p.begin(p.n-1, false)
			}
		case cl != prev:
			p.begin(p.n, prev == classSeparator)
		}
		if cl == classUpper {
			c |= 0x20
		}
		p.buf[p.n] = c
		p.n++
		prev = cl
	}
}

func (p *parts) begin(at int, sep bool) {
	if p.k < len(p.from) {
		p.from[p.k], p.sep[p.k] = uint16(at), sep
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
func (p *parts) any(longest int, is func(word []byte, at splits) bool) bool {
	for i := range p.k {
		from, at := int(p.from[i]), splits(0)
		for j := i; j < p.k && p.end(j)-from <= longest; j++ {
			if j > i && p.sep[j] {
				at |= 1 << (int(p.from[j]) - from)
			}
			if is(p.buf[from:p.end(j)], at) {
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
	for i := 1; i < p.k; i++ {
		// what stands between two separators, whatever the case
		from := int(p.from[i])
		for i+1 < p.k && !p.sep[i+1] {
			i++
		}
		for _, w := range [...]string{"auth", "token", "key", "secret"} {
			if bytes.Contains(p.buf[from:p.end(i)], []byte(w)) {
				return true
			}
		}
	}
	return false
}

// word reports whether w is a word, and may be separated where it is. Of built-in words of two parts the second mostly is a
// word itself.
func (n *names) word(w []byte, at splits) bool {
	switch string(w) {
	case "authorization", "proxyauthorization", "cookie", "setcookie", "token", "accesstoken", "refreshtoken", "idtoken", "authtoken",
		"bearertoken", "secret", "password", "passwd", "credential", "credentials", "clientsecret":
		return at == 0
	case "apikey", "privatekey", "sessionkey":
		return at&^(1<<(len(w)-len("key"))) == 0
	}
	if n.extra == nil {
		return false
	}
	may, ok := n.extra[string(w)]
	return ok && at&^may == 0
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
		return n.sensitive(name)
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
	return p.custom() || p.any(n.longest, func(w []byte, at splits) bool {
		switch string(w) {
		case "auth", "bearer", "key", "signature", "sig":
			return at == 0
		}
		return n.word(w, at)
	})
}

// nameEscapes are JSON's own.
var nameEscapes = escaping{'\\', func(src []byte, buf *[4]byte) (width, n int) {
	if len(src) > 1 && src[1] == 'x' {
		return 0, 0
	}
	return jsonEscape(src, buf)
}}

// plainName undoes the JSON escapes of a name, also nested ones. Names without any, nearly all, come back as they are.
func plainName(name []byte) []byte {
	for range maxNesting {
		if len(name) > 6*maxName || bytes.IndexByte(name, '\\') < 0 {
			break
		}
		plain := nameEscapes.decode(nil, name)
		if len(plain) == len(name) {
			break
		}
		name = plain
	}
	return name
}
