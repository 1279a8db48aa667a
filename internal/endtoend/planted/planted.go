// Package planted makes secrets that can be found again, however they are written down, and finds them.
package planted

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Env is the environment variable by which the secrets reach the tests that plant them: [Set.Encode]. Its name says nothing
// to anybody who looks for names.
const Env = "PLANTED"

// The twelve, by where they are planted.
const (
	Environment = "environment" // a variable of the server's process
	Header      = "header"      // a header of every HTTP request
	URL         = "url"         // user info and query of URLs in texts
	Argument    = "argument"    // of a tool
	Result      = "result"      // of a tool
	Stderr      = "stderr"      // of the server
	ErrorText   = "error text"  // of a JSON-RPC error
	Broken      = "broken json"
	Split       = "split"        // over two chunks of a stream of server-sent events
	Escaped     = "json-escaped" // full of characters that JSON escapes
	Percent     = "url-encoded"
	Base64      = "base64" // at each of the three alignments
)

// Names are all twelve.
var Names = []string{Environment, Header, URL, Argument, Result, Stderr, ErrorText, Broken, Split, Escaped, Percent, Base64}

// Set is the secrets of one run by name. Each has the same core in it, so that a search for any of them is a search for one word.
type Set map[string]string

// New makes the secrets around a core of nine letters and digits.
func New(core string) Set {
	s := Set{}
	for i, name := range Names {
		s[name] = string(rune('A'+i)) + "q" + core + "w" + string(rune('a'+i))
	}
	s[Escaped] = "J\"q\\" + core + "/é\t<&>j"
	s[Percent] = "K/q+" + core + " =&%k"
	return s
}

// Encode writes the set as JSON.
func (s Set) Encode() string {
	b, _ := json.Marshal(s) // strings: cannot fail
	return string(b)
}

// Decode reads what Encode wrote.
func Decode(text string) (Set, error) {
	var s Set
	err := json.Unmarshal([]byte(text), &s)
	return s, err
}

// Needles are the forms in which text may be written down: as it is, as JSON, percent-encoded, and as a part of
// base64 text, at each alignment and in both alphabets. None is a part of another's name.
func Needles(text string) [][]byte {
	plain, _ := json.Marshal(text)
	var html bytes.Buffer
	enc := json.NewEncoder(&html)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // into memory
	forms := []string{text, string(plain[1 : len(plain)-1]), strings.Trim(strings.TrimSpace(html.String()), `"`), url.QueryEscape(text), url.PathEscape(text)}
	for shift := range 3 {
		forms = append(forms, inner(base64.StdEncoding, text, shift), inner(base64.URLEncoding, text, shift))
	}
	slices.Sort(forms)
	var out [][]byte
	for _, f := range slices.Compact(forms) {
		out = append(out, []byte(f))
	}
	return out
}

// inner is the part of the base64 text that is the same whatever stands around text, when shift bytes stand before it.
func inner(enc *base64.Encoding, text string, shift int) string {
	all := enc.EncodeToString(append(make([]byte, shift), text...))
	from := (shift*8 + 5) / 6
	to := (shift + len(text)) * 8 / 6
	return all[from:to]
}

// Find returns the names of the secrets that are in b, in whatever form.
func (s Set) Find(b []byte) []string {
	var names []string
	for _, name := range Names {
		if slices.ContainsFunc(Needles(s[name]), func(n []byte) bool { return bytes.Contains(b, n) }) {
			names = append(names, name)
		}
	}
	return names
}

// Catalogue is a result of tools/list in which sensitive names are names of properties, and no secret is.
const Catalogue = `{"tools":[{"name":"argument","description":"Logs in. Needs a password and an api_key.","inputSchema":{"type":"object",` +
	`"properties":{"password":{"type":"string","description":"the password"},"token":{"type":"string","default":"none","examples":["abcdef"]},` +
	`"api_key":{"const":"x-key-123456"}},"required":["password","token"],"additionalProperties":false},` +
	`"outputSchema":{"type":"object","properties":{"secret":{"type":"string","enum":["one-secret","two-secret"]}}}}]}`
