package oauth

import "strings"

// Challenge is one challenge of a WWW-Authenticate header.
type Challenge struct {
	Scheme string
	Params map[string]string // names in lower case
}

// ParseChallenges reads the values of WWW-Authenticate headers (RFC 9110, 11.6.1), as far as they can be read.
func ParseChallenges(values []string) []Challenge {
	var out []Challenge
	for _, v := range values {
		for v = trim(v); v != ""; {
			word, rest := token(v)
			if word == "" {
				break
			}
			after := strings.TrimLeft(rest, " \t")
			if !strings.HasPrefix(after, "=") {
				out = append(out, Challenge{Scheme: word, Params: map[string]string{}})
				v = trim(rest)
				continue
			}
			value, left := paramValue(after[1:])
			if len(out) > 0 {
				c := &out[len(out)-1]
				if _, twice := c.Params[strings.ToLower(word)]; !twice {
					c.Params[strings.ToLower(word)] = value
				}
			}
			v = trim(left)
		}
	}
	return out
}

func trim(s string) string { return strings.TrimLeft(s, " \t,") }

func token(s string) (word, rest string) {
	i := strings.IndexFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == '=' || r == '"' })
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// paramValue reads a token or a quoted string.
func paramValue(s string) (value, rest string) {
	s = strings.TrimLeft(s, " \t")
	if !strings.HasPrefix(s, `"`) {
		i := strings.IndexAny(s, ", \t")
		if i < 0 {
			return s, ""
		}
		return s[:i], s[i:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), s[i+1:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), "" // the closing quote is missing
}
