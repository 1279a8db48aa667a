package evidence

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting is how many layers of JSON in JSON strings are looked through.
const maxNesting = 4

// escaping is one way of writing bytes by others: JSON's backslashes or URLs' per cent signs. Decoding is tolerant:
// what is no escape stands for itself.
type escaping struct {
	lead byte
	// one decodes the escape at the start of src, which begins with lead, into buf. Width is 0 when it is none.
	one func(src []byte, buf *[4]byte) (width, n int)
}

var (
	jsonEscapes = escaping{'\\', jsonEscape}
	urlEscapes  = escaping{'%', urlEscape}
)

// decode appends src to dst with its escapes undone. The result is never longer than src.
func (e escaping) decode(dst, src []byte) []byte {
	var buf [4]byte
	for {
		i := bytes.IndexByte(src, e.lead)
		if i < 0 {
			return append(dst, src...)
		}
		dst = append(dst, src[:i]...)
		width, n := e.one(src[i:], &buf)
		if width == 0 {
			dst = append(dst, e.lead)
			src = src[i+1:]
			continue
		}
		dst = append(dst, buf[:n]...)
		src = src[i+width:]
	}
}

// mapBack turns spans of the decoded form of src into spans of src, in place. The spans are normalized; an escape of
// which a part lies in a span lies in it whole.
func (e escaping) mapBack(src []byte, spans []span) {
	var buf [4]byte
	at, dec := 0, 0 // positions in src and in its decoded form
	k := 0          // boundaries done: 2*k+0 is the start, 2*k+1 the last byte of a span
	for k < 2*len(spans) {
		run := bytes.IndexByte(src[at:], e.lead)
		if run < 0 {
			run = len(src) - at
		}
		k = placePlain(spans, k, at, dec, run)
		at, dec = at+run, dec+run
		if at >= len(src) {
			return
		}
		width, n := e.one(src[at:], &buf)
		if width == 0 {
			width, n = 1, 1
		}
		k = placeEscape(spans, k, at, dec, width, n)
		at, dec = at+width, dec+n
	}
}

// placePlain places the boundaries that lie in run bytes which stand for themselves.
func placePlain(spans []span, k, at, dec, run int) int {
	for ; k < 2*len(spans); k++ {
		s := &spans[k/2]
		if k%2 == 0 {
			if s.start >= dec+run {
				break
			}
			s.start += at - dec
			continue
		}
		if s.end > dec+run {
			break
		}
		s.end += at - dec
	}
	return k
}

// placeEscape places the boundaries that lie in the n bytes which an escape of the given width stands for.
func placeEscape(spans []span, k, at, dec, width, n int) int {
	for ; k < 2*len(spans); k++ {
		s := &spans[k/2]
		if k%2 == 0 {
			if s.start >= dec+n {
				break
			}
			s.start = at
			continue
		}
		if s.end > dec+n {
			break
		}
		s.end = at + width
	}
	return k
}

// jsonEscape decodes the escapes of JSON, and \xHH and \' as other languages print them.
func jsonEscape(src []byte, buf *[4]byte) (width, n int) {
	if len(src) < 2 {
		return 0, 0
	}
	switch c := src[1]; c {
	case '"', '\\', '/', '\'':
		buf[0] = c
	case 'n':
		buf[0] = '\n'
	case 't':
		buf[0] = '\t'
	case 'r':
		buf[0] = '\r'
	case 'b':
		buf[0] = '\b'
	case 'f':
		buf[0] = '\f'
	case 'x':
		v, ok := hexByte(src, 2)
		if !ok {
			return 0, 0
		}
		buf[0] = v
		return 4, 1
	case 'u':
		return unicodeEscape(src, buf)
	default:
		return 0, 0
	}
	return 2, 1
}

func unicodeEscape(src []byte, buf *[4]byte) (width, n int) {
	u, ok := hexRune(src)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(u) {
		if low, ok := hexRune(src[6:]); ok {
			if full := utf16.DecodeRune(u, low); full != utf8.RuneError {
				return 12, utf8.EncodeRune(buf[:], full)
			}
		}
	}
	return 6, utf8.EncodeRune(buf[:], u)
}

// hexRune reads \uXXXX at the start of src.
func hexRune(src []byte) (rune, bool) {
	if len(src) < 6 || src[0] != '\\' || src[1] != 'u' {
		return 0, false
	}
	hi, ok1 := hexByte(src, 2)
	lo, ok2 := hexByte(src, 4)
	return rune(hi)<<8 | rune(lo), ok1 && ok2
}

func urlEscape(src []byte, buf *[4]byte) (width, n int) {
	v, ok := hexByte(src, 1)
	if !ok {
		return 0, 0
	}
	buf[0] = v
	return 3, 1
}

// hexByte reads two hexadecimal digits of either case.
func hexByte(b []byte, i int) (byte, bool) {
	if len(b) < i+2 {
		return 0, false
	}
	hi, ok1 := hexDigit(b[i])
	lo, ok2 := hexDigit(b[i+1])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
