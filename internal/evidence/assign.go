package evidence

import (
	"bytes"
)

// This file finds name=value and "Name: value" outside of JSON's own syntax: in log lines everywhere, in JSON strings only
// where it cannot be prose (a description may well say "password: of the user", but "refused: api_key=8f3a…" shows one).

// colon handles a colon that does not follow a JSON key.
func (s *scanner) colon(i int) int {
	if end, ok := s.url(i); ok {
		return end
	}
	if s.text {
		return s.assign(i)
	}
	start, end := s.nameBefore(i)
	name := s.b[start:end]
	if len(name) < 6 || !s.sensitive(name) || !s.names.header(name) {
		return i + 1
	}
	v := skipBlanks(s.b, i+1)
	word := wordEnd(s.b, v, false)
	switch {
	case isScheme(s.b[v:word]) && !isPlaceholder(s.b[skipBlanks(s.b, word):]):
		return s.addValue(v, wordEnd(s.b, skipBlanks(s.b, word), false))
	case s.lineStart(start) && bytes.IndexByte(s.b[v:word], '=') > 0:
		return s.addValue(v, quoteOrLineEnd(s.b, v))
	}
	return i + 1
}

// assign handles an equals sign, or, in text, a colon.
func (s *scanner) assign(i int) int {
	start, end := s.nameBefore(i)
	if end-start < 3 || !s.sensitive(s.b[start:end]) {
		return i + 1
	}
	if !s.text {
		word := wordEnd(s.b, i+1, true)
		if !s.lineStart(start) && !s.queryStart(start) && !s.inSentence(end, i, word) {
			return i + 1
		}
		return s.addValue(i+1, word)
	}
	v := i + 1
	if v < len(s.b) && (s.b[v] == '=' || s.b[v] == '>' && s.b[i] == '=') { // := == =>
		v++
	}
	v = skipBlanks(s.b, v)
	if s.b[i] == ':' {
		if s.lineStart(start) && s.names.header(s.b[start:end]) {
			return s.addValue(v, lineEnd(s.b, v))
		}
		if s.prose(start, end, v) {
			return v
		}
	}
	return s.textValue(v, s.b[i] == '=')
}

// inSentence reports whether name=value in the middle of a JSON string shows a value rather than speaks of one: nothing but the equals sign stands
// between them, and the value is long enough and no placeholder.
func (s *scanner) inSentence(nameEnd, i, word int) bool {
	return nameEnd == i && word-(i+1) >= minShown && !isPlaceholder(s.b[i+1:word])
}

// minShown is the length from which a value in a sentence is taken for a real one.
const minShown = 8

// textValue handles the value of a sensitive name in text: a quoted one to its quote, else one word, and one more after
// the name of an authorization scheme.
func (s *scanner) textValue(v int, inQuery bool) int {
	if v >= len(s.b) {
		return v
	}
	run := backslashes(s.b, v)
	if q := v + run; q < len(s.b) {
		switch s.b[q] {
		case '"':
			end, next := s.stringEnd(q+1, levelOf(run))
			s.add(q+1, end)
			return next
		case '\'', '`':
			end := q + 1
			for end < len(s.b) && s.b[end] != s.b[q] && s.b[end] != '\n' && s.b[end] != '\r' {
				end++
			}
			return s.addValue(q+1, q+1+len(bytes.TrimRight(s.b[q+1:end], `\`)))
		}
	}
	end := wordEnd(s.b, v, inQuery)
	word := s.b[v:end]
	if isPlaceholder(word) {
		return v
	}
	if isScheme(word) {
		if end = wordEnd(s.b, skipBlanks(s.b, end), inQuery); isPlaceholder(s.b[skipBlanks(s.b, v+len(word)):end]) {
			return v
		}
	}
	for end > v+1 && bytes.IndexByte([]byte(",;)]}"), s.b[end-1]) >= 0 {
		end--
	}
	return s.addValue(v, end)
}

func (s *scanner) addValue(start, end int) int {
	s.add(start, end)
	return max(start, end)
}

// nameBefore returns the word before the colon or equals sign at i, without quotes around it.
func (s *scanner) nameBefore(i int) (start, end int) {
	end = i
	for end > 0 && end > i-4 && (s.b[end-1] == ' ' || s.b[end-1] == '\t') {
		end--
	}
	if end > 0 && (s.b[end-1] == '\'' || s.b[end-1] == '`' || s.b[end-1] == '"') {
		end--
		for end > 0 && s.b[end-1] == '\\' {
			end--
		}
	}
	return nameStart(s.b, end), end
}

// nameStart returns where the word begins that ends at end. In a JSON string a word cannot begin with the letter of an
// escape; the dashes of --token are no part of it.
func nameStart(b []byte, end int) int {
	start := end
	for start > 0 && end-start < maxName && isNameByte(b[start-1]) {
		start--
	}
	if start > 0 && b[start-1] == '\\' && start < end {
		switch {
		case b[start] == 'u' && end-start > 5:
			start += 5
		case b[start] == 'n' || b[start] == 'r' || b[start] == 't':
			start++
		}
	}
	for start < end && (b[start] == '-' || b[start] == '.' || b[start] == '_') {
		start++
	}
	return start
}

// lineStart reports whether a word begins a line or a string; dashes, "export" and the arrows of curl may precede it.
func (s *scanner) lineStart(start int) bool {
	before := bytes.TrimRight(s.b[max(0, start-16):start], "-<>* \t")
	before = bytes.TrimSuffix(before, []byte("export"))
	before = bytes.TrimRight(before, " ")
	if len(before) == 0 {
		return true
	}
	switch c := before[len(before)-1]; c {
	case '"', '\n', '\r':
		return true
	case 'n', 'r':
		return len(before) > 1 && before[len(before)-2] == '\\'
	}
	return false
}

// queryStart reports whether a word is the name of a query parameter, as far as can be seen.
func (s *scanner) queryStart(start int) bool {
	before := s.b[:start]
	return bytes.HasSuffix(before, []byte("?")) || bytes.HasSuffix(before, []byte("&")) || bytes.HasSuffix(before, []byte(`\u0026`))
}

// prose reports whether "name: value" is rather a sentence, such as "invalid token: unexpected end" or "API_KEY: the variable
// is empty", or a place in a file, such as token_test.go:12. After a password it never is a sentence.
func (s *scanner) prose(start, end, v int) bool {
	name := bytes.ToLower(s.b[start:end])
	word := s.b[v:wordEnd(s.b, v, false)]
	if bytes.IndexByte(name, '.') > 0 && len(word) > 0 && classOf(word[0]) == classDigit && v == end+1 {
		return len(bytes.Trim(word, "0123456789:,)")) == 0
	}
	if bytes.Contains(name, []byte("passw")) {
		return false
	}
	after := s.b[v+len(word):]
	before := start > 1 && s.b[start-1] == ' ' && classOf(s.b[start-2]) == classLower
	goesOn := len(after) > 1 && after[0] == ' ' && classOf(after[1]) == classLower
	if !before && !goesOn {
		return false
	}
	for _, c := range bytes.TrimRight(word, ".,:;") {
		if classOf(c) != classLower {
			return false
		}
	}
	return true
}

// isPlaceholder reports whether a value is no secret but stands for one, or for nothing, or is an object or a list.
func isPlaceholder(w []byte) bool {
	if len(w) == 0 || bytes.HasPrefix(w, []byte("${")) {
		return true
	}
	switch w[0] {
	case '<', '{', '[':
		return true
	}
	switch string(w) {
	case "null", "nil", "None", "true", "false", "undefined", "True", "False":
		return true
	}
	return false
}

// wordEnd returns where the word at i ends; in a query, & ends it, too.
func wordEnd(b []byte, i int, inQuery bool) int {
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '\\' || c == 0x7F:
			return i
		case c == '&' && inQuery:
			return i
		}
	}
	return i
}

// quoteOrLineEnd returns where a JSON string or the line that it quotes ends.
func quoteOrLineEnd(b []byte, i int) int {
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

// lineEnd returns where the line at i ends, without its terminator.
func lineEnd(b []byte, i int) int {
	if k := bytes.IndexByte(b[i:], '\n'); k >= 0 {
		return i + len(bytes.TrimSuffix(b[i:i+k], []byte("\r")))
	}
	return len(b)
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	return i
}

// skipClosing skips what may stand between a name and its colon or equals sign: backslashes, a quote, blanks.
func skipClosing(b []byte, i int) int {
	i += backslashes(b, min(i, len(b)))
	if i < len(b) && (b[i] == '"' || b[i] == '\'' || b[i] == '`') {
		i++
	}
	return skipBlanks(b, i)
}
