package evidence

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// minSecret is the length in bytes under which a value cannot be told from ordinary text.
const minSecret = 6

// minLine is the length from which a line of a secret of several lines is looked for on its own: stderr comes by lines.
const minLine = 16

// ShortSecretError is returned for a secret that is too short to be found in traffic without destroying ordinary text.
type ShortSecretError struct {
	Name string // what the secret was called; never its value
	Size int    // bytes, after trimming white space
}

func (e *ShortSecretError) Error() string {
	return fmt.Sprintf("secret %q has %d bytes: at least %d are needed to keep it out of the evidence; use a longer value", e.Name, e.Size, minSecret)
}

// spellings returns the values that have to be hidden when value is: itself, the credential after an authorization scheme,
// the password in it when that is Basic, and longer lines.
func spellings(value string) []string {
	value = strings.TrimSpace(value)
	all := []string{value}
	if scheme, rest, ok := strings.Cut(value, " "); ok && isScheme([]byte(scheme)) {
		rest = strings.TrimSpace(rest)
		all = append(all, rest)
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			all = append(all, password)
		}
	}
	if strings.ContainsAny(value, "\r\n") {
		for line := range strings.Lines(value) {
			line = strings.TrimSpace(line)
			if len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				all = append(all, line)
			}
		}
	}
	return all
}

// isScheme reports whether w is the word before a credential in an Authorization header.
func isScheme(w []byte) bool {
	if len(w) > 9 {
		return false
	}
	switch strings.ToLower(string(w)) {
	case "bearer", "basic", "token", "digest", "apikey", "negotiate", "ntlm", "dpop":
		return true
	}
	return false
}

// patterns returns the forms of value that are looked for in decoded bytes. JSON's and URLs' ways of writing it are not
// among them: the bytes are decoded instead.
func patterns(value string) []pattern {
	all := []pattern{{text: value}}
	for shift := range 3 {
		std := aligned(base64.RawStdEncoding, value, shift)
		url := aligned(base64.RawURLEncoding, value, shift)
		all = append(all, std)
		if url != std {
			all = append(all, url)
		}
	}
	return all
}

// aligned returns the base64 digits that value alone makes up when it stands shift bytes after the start of a group of
// three. Digits of which a neighbour makes up some bits are left out; the flags tell of them.
func aligned(enc *base64.Encoding, value string, shift int) pattern {
	digits := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + value))
	first := 0
	if shift > 0 {
		first = shift + 1
	}
	last := (shift + len(value)) * 8 / 6
	return pattern{digits[first:last], shift > 0, (shift+len(value))%3 != 0}
}
