package trace

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/m3-go/m3/internal/wiretest"
)

func TestFrameBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		framing  Framing
		in, want string
	}{
		{FramingLine, "{}\n", "{}"},
		{FramingLine, "{}\r\n", "{}"},
		{FramingLine, "{}", "{}"},
		{FramingLine, "\n", ""},
		{FramingLine, "a\n\n", "a\n"},
		{FramingBody, "{}\n", "{}\n"},
		{FramingSSE, "data: {}\n\n", "{}"},
		{FramingSSE, "data:{}\r\n\r\n", "{}"},
		{FramingSSE, "id: 1\revent: message\rdata: a\rdata:  b\r\r", "a\n b"},
		{FramingSSE, ": ping\n\n", ""},
		{FramingSSE, "data\ndata\n\n", "\n"},
		{FramingSSE, "database: x\ndata: y", "y"},
		{FramingSSE, "", ""},
	}
	for _, tt := range tests {
		f := &Frame{Framing: tt.framing, Bytes: []byte(tt.in)}
		if got := string(f.Body()); got != tt.want {
			t.Errorf("%s %q: %q, want %q", tt.framing, tt.in, got, tt.want)
		}
	}
}

func TestBodySpans(t *testing.T) {
	t.Parallel()
	raw := "event: x\ndata: {\"a\":\ndata: \"SECRET\"}\n\n"
	body, segs := frameBody(FramingSSE, []byte(raw))
	at := int64(strings.Index(raw, "SECRET"))
	spans := bodySpans([]Redaction{{Offset: at, Length: 6}, {Offset: 0, Length: 3}}, segs)
	if want := []span{{7, 13}}; !cmp.Equal(spans, want, cmp.AllowUnexported(span{})) || string(body[7:13]) != "SECRET" {
		t.Errorf("spans %v in %q", spans, body)
	}
	v, _ := whole(body)
	if !v.field("a").overlaps(spans) || (value{[]byte("x"), 6}).overlaps(spans) || (value{[]byte("x"), 13}).overlaps(spans) {
		t.Error("overlap")
	}
	if gone := []span{{7, 7}}; !(value{[]byte("ab"), 6}).overlaps(gone) || (value{[]byte("ab"), 8}).overlaps(gone) {
		t.Error("a replacement of no bytes")
	}
}

func TestPreviewKeepsRunesWhole(t *testing.T) {
	t.Parallel()
	text, cut := preview([]byte(strings.Repeat("€", PreviewBytes)))
	if !cut || !utf8.ValidString(text) || len(text) > PreviewBytes || len(text) < PreviewBytes-3 {
		t.Errorf("%d bytes, cut %v, valid %v", len(text), cut, utf8.ValidString(text))
	}
	if bin, cut := preview([]byte("\xff" + strings.Repeat("a", PreviewBytes))); !cut || !strings.HasPrefix(bin, "base64:/2Fh") {
		t.Errorf("binary: %v %.20s", cut, bin)
	}
}

func FuzzFrameBody(f *testing.F) {
	f.Add([]byte("data: a\r\ndata: b\n\n"))
	f.Add([]byte("data\r\rdata:\n: x"))
	wiretest.Seed(f, func(sent []byte) { f.Add(sent) })
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, fr := range []Framing{FramingLine, FramingSSE, FramingBody} {
			body, segs := frameBody(fr, b)
			for _, s := range segs {
				if string(body[s.body:s.body+s.n]) != string(b[s.raw:s.raw+s.n]) {
					t.Fatalf("%s %q: segment %+v of %q", fr, b, s, body)
				}
			}
		}
	})
}
