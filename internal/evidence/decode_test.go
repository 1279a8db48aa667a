package evidence

import (
	"bytes"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
)

// FuzzDecode checks that every part of a decoded text maps back to bytes whose decoded form has it.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`a\nb\u0041\ud83d\ude00\ud83dx\x41\q\`, "%41%zz%4", `\\\"\/`, ""} {
		f.Add([]byte(s), uint8(1), uint8(3))
	}
	wiretest.Seed(f, func(sent []byte) { f.Add(sent, uint8(1), uint8(3)) })
	f.Fuzz(func(t *testing.T, src []byte, from, length uint8) {
		for _, e := range []escaping{jsonEscapes, urlEscapes, nameEscapes} {
			plain := e.decode(nil, src)
			if len(plain) > len(src) {
				t.Fatalf("%q became longer: %q", src, plain)
			}
			start, end := int(from), int(from)+int(length)
			if length == 0 || end > len(plain) {
				continue
			}
			s := []span{{start: start, end: end}}
			e.mapBack(src, s)
			if s[0].start < 0 || s[0].end > len(src) || s[0].end <= s[0].start {
				t.Fatalf("%q %d-%d maps to %v", src, start, end, s)
			}
			if got := e.decode(nil, src[s[0].start:s[0].end]); !bytes.Contains(got, plain[start:end]) {
				t.Fatalf("%q %d-%d maps to %v: %q has no %q", src, start, end, s, got, plain[start:end])
			}
			if rest := e.decode(nil, src[:s[0].start]); len(rest) > start {
				t.Fatalf("%q %d-%d maps to %v: too late", src, start, end, s)
			}
		}
	})
}
