package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// form writes a secret in one of the ways in which it may turn up.
type form struct {
	name  string
	write func(r *rand.Rand, secret string) string
}

var forms = []form{
	{"raw", func(_ *rand.Rand, s string) string { return s }},
	{"json", func(_ *rand.Rand, s string) string { return jsonContent(s) }},
	{"json, any spelling", anySpelling},
	{"json twice", func(_ *rand.Rand, s string) string { return jsonContent(jsonContent(s)) }},
	{"json three times", func(_ *rand.Rand, s string) string { return jsonContent(jsonContent(jsonContent(s))) }},
	{"any spelling twice", func(r *rand.Rand, s string) string { return anySpelling(r, anySpelling(r, s)) }},
	{"query", func(_ *rand.Rand, s string) string { return url.QueryEscape(s) }},
	{"path", func(_ *rand.Rand, s string) string { return url.PathEscape(s) }},
	{"every byte in lower case hex", func(_ *rand.Rand, s string) string { return percent(s, "%%%02x") }},
	{"every byte in upper case hex", func(_ *rand.Rand, s string) string { return percent(s, "%%%02X") }},
	{"query in json", func(r *rand.Rand, s string) string { return anySpelling(r, url.QueryEscape(s)) }},
	{"query twice", func(_ *rand.Rand, s string) string { return url.QueryEscape(url.QueryEscape(s)) }},
	{"base64 std 0", base64Form(base64.StdEncoding, 0)},
	{"base64 std 1", base64Form(base64.StdEncoding, 1)},
	{"base64 std 2", base64Form(base64.StdEncoding, 2)},
	{"base64 url 0", base64Form(base64.RawURLEncoding, 0)},
	{"base64 url 1", base64Form(base64.RawURLEncoding, 1)},
	{"base64 url 2", base64Form(base64.RawURLEncoding, 2)},
	{"base64 in json", func(r *rand.Rand, s string) string { return anySpelling(r, base64Form(base64.StdEncoding, 1)(r, s)) }},
	{"base64 in a query", func(r *rand.Rand, s string) string { return url.QueryEscape(base64Form(base64.StdEncoding, 2)(r, s)) }},
}

func jsonContent(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

func percent(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

// anySpelling writes each character in a random one of the ways that JSON allows.
func anySpelling(r *rand.Rand, s string) string {
	var b strings.Builder
	for _, c := range s {
		must := c < 0x20 || c == '"' || c == '\\'
		switch k := r.IntN(4); {
		case c == '/' && k == 0:
			b.WriteString(`\/`)
		case c < 0x10000 && (k == 1 || must && k < 2):
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
		case must:
			q, _ := json.Marshal(string(c))
			b.Write(q[1 : len(q)-1])
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func base64Form(enc *base64.Encoding, shift int) func(*rand.Rand, string) string {
	return func(r *rand.Rand, s string) string {
		return enc.EncodeToString([]byte(randomText(r, shift+3*r.IntN(3), plainChars) + s + randomText(r, r.IntN(5), plainChars)))
	}
}

const (
	plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	wildChars  = plainChars + `-_.~+/= !"#$%&'()*,:;<>?@[\]^{|}` + "`\n\té€😀"
)

func randomText(r *rand.Rand, n int, chars string) string {
	from := []rune(chars)
	b := make([]rune, n)
	for i := range b {
		b[i] = from[r.IntN(len(from))]
	}
	return string(b)
}

// randomSecret has no white space at its ends, which does not count as part of a secret.
func randomSecret(r *rand.Rand) string {
	chars := plainChars
	if r.IntN(2) == 0 {
		chars = wildChars
	}
	return "k" + randomText(r, 5+r.IntN(40), chars) + "7"
}

// surroundings put a form into a text in which it may stand.
var surroundings = []func(r *rand.Rand, s string) string{
	func(_ *rand.Rand, s string) string { return s },
	func(r *rand.Rand, s string) string {
		return randomText(r, r.IntN(30), wildChars) + " " + s + " " + randomText(r, r.IntN(30), wildChars)
	},
	func(_ *rand.Rand, s string) string { return "\x00\xff\xfe" + s + "\x80\x00" },
	func(_ *rand.Rand, s string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a ` + s + ` b"}]}}`
	},
	func(_ *rand.Rand, s string) string { return `{"` + s + `":1}` },
	func(_ *rand.Rand, s string) string { return `{"a":"\\n` + s + `\\","b":"` + s },
	func(r *rand.Rand, s string) string {
		return strings.Repeat(randomText(r, 20, plainChars)+`\n`, 100) + s + strings.Repeat("x y ", 100)
	},
}

// leaks looks for the secret in out as an attacker would, with tools that share nothing with the code under test.
func leaks(out, secret string) string {
	layers := []string{out}
	for range 4 {
		var next []string
		for _, l := range layers {
			if strings.Contains(l, secret) {
				return "in " + l
			}
			for shift := range 3 {
				for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
					core := enc.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
					core = core[(shift*8+5)/6 : (shift+len(secret))*8/6]
					if strings.Contains(l, core) {
						return "as base64 in " + l
					}
				}
			}
			next = append(next, naive(l, `\`), naive(l, "%"), naive(strings.ReplaceAll(l, "+", " "), "%"))
		}
		slices.Sort(next)
		layers = slices.Compact(next)
	}
	return ""
}

// naive undoes one layer of escapes.
func naive(s, lead string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != lead[0] {
			b.WriteByte(s[i])
			i++
			continue
		}
		n := map[string]int{`\`: 2, "%": 3}[lead]
		if strings.HasPrefix(s[i:], `\u`) {
			n = 6
		}
		if len(s) < i+n {
			b.WriteString(s[i:])
			break
		}
		var plain string
		var err error
		if lead == `\` {
			err = json.Unmarshal([]byte(`"`+s[i:i+n]+`"`), &plain)
		} else {
			plain, err = url.PathUnescape(s[i : i+n])
		}
		if err != nil {
			plain, n = s[i:i+1], 1
		}
		b.WriteString(plain)
		i += n
	}
	return b.String()
}

func TestKnownValues(t *testing.T) {
	t.Parallel()
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, 2))
			off := NewRedactor(&RedactorConfig{Off: true})
			for i := range 300 {
				secret := randomSecret(rnd)
				written := f.write(rnd, secret)
				in := surroundings[i%len(surroundings)](rnd, written)
				r := mustRedactor(t, nil, secret, randomSecret(rnd))
				out := checkBytes(t, r, []byte(in))
				if !strings.Contains(out, mark) {
					t.Fatalf("nothing was found\nsecret %q\nin     %q", secret, in)
				}
				if where := leaks(out, secret); where != "" {
					t.Fatalf("leaked\nsecret %q\nin     %q\nout    %q\nfound  %s", secret, in, out, where)
				}
				if got, _ := off.Bytes([]byte(in)); string(got) != in || leaks(in, secret) == "" {
					t.Fatalf("the control does not show the secret\nsecret %q\nin     %q", secret, in)
				}
				checkOriginals(t, r, in, written)
			}
		})
	}
}

// checkOriginals checks that what was replaced covers all of the written secret, and not the whole text.
func checkOriginals(t *testing.T, r *Redactor, in, written string) {
	t.Helper()
	_, reds := r.Bytes([]byte(in))
	covered := 0
	for _, d := range reds {
		covered += int(d.OriginalLength)
	}
	if n := strings.Count(in, written); covered > n*len(written)+64 {
		t.Fatalf("%d bytes replaced for %d × %q in %q", covered, n, written, in)
	}
}

func TestKnownValueTable(t *testing.T) {
	t.Parallel()
	const R = mark
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----\n"
	cases := []struct{ name, value, in, want string }{
		{"longest first", "secretlong", "secretlong secretlongest", R + " " + R + "est"},
		{"overlapping", "abcabcabc", "abcabcabcabc", R},
		{"white space around the value", " s3cr3t-x\n", "a s3cr3t-x b", "a " + R + " b"},
		{"scheme", "Bearer s3cr3t-x", "token is s3cr3t-x", "token is " + R},
		{"basic", "Basic dXNlcjpodW50ZXIyMg==", "pw hunter22", "pw " + R},
		{"one line of many", pem, "MIIEvQIBADANBgkqhkiG", R},
		{"boundary line of many", pem, "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"},
		{"number", "123456", `{"pin":123456,"x":91234560}`, `{"pin":"` + R + `","x":"` + R + `"}`},
		{"number in an event", "123456", "data: {\"pin\":123456}\n\n", "data: {\"pin\":\"" + R + "\"}\n\n"},
		{"number in text", "123456", `pin 123456`, `pin ` + R},
		{"number alone", "123456", "123456\n", `"` + R + "\"\n"},
		{"structure", `{"a":{"b":1}}`, `{"x":{"a":{"b":1}},"y":2}`, `{"x":"` + R + `","y":2}`},
		{"over structure", `b":1},"y`, `{"x":{"b":1},"y":2}`, `"` + R + `"`},
		{"over structure below", `b":1,"y`, `[{"x":{"b":1,"y":2}},3]`, `[{"x":"` + R + `"},3]`},
		{"after an escape", "nabcdef", `{"a":"x\nabcdef"}`, `{"a":"x` + R + `"}`},
		{"in an escape", "41abcdef", `{"a":"x\u0041abcdef"}`, `{"a":"x` + R + `"}`},
		{"ending in a backslash", `abcdef\`, `{"a":"abcdef\\","b":"abcdef\n"}`, `{"a":"` + R + `","b":"` + R + `"}`},
		{"in a schema", "s3cr3t-x", `{"inputSchema":{"type":"object","properties":{"a":{"default":"s3cr3t-x"}}}}`, `{"inputSchema":{"type":"object","properties":{"a":{"default":"` + R + `"}}}}`},
		{"key", "s3cr3t-x", `{"s3cr3t-x":1,"s3cr3t-x":2}`, `{"` + R + `":1,"` + R + `":2}`},
		{"python bytes", "caf\u00e9-pass", `b'caf\xc3\xa9-pass'`, `b'` + R + `'`},
		{"plus for a space", "two words", `q=two+words&r=two%20words`, `q=` + R + `&r=` + R},
		{"plus for a plus", "one+two%3", `q=one%2Btwo%253`, `q=` + R},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := mustRedactor(t, nil, c.value)
			if c.name == "longest first" {
				_ = r.Add("", "secretl")
			}
			if got := checkBytes(t, r, []byte(c.in)); got != c.want {
				t.Errorf("\n  in %s\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

// TestKnownValueLong plants secrets over the places where long texts are cut for decoding.
func TestKnownValueLong(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	secret := `pa"ss/wo\rd` + randomText(rnd, 20, wildChars) + "x"
	r := mustRedactor(t, nil, secret)
	filler := strings.Repeat(`some \"text\" with \\ and \/ `, pieceSize/20)
	for _, at := range []int{pieceSize - 300, pieceSize - 60, pieceSize - 30, pieceSize - 5, pieceSize, pieceSize + 7} {
		for _, f := range []int{1, 2, 3, 6} {
			written := forms[f].write(rnd, secret)
			cut := at
			for filler[cut-1] == '\\' {
				cut--
			}
			in := `{"a":"` + filler[:cut] + written + filler[cut:] + `"}`
			out := checkBytes(t, r, []byte(in))
			if n := strings.Count(out, mark); n != 1 || strings.Contains(out, written) {
				t.Errorf("%s at %d: %d replacements", forms[f].name, at, n)
			}
		}
	}
}

// TestMatcher compares the automaton with a plain search.
func TestMatcher(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		var pats []pattern
		chars := "abcdefgh"[:2+rnd.IntN(6)]
		for range 1 + rnd.IntN(20) {
			pats = append(pats, pattern{text: randomText(rnd, 6+rnd.IntN(8), chars)})
		}
		text := []byte(randomText(rnd, rnd.IntN(300), chars))
		got := normalize(newMatcher(pats).find(nil, text))
		var want []span
		for _, p := range pats {
			for i := range text {
				if bytes.HasPrefix(text[i:], []byte(p.text)) {
					want = append(want, span{start: i, end: i + len(p.text)})
				}
			}
		}
		if want = normalize(want); !slices.Equal(got, want) {
			t.Fatalf("patterns %v in %s:\n got %v\nwant %v", pats, text, got, want)
		}
	}
}
