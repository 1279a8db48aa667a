package evidence

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/m3-go/m3/trace"
)

// mustRedactor returns a Redactor that knows the values.
func mustRedactor(t testing.TB, cfg *RedactorConfig, values ...string) *Redactor {
	t.Helper()
	r := NewRedactor(cfg)
	for _, v := range values {
		if err := r.Add("test", v); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// checkBytes redacts in and checks everything that must hold whatever the input.
func checkBytes(t testing.TB, r *Redactor, in []byte) string {
	t.Helper()
	before := string(in)
	out, reds := r.Bytes(in)
	if string(in) != before {
		t.Fatalf("Bytes changed its input\n was %q\n now %q", before, in)
	}
	if reds == nil && string(out) != before {
		t.Fatalf("changed without a redaction: %q", out)
	}
	if len(out) > 14*len(in) {
		t.Fatalf("%d bytes became %d", len(in), len(out))
	}
	if back := restore(t, out, in, reds); back != before {
		t.Fatalf("with the originals put back:\n got %q\nwant %q", back, before)
	}
	if json.Valid(in) && !json.Valid(out) {
		t.Fatalf("valid JSON became invalid:\n from %s\n to   %s", in, out)
	}
	return string(out)
}

// restore puts the originals back in the place of the replacements.
func restore(t testing.TB, out, in []byte, reds []trace.Redaction) string {
	t.Helper()
	var back strings.Builder
	at := int64(0)
	for _, d := range reds {
		if d.Offset < at || d.Length <= 0 || d.OriginalLength <= 0 || d.Offset+d.Length > int64(len(out)) {
			t.Fatalf("bad redaction %+v after offset %d", d, at)
		}
		back.Write(out[at:d.Offset])
		if int64(back.Len()) != d.OriginalOffset {
			t.Fatalf("original offset is %d, want %d", d.OriginalOffset, back.Len())
		}
		if got := string(out[d.Offset : d.Offset+d.Length]); got != mark && got != quotedMark {
			t.Fatalf("replacement is %q", got)
		}
		back.Write(in[d.OriginalOffset : d.OriginalOffset+d.OriginalLength])
		at = d.Offset + d.Length
	}
	back.Write(out[at:])
	return back.String()
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	const R = mark
	cases := []struct{ name, in, want string }{
		{"nothing", `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, ""},
		{"empty", ``, ""},
		{"key", `{"password":"x1"}`, `{"password":"` + R + `"}`},
		{"spaces", `{ "password" : "x1" , "b":1}`, `{ "password" : "` + R + `" , "b":1}`},
		{"camel case", `{"accessToken":"x1","dbPassword":"y","APIKey":"z"}`, `{"accessToken":"` + R + `","dbPassword":"` + R + `","APIKey":"` + R + `"}`},
		{"dashes", `{"X-Api-Key":"x1","user-secret-2":"y"}`, `{"X-Api-Key":"` + R + `","user-secret-2":"` + R + `"}`},
		{"x- header", `{"x-goog-auth-user":"x1"}`, `{"x-goog-auth-user":"` + R + `"}`},
		{"every word", `{"authorization":"a","cookie":"a","set_cookie":"a","api_key":"a","apikey":"a","id_token":"a","token":"a","secret":"a","password":"a","passwd":"a","credential":"a","credentials":"a","private_key":"a","client_secret":"a","session_key":"a","proxy-authorization":"a"}`,
			strings.ReplaceAll(`{"authorization":"a","cookie":"a","set_cookie":"a","api_key":"a","apikey":"a","id_token":"a","token":"a","secret":"a","password":"a","passwd":"a","credential":"a","credentials":"a","private_key":"a","client_secret":"a","session_key":"a","proxy-authorization":"a"}`, `"a"`, `"`+R+`"`)},
		{"other words", `{"tokens":"a","tokenizer":"a","monkey":"a","key":"a","author":"a","passage":"a","secretary":"a","session_id":"a"}`, ""},
		{"progress token", `{"_meta":{"progressToken":"abc"},"method":"notifications/progress"}`, ""},
		{"number", `{"password":12345,"token":null,"secret":true}`, ""},
		{"object", `{"credentials":{"user":"bob","password":"x1"}}`, `{"credentials":{"user":"bob","password":"` + R + `"}}`},
		{"list", `{"Set-Cookie":["a=b","c=d"],"b":["e"]}`, `{"Set-Cookie":["` + R + `","` + R + `"],"b":["e"]}`},
		{"empty value", `{"password":""}`, ""},
		{"again", `{"password":"[REDACTED]"}`, ""},
		{"escapes in the value", `{"password":"a\"b\\","c":"d"}`, `{"password":"` + R + `","c":"d"}`},
		{"escaped key", `{"pass\u0077ord":"x1"}`, `{"pass\u0077ord":"` + R + `"}`},
		{"key with a space", `{"the password":"x1"}`, `{"the password":"` + R + `"}`},
		{"value in a name/value pair", `{"env":[{"name":"API_KEY","value":"x1"},{"name":"PATH","value":"/bin"}]}`, `{"env":[{"name":"API_KEY","value":"` + R + `"},{"name":"PATH","value":"/bin"}]}`},
		{"pair, value first", `[{"value":"x1","name":"API_KEY"},{"value":"v","name":"A"}]`, `[{"value":"` + R + `","name":"API_KEY"},{"value":"v","name":"A"}]`},
		{"pair, things between", `[{"name":"Authorization","a":[{"b":1}],"value":"x1"}]`, `[{"name":"Authorization","a":[{"b":1}],"value":"` + R + `"}]`},
		{"header pair", `[["Authorization","Bearer x"],["Accept","token"]]`, `[["Authorization","` + R + `"],["Accept","token"]]`},
		{"list of header names", `{"allow":["authorization","content-type","cookie"]}`, ""},

		{"nested", `{"text":"{\"password\":\"x1\",\"b\":\"c\"}"}`, `{"text":"{\"password\":\"` + R + `\",\"b\":\"c\"}"}`},
		{"nested twice", `{"t":"{\"u\":\"{\\\"password\\\":\\\"x1\\\"}\"}"}`, `{"t":"{\"u\":\"{\\\"password\\\":\\\"` + R + `\\\"}\"}"}`},
		{"nested, pretty", `{"text":"{\n  \"password\" : \"x1\"\n}"}`, `{"text":"{\n  \"password\" : \"` + R + `\"\n}"}`},
		{"nested, quote in the value", `{"text":"{\"password\":\"a\\\"b\\\\\",\"c\":\"d\"}"}`, `{"text":"{\"password\":\"` + R + `\",\"c\":\"d\"}"}`},
		{"nested with coded quotes", `{"text":"{\u0022password\u0022:\u0022x1\u0022}"}`, `{"text":"{\u0022password\u0022:\u0022` + R + `\u0022}"}`},
		{"nested pair", `{"text":"[{\"name\":\"TOKEN\",\"value\":\"x1\"}]"}`, `{"text":"[{\"name\":\"TOKEN\",\"value\":\"` + R + `\"}]"}`},

		{"schema", `{"name":"login","inputSchema":{"type":"object","properties":{"password":{"type":"string","description":"token: yours"},"token":true},"required":["password","token"],"examples":[{"password":"hunter2"}],"default":{"password":"x"}}}`, ""},
		{"tools/list", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","description":"password: the password","inputSchema":{"type":"object","properties":{"secret":{"type":"string","default":"d"}}}}]}}`, ""},
		{"schema by its looks", `{"x":{"type":"object","properties":{"p":{"default":{"password":"x"}}}}}`, ""},
		{"schema in a list", `[{"$schema":"https://json-schema.org/draft/2020-12/schema","examples":[{"token":"abc"}]}]`, ""},
		{"elicitation", `{"method":"elicitation/create","params":{"message":"password: ?","requestedSchema":{"type":"object","properties":{"password":{"type":"string"}},"default":{"password":"x"}}}}`, ""},
		{"nested schema", `{"text":"{\"inputSchema\":{\"type\":\"object\",\"examples\":[{\"password\":\"x\"}]}}"}`, ""},
		{"cut schema", `{"inputSchema":{"type":"object","examples":[{"password":"x"},{"password":"y`, ""},
		{"beside a schema", `{"inputSchema":{"type":"object","examples":[{"password":"x"}]},"password":"y1"}`, `{"inputSchema":{"type":"object","examples":[{"password":"x"}]},"password":"` + R + `"}`},
		{"settings with $schema", `{"$schema":"https://example.com/config.json","apiKey":"x1"}`, `{"$schema":"https://example.com/config.json","apiKey":"` + R + `"}`},
		{"properties that are none", `{"type":"object","properties":{"password":"x1"}}`, `{"type":"object","properties":{"password":"` + R + `"}}`},
		{"arguments called schema", `{"schema":{"password":"x1"}}`, `{"schema":{"password":"` + R + `"}}`},

		{"cut in the value", `{"a":{"password":"abc`, `{"a":{"password":"` + R},
		{"cut at the start", `wd":"abc","password":"x1"}`, `wd":"abc","password":"` + R + `"}`},
		{"cut in a string", `bc","password":"x1"}`, `bc","password":"` + R + `"}`},
		{"quote missing", `{"a":"b,"password":"x1","c":"d"}`, `{"a":"b,"password":"` + R + `","c":"d"}`},
		{"quote not escaped", `{"password":"x"y","c":"d"}`, `{"password":"` + R + `","c":"d"}`},
		{"closed too often", `}}]{"password":"x1"}]]`, `}}]{"password":"` + R + `"}]]`},
		{"newline in a string", "{\"a\":\"b\n\"password\":\"x1\"}", "{\"a\":\"b\n\"password\":\"" + R + "\"}"},
		{"log line", `2026-01-02 INFO got {"password":"x1"} from bob`, `2026-01-02 INFO got {"password":"` + R + `"} from bob`},
		{"sse", "event: message\ndata: {\"password\":\"x1\"}\n\n", "event: message\ndata: {\"password\":\"" + R + "\"}\n\n"},
		{"jsonl", "{\"a\":1}\n{\"token\":\"x1\"}\n", "{\"a\":1}\n{\"token\":\"" + R + "\"}\n"},
		{"python", `headers: {'Authorization': 'Bearer x1', 'Accept': 'x'}`, `headers: {'Authorization': '` + R + `', 'Accept': 'x'}`},

		{"text =", `password=hunter2 user=bob`, `password=` + R + ` user=bob`},
		{"text :", `password: hunter2`, `password: ` + R},
		{"text in the middle", `connecting with DB_PASSWORD=hunter2, ok`, `connecting with DB_PASSWORD=` + R + `, ok`},
		{"text quoted", `api_key = "a b c" next`, `api_key = "` + R + `" next`},
		{"text single quotes", `token='a b' next`, `token='` + R + `' next`},
		{"authorization", "Authorization: Bearer abc.def\r\n", "Authorization: " + R + "\r\n"},
		{"authorization in a sentence", `sent Authorization: Bearer abc.def to x`, `sent Authorization: ` + R + ` to x`},
		{"curl trace", `> Cookie: a=b; c=d`, `> Cookie: ` + R},
		{"go struct", `{User:bob Password:hunter2}`, `{User:bob Password:` + R + `}`},
		{"arrow", `:password => "hunter2"`, `:password => "` + R + `"`},
		{"form", `grant_type=x&client_secret=abc&b=c`, `grant_type=x&client_secret=` + R + `&b=c`},
		{"flag", `run --token=abc --x=y`, `run --token=` + R + ` --x=y`},
		{"prose", `invalid token: unexpected end of input`, ""},
		{"sentence after a name", `secret OPENAI_API_KEY: the environment variable is empty`, ""},
		{"place in a file", "    token_test.go:45: got 1\n\t/a/secret.go:12 +0x1d (cookie.go:3:7)", ""},
		{"words after a password", `wrong password: hunter for bob`, `wrong password: ` + R + ` for bob`},
		{"placeholder", `password=${DB_PASSWORD} token: <your token> secret=null`, ""},
		{"text object", `secret: {"a":"b"}`, ""},

		{"prose in JSON", `{"description":"login with password: of the user. Args:\n    token: the token\n  secret=x"}`, `{"description":"login with password: of the user. Args:\n    token: the token\n  secret=` + R + `"}`},
		{"assignment in a sentence in JSON", `{"description":"Set API_KEY=abc to use it, API_KEY=<your-key-here> or API_KEY = something"}`, ""},
		{"a value in a sentence in JSON", `{"message":"refused: api_key=8f3a92bc is not valid"}`, `{"message":"refused: api_key=` + R + ` is not valid"}`},
		{"environment in JSON", `{"text":"PATH=/bin\nAPI_TOKEN=abc\nexport MY_SECRET=d\n"}`, `{"text":"PATH=/bin\nAPI_TOKEN=` + R + `\nexport MY_SECRET=` + R + `\n"}`},
		{"arguments in JSON", `{"args":["--token=abc","PASSWORD=d","x=y"]}`, `{"args":["--token=` + R + `","PASSWORD=` + R + `","x=y"]}`},
		{"header in JSON", `{"command":"curl -H \"Authorization: Bearer abc\" -H 'X: y'"}`, `{"command":"curl -H \"Authorization: ` + R + `\" -H 'X: y'"}`},
		{"header in docs", `{"description":"needs Authorization: Bearer <token>, or Authorization: your key"}`, ""},
		{"http in JSON", `{"text":"HTTP/1.1 200 OK\r\nSet-Cookie: sid=abc; Path=/\r\n"}`, `{"text":"HTTP/1.1 200 OK\r\nSet-Cookie: ` + R + `\r\n"}`},

		{"user info", `{"url":"https://bob:pw@example.com/x"}`, `{"url":"https://` + R + `@example.com/x"}`},
		{"user alone", `see https://ghp_abc@github.com/x and ssh://git@github.com/x`, `see https://` + R + `@github.com/x and ssh://git@github.com/x`},
		{"database", `postgres://u:p@db:5432/x?sslmode=off`, `postgres://` + R + `@db:5432/x?sslmode=off`},
		{"no user info", `{"url":"https://example.com/@scope/pkg","mail":"a@b.c"}`, ""},
		{"query", `{"url":"https://h/p?a=1&api_key=abc&b=2#access_token=d"}`, `{"url":"https://h/p?a=1&api_key=` + R + `&b=2#access_token=` + R + `"}`},
		{"query, Go's JSON", `{"url":"https://h/p?a=1\u0026token=abc\u0026b=2"}`, `{"url":"https://h/p?a=1\u0026token=` + R + `\u0026b=2"}`},
		{"query, PHP's JSON", `{"url":"https:\/\/u:p@h\/p?code=abc"}`, `{"url":"https:\/\/` + R + `@h\/p?code=` + R + `"}`},
		{"query words", `https://h/?auth=1&bearer=2&code=3&credential=4&key=5&signature=6&sig=7&X-Amz-Signature=8&country_code=us&monkey=x`,
			`https://h/?auth=` + R + `&bearer=` + R + `&code=` + R + `&credential=` + R + `&key=` + R + `&signature=` + R + `&sig=` + R + `&X-Amz-Signature=` + R + `&country_code=us&monkey=x`},
		{"query, coded name", `https://h/?access%5Ftoken=abc`, `https://h/?access%5Ftoken=` + R},
		{"url in url", `https://proxy/https://u:p@h/`, `https://proxy/https://` + R + `@h/`},
		{"malformed url", `http://u:p@[::1:80/%zz?token=%zz`, `http://` + R + `@[::1:80/%zz?token=` + R},
		{"relative url in JSON", `{"next":"/cb?state=1&token=abc"}`, `{"next":"/cb?state=1&token=` + R + `"}`},
		{"nested url", `{"text":"{\"u\":\"https://u:p@h/\"}"}`, `{"text":"{\"u\":\"https://` + R + `@h/\"}"}`},
		{"url in a schema", `{"inputSchema":{"type":"string","default":"https://u:p@h/"}}`, ""},
	}
	r := NewRedactor(nil)
	off := NewRedactor(&RedactorConfig{Off: true})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := c.want
			if want == "" {
				want = c.in
			}
			if got := checkBytes(t, r, []byte(c.in)); got != want {
				t.Errorf("\n  in %s\n got %s\nwant %s", c.in, got, want)
			}
			if got := checkBytes(t, off, []byte(c.in)); got != c.in {
				t.Errorf("off: got %s", got)
			}
			if got := r.String(want); got != want {
				t.Errorf("twice: got %s", got)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	r := NewRedactor(nil)
	err := r.Add("PIN", " 12345\n")
	var short *ShortSecretError
	if !errors.As(err, &short) || short.Name != "PIN" || short.Size != 5 {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "12345") {
		t.Errorf("the error tells the value: %v", err)
	}
	if err := r.Add("mark", "REDACTED"); err != nil || r.String("[REDACTED]") != "[REDACTED]" {
		t.Errorf("the mark is replaced: %v", err)
	}
	if got := r.String("12345"); got != "12345" {
		t.Errorf("got %s", got)
	}
}

func TestOwnKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"tenant id", "pincode"}, {"tenant id", "pincode", "pw"}} {
		r := NewRedactor(&RedactorConfig{Keys: keys})
		for in, secret := range map[string]bool{
			`{"tenantId":"x"}`: true, `{"TENANT-ID":"x"}`: true, `{"my_tenant.id":"x"}`: true, `{"tenantid":"x"}`: true, `{"tenant":"x"}`: false,
			`{"ten_antid":"x"}`: false, `{"pinCode":"x"}`: true, `{"pin_code":"x"}`: false, `{"pw":"x"}`: len(keys) == 3, `{"pwd":"x"}`: false, `{"token":"x"}`: true,
		} {
			if got := checkBytes(t, r, []byte(in)); strings.Contains(got, mark) != secret {
				t.Errorf("%v: %s became %s", keys, in, got)
			}
		}
	}
}

func TestHeaderAndURL(t *testing.T) {
	t.Parallel()
	r := mustRedactor(t, &RedactorConfig{Keys: []string{"tenant id"}}, "s3cr3t-value")
	for _, c := range [][3]string{
		{"Authorization", "Bearer x", mark}, {"Cookie", "a=b", mark}, {"X-Auth-Thing", "y", mark}, {"X-Tenant-ID", "7", mark},
		{"Accept", "text/html", "text/html"}, {"Location", "https://h/cb?code=1", "https://h/cb?code=" + mark}, {"Via", "s3cr3t-value", mark},
		{"Authorization", "", ""}, {"Mcp-Session-Id", "abc", mark}, {"mcp-session-id", "abc", mark}, {"Mcp-Name", "abc", "abc"},
	} {
		if got := r.Header(c[0], c[1]); got != c[2] {
			t.Errorf("%s: %s: got %s, want %s", c[0], c[1], got, c[2])
		}
	}
	for in, want := range map[string]string{
		"https://u:p@h/x?token=1&b=2": "https://" + mark + "@h/x?token=" + mark + "&b=2",
		"/x?key=1":                    "/x?key=" + mark,
		"http://localhost:80/mcp":     "http://localhost:80/mcp",
		"https://h/s3cr3t-value":      "https://h/" + mark,
		"%zz://?sig=%zz":              "%zz://?sig=" + mark,
	} {
		if got := r.URL(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if !r.Sensitive("tenantId") || !r.Sensitive("OPENAI_API_KEY") || r.Sensitive("PATH") {
		t.Error("Sensitive is wrong")
	}
	if got := r.String(`{"tenant-id":"abc"}`); got != `{"tenant-id":"`+mark+`"}` {
		t.Errorf("own key: got %s", got)
	}
}
