package m3

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/m3-go/m3/trace"
)

// A large text is decoded as encoding/json does it, whatever is in it.
func TestTextOfLargeStrings(t *testing.T) {
	t.Parallel()
	pieces := []string{"plain text ", `\n`, `\t`, `\r`, `\b`, `\f`, `\\`, `\"`, `\/`, `\u0041`, `\u00e9`, "é", "日本語", "😀", `\ud83d\ude00`, `\uD83D\uDE00`, `\ud83d`, `\ude00`, `\ud83d\u0041`,
		`\ud83dx`, "\xff", "\xe6\x97", "\u2028", `\u2029`, `\u0000`, `\uFFFD`, "\ufffd", "\x7f"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		var b strings.Builder
		b.WriteByte('"')
		for b.Len() < largeText+10 {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		b.WriteByte('"')
		var want string
		if err := json.Unmarshal([]byte(b.String()), &want); err != nil {
			t.Fatal(err)
		}
		got, err := textOf([]byte(b.String()))
		if err != nil || got != want {
			t.Fatalf("%v; %d bytes, want %d", err, len(got), len(want))
		}
	}
	large := strings.Repeat(" ", largeText)
	for _, wrong := range []string{"1" + large, "{}" + large, `[]` + large} {
		var want string
		if _, err := textOf([]byte(wrong)); err == nil || err.Error() != json.Unmarshal([]byte(wrong), &want).Error() {
			t.Errorf("%.10s: %v", wrong, err)
		}
	}
}

// Large results are decoded as small ones are, and their parts are those of the raw result.
func TestDecodeLargeToolResult(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat(`x\n`, largeText)
	for _, form := range []string{
		`{"content":[{"type":"text","text":"PAD"},{"type":"image","data":"PAD","mimeType":"i/p"}],"structuredContent":{"a":"PAD"},"isError":true}`,
		`{"content":[{"type":"text","text":null,"x":"PAD"},{"Text":"no","type":"text","y":"PAD"}]}`,
		`{"Content":[1],"content":[{"type":"text","text":"PAD"}],"structuredContent":null}`,
		`{"content":null,"pad":"PAD"}`,
		`{"content":[null],"pad":"PAD"}`,
		`{"content":[{"type":"text","text":5,"x":"PAD"}]}`,
		`{"content":[{"type":1,"x":"PAD"}]}`,
		`{"content":"PAD"}`,
		`{"content":[{"type":"text","text":"PAD","text":"b"}]}`,
		`{"content":[{"type":"text","text":"PAD","text":null}]}`,
		`{"content":[{"typ\u0065":"text","text":"PAD"}],"isError":null}`,
		` { "isError" : false , "content" : [ { "text" : "PAD" , "type" : "text" , "n" : [ 1 , { "a" : "]}" } , -2.5e3 ] } , {"type":"x\ny"} ] , "z" : {} , "y":[] } `,
		`{"content":[],"structuredContent":{"PAD":"\"}"}}`,
		`{"content":[],"structuredContent":[1,"PAD"]}`,
		`{"content":[{"type":"text","text":"PAD"},7]}`,
		`{"content":[{"type":"ÿ","text":"PAD"}]}`,
		`{"content":[{"type":"text"}],"content":[{"type":"audio","data":"PAD"}]}`,
	} {
		small, serr := decodeToolResult("call", trace.JSON(strings.ReplaceAll(form, "PAD", `x\n`)))
		raw := trace.JSON(strings.ReplaceAll(form, "PAD", pad))
		large, lerr := decodeToolResult("call", raw)
		if (serr == nil) != (lerr == nil) {
			t.Errorf("%s: small %v, large %v", form, serr, lerr)
			continue
		}
		if serr != nil {
			if serr.Error() != lerr.Error() {
				t.Errorf("%s: small %v, large %v", form, serr, lerr)
			}
			continue
		}
		shrink := func(b []byte) trace.JSON { return bytes.ReplaceAll(b, []byte(pad), []byte(`x\n`)) }
		for i := range large.Content {
			c := &large.Content[i]
			c.Raw, c.Text = shrink(c.Raw), strings.ReplaceAll(c.Text, strings.Repeat("x\n", largeText), "x\n")
		}
		large.Raw = shrink(large.Raw)
		if large.StructuredContent != nil {
			large.StructuredContent = shrink(large.StructuredContent)
		}
		if !reflect.DeepEqual(small, large) {
			t.Errorf("%s:\nsmall %+v\nlarge %+v", form, small, large)
		}
	}
	raw := trace.JSON(strings.ReplaceAll(`{"content":[{"type":"text","text":"PAD"}],"structuredContent":{"a":1}}`, "PAD", pad))
	r, err := decodeToolResult("call", raw)
	if err != nil || !inside(r.Content[0].Raw, raw) || !inside(r.StructuredContent, raw) {
		t.Errorf("the parts were copied (%v)", err)
	}
}

// inside reports whether a part lies in the memory of whole.
func inside(part, whole []byte) bool {
	for i := range whole {
		if &whole[i] == &part[0] {
			return true
		}
	}
	return false
}

// Nothing that is cut short, or no JSON at all, makes the scan of a large result fall over; what it does take, encoding/json takes the same.
func FuzzScanResult(f *testing.F) {
	for _, s := range []string{`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":[1]},"isError":true}`, `{"content":[{"type":"te`, `{"`, `{"a`, `{"a":`, `{"content":[`, `{"content":["`,
		`{"content":[{}`, `{"a":{"b":"\"`, `{"a":1,}`, `]`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := scanResult(b)
		for _, p := range r.content {
			scanBlock(p)
		}
		if !ok || !json.Valid(b) {
			return
		}
		var want struct {
			Content           []json.RawMessage `json:"content"`
			StructuredContent trace.JSON        `json:"structuredContent"`
			IsError           bool              `json:"isError"`
		}
		err := unmarshal(b, &want)
		if err != nil {
			t.Fatalf("%q is taken: %v", b, err)
		}
		if len(r.content) != len(want.Content) || !bytes.Equal(r.structured, want.StructuredContent) || r.isError != want.IsError {
			t.Fatalf("%q: %+v, want %+v", b, r, want)
		}
		for i, p := range r.content {
			if !bytes.Equal(p, want.Content[i]) {
				t.Fatalf("%q: block %d is %q, want %q", b, i, p, want.Content[i])
			}
			small, err := decodeBlock(p)
			if got, ok := scanBlock(p); ok && (err != nil || got.Type != small.Type || got.Text != small.Text) {
				t.Fatalf("%q: %+v, want %+v (%v)", p, got, small, err)
			}
		}
	})
}
