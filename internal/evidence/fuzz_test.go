package evidence

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/wiretest"
)

// fuzzSeeds are inputs near the rules.
var fuzzSeeds = []string{
	`{"password":"x","a":[{"name":"token","value":"y"}]}`, `{"t":"{\"u\":\"{\\\"password\\\":\\\"x1\\\"}\"}"}`,
	`{"inputSchema":{"type":"object","properties":{"password":{}},"default":{"password":"x"}}}`, `{"pass\u0077ord":"x1"}`,
	`https:\/\/u:p@h\/p?code=abc\u0026token=1#key=2`, `Authorization: Bearer abc`, "event: m\ndata: {\"pin\":123456}\n\n", `[1,"password='abc","d'"]`,
	`{"a":"\u0022password\u0022:","b":"c"}`, `secret-one`, `{"a":"\u0073ecret-one","b":12345678}`, `c2VjcmV0LW9uZQ==`, `%73ecret-one`, `abc\"d\\`, `"abc\"d\\"`,
	`{"password":"x\`, "\\\\\\\"password\\\\\\\":\\\\\\\"", `key = "`, `:'`, `=>`, `x-key=x-key=`, "\xff\xfe{\"token\":\"\xff\"}",
	`{"{p$assword;":"x"}`, "{\"name\":\"token\"\x19\"value\":\"y\"}", `{"value":"x","name":"token`, `:\\"password"password\\\":\\\\\":\\\"`, `x-k-eyx=-abc`,
}

// FuzzRedactor checks what holds for all inputs (checkBytes), that the fast look misses nothing that the scanner finds, and
// that nothing is left of a known value as it stands.
func FuzzRedactor(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s), "secret-one")
		f.Add([]byte(s), `abc"d\`)
		f.Add([]byte(s), `12345678`)
	}
	wiretest.Seed(f, func(sent []byte) { f.Add(sent, "secret-one") })
	f.Fuzz(func(t *testing.T, in []byte, secret string) {
		plain := NewRedactor(nil)
		checkBytes(t, plain, in)
		if found := new(scanner).run(plain.names, plain.look, in); len(found) > 0 && !plain.look.suspicious(plain.names, in) {
			t.Fatalf("the look at %q misses %v", in, found)
		}
		r := NewRedactor(nil)
		if r.Add("f", secret) != nil || strings.ContainsAny(secret, "[]REDACT") {
			return
		}
		out := checkBytes(t, r, in)
		if value := strings.TrimSpace(secret); strings.Contains(out, value) {
			t.Fatalf("%q is left of %q in %q", value, in, out)
		}
		r.Header(secret, string(in))
		r.URL(string(in))
	})
}

// TestNearRules makes texts of pieces of the rules: what the fuzzer does, for a while.
func TestNearRules(t *testing.T) {
	t.Parallel()
	pieces := []string{`"`, `\"`, `\\\"`, `\`, `{`, `}`, `[`, `]`, `:`, `,`, `=`, ` `, "\n", `\n`, "password", "token", "X-Api-Key", "name", "value", "x", "'",
		"inputSchema", "properties", "type", "object", "https://", `:\/\/`, "u:p@h", "?key=", "&code=", `\u0022`, `\u0026`, "Authorization", "Bearer ", "Cookie",
		"secret-one", "12345678", "data: ", "--", "export ", "-", "%73ecret-one", `\u0073ecret-one`, "progressToken", "api", "key", "_"}
	rnd := rand.New(rand.NewPCG(7, 8))
	r := mustRedactor(t, nil, "secret-one", "12345678", `x"}`+"secret")
	plain := NewRedactor(nil)
	sc := new(scanner)
	for range 60000 {
		var b strings.Builder
		for range 1 + rnd.IntN(14) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		in := []byte(b.String())
		if found := sc.run(plain.names, plain.look, in); len(found) > 0 && !plain.look.suspicious(plain.names, in) {
			t.Fatalf("the look at %q misses %v", in, found)
		}
		out := checkBytes(t, r, in)
		if strings.Contains(out, "secret-one") || strings.Contains(out, "12345678") {
			t.Fatalf("left in %q of %q", out, in)
		}
	}
}

// TestLinear runs inputs that are bad for one part or another at two sizes: sixteen times as long may not take more than
// sixty times the time, which a quadratic algorithm exceeds fourfold.
func TestLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	r := mustRedactor(t, nil, strings.Repeat("a", 500)+"b", "secret-one", `back\slash`)
	for _, unit := range []string{
		"a", `\`, `"`, `\"`, "{", "}", "[{", `"password":"`, `"password":`, `{"password":"x"},`, "token ", "token=", "token:", "https://", "https://a?key=", `%61`, `\u0061`,
		`\\u0061`, "password='", `secret-one`, `,"name":"`, "data: 12345\n", `{"inputSchema":`, "secret-on", `"authorization",`, "12345678,", `:"token`, `password" "`, `x:y"`,
	} {
		measure := func(n int) time.Duration {
			in := bytes.Repeat([]byte(unit), n/len(unit))
			best := time.Hour
			for range 3 {
				start := cpuTime(t)
				r.Bytes(in)
				best = min(best, cpuTime(t)-start)
			}
			return best
		}
		small, big := measure(16<<10), measure(256<<10)
		if big > 60*small+20*time.Millisecond {
			t.Errorf("%.20q: %v for 16 KiB, %v for 256 KiB", unit, small, big)
		}
	}
}
