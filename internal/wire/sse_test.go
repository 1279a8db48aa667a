package wire

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
)

// events feeds data in pieces of n bytes to a parser.
func events(data []byte, n int, max int64) []event {
	p := &sseParser{max: max}
	var out []event
	take := func(e *event) {
		c := *e
		c.raw, c.tail = bytes.Clone(e.raw), bytes.Clone(e.tail)
		if e.data != nil {
			c.data = append([]byte{}, e.data...)
		}
		out = append(out, c)
	}
	for len(data) > 0 {
		k := min(n, len(data))
		p.feed(bytes.Clone(data[:k]), take)
		data = data[k:]
	}
	p.end(take)
	return out
}

func TestSSE(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, data string
		want       []string // name|data|id|retry, p for partial
	}{
		{"one", "data: a\n\n", []string{"|a||0"}},
		{"joined", "data: a\ndata:b\ndata:  c\n\n", []string{"|a\nb\n c||0"}},
		{"fields", "event: x\nid: 7\nretry: 20\ndata: a\nfoo: b\ndata\n\n", []string{"x|a\n|7|20ms"}},
		{"message by name", "event: message\ndata: a\n\n", []string{"|a||0"}},
		{"line ends", "data: a\r\n\r\ndata: b\r\rdata: c\n\ndata: d\r\n\n", []string{"|a||0", "|b||0", "|c||0", "|d||0"}},
		{"comment and empty", ": hi\n\ndata:\n\n", []string{"|-||0", "|||0"}},
		{"blank lines belong to the next", "\n\n\ndata: a\n\n\n", []string{"|a||0", "|-||0"}},
		{"unterminated", "data: a\n\ndata: b\n", []string{"|a||0", "|b||0p"}},
		{"mark", "\ufeffdata: a\n\n", []string{"|a||0"}},
		{"bad retry, id with nul", "retry: 1x\nid: a\x00b\ndata: a\n\n", []string{"|a||0"}},
	} {
		for n := 1; n < 40; n++ {
			var got []string
			var raw []byte
			for _, e := range events([]byte(c.data), n, 1<<20) {
				data := string(e.data)
				if e.data == nil {
					data = "-"
				}
				retry := strings.Replace(e.retry.String(), "0s", "0", 1)
				if e.retry > 0 {
					retry = e.retry.String()
				}
				s := fmt.Sprintf("%s|%s|%s|%s", e.name, data, e.id, retry)
				if e.partial {
					s += "p"
				}
				got = append(got, s)
				raw = append(raw, e.raw...)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s in pieces of %d: %q, want %q", c.name, n, got, c.want)
			}
			if string(raw) != c.data {
				t.Errorf("%s in pieces of %d: kept %q", c.name, n, raw)
			}
		}
	}
}

var lineEnd = regexp.MustCompile("\r\n|\n|\r")

// slow is the parser of the standard, line by line, for whole streams.
func slow(data string) (out []string) {
	data = strings.TrimPrefix(data, "\ufeff")
	var parts []string
	lines := lineEnd.Split(data, -1)
	for _, l := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(l, ":")
		switch {
		case l == "":
			if parts != nil {
				out = append(out, strings.Join(parts, "\n"))
			}
			parts = nil
		case name == "data":
			parts = append(parts, strings.TrimPrefix(value, " "))
		}
	}
	return out
}

func FuzzSSE(f *testing.F) {
	f.Add("data: a\r\ndata:b\r\r: c\n\nid: 1\n\n", uint8(1), uint8(200))
	f.Add("\ufeffdata\n\ndata: x", uint8(3), uint8(4))
	wiretest.Seed(f, func(sent []byte) { f.Add(string(sent), uint8(3), uint8(200)) })
	f.Fuzz(func(t *testing.T, data string, n, max uint8) {
		limit := int64(max) + 1
		var raw []byte
		var got []string
		cutOff := false
		for _, e := range events([]byte(data), int(n)+1, limit) {
			if int64(len(e.raw)) > limit {
				t.Fatalf("%d bytes over the cap of %d", len(e.raw), limit)
			}
			cutOff = cutOff || e.dropped > 0
			at := len(raw)
			raw = append(raw, data[at:at+len(e.raw)+int(e.dropped)]...)
			if !strings.HasPrefix(data[at:], string(e.raw)) || !bytes.HasSuffix(raw, e.tail) {
				t.Fatalf("%q at %d", e.raw, at)
			}
			if e.data != nil && !e.partial {
				got = append(got, string(e.data))
			}
		}
		if string(raw) != data {
			t.Fatalf("kept %q of %q", raw, data)
		}
		if want := slow(data); !cutOff && fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("%q: %q, want %q", data, got, want)
		}
	})
}
