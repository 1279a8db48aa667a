package evidence

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/m3-go/m3/trace"
)

// RedactorConfig tunes a [Redactor]. Nil and the zero value mean the rules of spec/behaviour.md 7.8b and nothing else.
type RedactorConfig struct {
	// Keys are further sensitive names, in any spelling: "session id" also means sessionId and SESSION-ID.
	Keys []string
	// Off switches everything off. It is for the control runs of this module's own tests only.
	Off bool
}

// Redactor takes secrets out of bytes before they are kept. It never fails: bytes that are no JSON, broken or cut are
// searched like all others. It may be used from several goroutines, also while values are added.
type Redactor struct {
	off   bool
	names *names
	look  *lookout
	pool  sync.Pool // *scratch

	mu     sync.Mutex
	values map[string]bool
	// known finds the values; its content is nil when there are none, and it is nil itself when it has to be made anew.
	known atomic.Pointer[knownValues]
}

type knownValues struct{ m *matcher }

// NewRedactor returns a Redactor that knows no values yet.
func NewRedactor(cfg *RedactorConfig) *Redactor {
	if cfg == nil {
		cfg = &RedactorConfig{}
	}
	r := &Redactor{off: cfg.Off, names: newNames(cfg.Keys), look: lookoutFor(cfg.Keys), values: map[string]bool{}}
	r.pool.New = func() any { return new(scratch) }
	r.known.Store(&knownValues{})
	return r
}

// Add makes value a known secret: it is replaced wherever and in whatever spelling it turns up from now on. Name is what
// to call it in an error. A value of less than 6 bytes (white space around it does not count) is not added: the error is
// a *[ShortSecretError]. Adding a value twice is the same as once.
func (r *Redactor) Add(name, value string) error {
	all := spellings(value)
	if len(all[0]) < minSecret {
		return &ShortSecretError{Name: name, Size: len(all[0])}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range all {
		// a part of the mark itself cannot be hidden by it
		if len(v) >= minSecret && !r.values[v] && !strings.Contains(quotedMark, v) {
			r.values[v] = true
			r.known.Store(nil)
		}
	}
	return nil
}

// Sensitive reports whether a value under this name (of a key, an environment variable or a header) is secret.
func (r *Redactor) Sensitive(name string) bool {
	return r.names.sensitive([]byte(name)) || isSessionHeader(name)
}

// isSessionHeader reports whether the name is that of the header with the id of an MCP session. Who holds the id can speak in the session, as
// with a bearer token.
func isSessionHeader(name string) bool {
	const want = "Mcp-Session-Id"
	return len(name) == len(want) && strings.EqualFold(name, want)
}

// matcher returns what finds the known values; nil when there are none.
func (r *Redactor) matcher() *matcher {
	if k := r.known.Load(); k != nil {
		return k.m
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known.Load(); k != nil {
		return k.m
	}
	var all []pattern
	for v := range r.values {
		all = append(all, patterns(v)...)
	}
	k := &knownValues{newMatcher(all)}
	r.known.Store(k)
	return k.m
}

// Bytes applies every rule to a frame, a payload or a line of stderr. When nothing was replaced it returns b itself, and
// nil. It never changes b. What was valid JSON stays valid; a number or a structure that spells a known value becomes a
// string.
func (r *Redactor) Bytes(b []byte) ([]byte, []trace.Redaction) { return r.apply(b, true, nil) }

// Known replaces known values only: for files, in which a word before a colon says nothing about what comes after it. When nothing was replaced it returns b
// itself.
func (r *Redactor) Known(b []byte) []byte {
	out, _ := r.apply(b, false, nil)
	return out
}

// String applies every rule to a text that people read: an error, a diff, the output of a test.
func (r *Redactor) String(s string) string {
	out, reds := r.Bytes([]byte(s))
	if reds == nil {
		return s
	}
	return string(out)
}

// Header returns the value of a header or environment variable as it may be kept: not at all when the name is sensitive,
// else after every rule.
func (r *Redactor) Header(name, value string) string {
	if r.off || value == "" {
		return r.String(value)
	}
	if isSessionHeader(name) || r.look.mayBe([]byte(name)) && r.names.sensitive([]byte(name)) {
		return mark
	}
	return r.String(value)
}

// URL returns a URL, also a relative one, without user info and the values of credential-like parameters, and after every
// other rule.
func (r *Redactor) URL(u string) string {
	out, reds := r.apply([]byte(u), true, (*scanner).wholeURL)
	if reds == nil {
		return u
	}
	return string(out)
}

// identifier applies only known values: an id or a method name is no place for the other rules.
func (r *Redactor) identifier(s string) string {
	if r.off || len(s) < minSecret {
		return s
	}
	m := r.matcher()
	var room [128]byte // nearly all identifiers are short: no garbage for them
	if m == nil || len(s) <= len(room) && m.rulesOut(append(room[:0], s...)) {
		return s
	}
	out, reds := r.apply([]byte(s), false, nil)
	if reds == nil {
		return s
	}
	return string(out)
}

// apply looks for known values, for what is secret by its place, and for what more says.
func (r *Redactor) apply(b []byte, places bool, more func(*scanner, []byte)) ([]byte, []trace.Redaction) {
	if r.off || len(b) == 0 {
		return b, nil
	}
	m := r.matcher()
	places = places && r.look.suspicious(r.names, b)
	if m == nil && !places && more == nil {
		return b, nil
	}
	s := r.pool.Get().(*scratch)
	defer r.release(s)
	spans := r.spans(s, m, b, places, more)
	if len(spans) == 0 {
		return b, nil
	}
	return replace(b, keepJSON(b, spans))
}

func (r *Redactor) release(s *scratch) {
	s.trim()
	r.pool.Put(s)
}

// spans returns what is to be replaced, normalized.
func (r *Redactor) spans(s *scratch, m *matcher, b []byte, places bool, more func(*scanner, []byte)) []span {
	s.spans = s.spans[:0]
	if m != nil {
		m.search(s, b)
	}
	if places {
		r.scanAll(s, b, 0)
	}
	if more != nil {
		s.scan.names, s.scan.look, s.scan.b, s.scan.found = r.names, r.look, b, s.scan.found[:0]
		more(&s.scan, b)
		s.take()
	}
	return normalize(s.spans)
}

// scanAll runs the scanner over b and, when escapes may hide quotes or names, over its decoded form.
func (r *Redactor) scanAll(s *scratch, b []byte, depth int) {
	s.scan.run(r.names, r.look, b)
	s.take()
	if depth >= maxNesting || !hasASCIIEscape(b) {
		return
	}
	plain := jsonEscapes.decode(nil, b)
	from := len(s.spans)
	r.scanAll(s, plain, depth+1)
	s.mapTail(from, jsonEscapes, b)
}

// take moves what the scanner found to the spans.
func (s *scratch) take() {
	for _, f := range s.scan.found {
		s.spans = append(s.spans, f.span)
	}
}

// wholeURL notes the secret parts of b, which is one URL.
func (s *scanner) wholeURL(b []byte) {
	for i, c := range b {
		if c != ':' {
			continue
		}
		if at, ok := afterSlashes(b, i); ok {
			s.userInfo(b[:i], at)
			break
		}
	}
	for i, c := range b {
		if c == '?' || c == '#' {
			s.params(i+1, len(b))
			break
		}
	}
}
