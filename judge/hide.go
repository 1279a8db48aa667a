package judge

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden stands where something was taken out.
const hidden = "<redacted>"

const (
	// run is how many bytes in a row a rationale may not share with a text of the subject. Ordinary turns of phrase are shorter.
	run = 20
	// short is the length under which a whole text is taken out only as a word of its own: "5" is no part of "0.95".
	short = 8
)

// hide takes the key, and what is quoted of the subject, out of what the endpoint sent and is kept.
func (o *outcome) hide(key string, subject Subject) {
	h := newHider(key, subject)
	o.answer.Rationale = h.hide(o.answer.Rationale)
	if o.reply != nil {
		o.reply.text = ""
		o.reply.model = h.hide(printable(o.reply.model))
	}
}

// printable makes a name that an endpoint sent fit to be shown and stored.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if r := []rune(name); len(r) > maxModel {
		return string(r[:maxModel])
	}
	return name
}

// hider knows what is to be taken out.
type hider struct {
	texts []string // the subject's, folded
	words []string // the key, the whole texts, and words like identifiers, folded
}

func newHider(key string, s Subject) *hider {
	h := &hider{}
	if key != "" {
		h.words = append(h.words, fold(key))
	}
	for _, text := range []string{s.Input, s.Expected, s.Actual} {
		text = fold(strings.TrimSpace(text))
		if text == "" {
			continue
		}
		h.texts = append(h.texts, text)
		h.words = append(append(h.words, text), identifiers(text)...)
	}
	return h
}

// identifiers are the words that look like names of something: of 8 bytes at least, with a letter and a digit. They tell more than their length says.
func identifiers(text string) []string {
	var all []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.@", r)
	}) {
		word = strings.Trim(word, "-_.")
		if len(word) >= short && strings.IndexFunc(word, unicode.IsDigit) >= 0 && strings.IndexFunc(word, unicode.IsLetter) >= 0 {
			all = append(all, word)
		}
	}
	return all
}

// hide returns text with hidden in the place of whatever is to be taken out.
func (h *hider) hide(text string) string {
	folded := fold(text)
	out := make([]bool, len(text))
	for _, word := range h.words {
		markWord(out, folded, word)
	}
	markRuns(out, folded, h.texts)
	return replaceMarked(text, out)
}

// markWord marks where the word stands; a short one only where it is no part of a longer.
func markWord(out []bool, text, word string) {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return
		}
		at := from + i
		end := at + len(word)
		if len(word) >= short || !wordByte(text, at-1) && !wordByte(text, end) {
			mark(out, at, end)
		}
		from = at + 1
	}
}

// wordByte reports whether the byte at i belongs to a word or a number.
func wordByte(text string, i int) bool {
	if i < 0 || i >= len(text) {
		return false
	}
	c := text[i]
	return c >= utf8.RuneSelf || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// markRuns marks every run of bytes that is in one of the texts, too.
func markRuns(out []bool, text string, texts []string) {
	if len(text) < run {
		return
	}
	at := make(map[string][]int, len(text))
	for i := 0; i+run <= len(text); i++ {
		at[text[i:i+run]] = append(at[text[i:i+run]], i)
	}
	for _, t := range texts {
		for i := 0; i+run <= len(t); i++ {
			for _, from := range at[t[i:i+run]] {
				mark(out, from, from+run)
			}
			delete(at, t[i:i+run])
		}
	}
}

func mark(out []bool, from, to int) {
	for i := from; i < to; i++ {
		out[i] = true
	}
}

// replaceMarked replaces each run of marked bytes. A character that is marked in part is marked.
func replaceMarked(text string, out []bool) string {
	var b strings.Builder
	inside := false
	for i, size := 0, 0; i < len(text); i += size {
		_, size = utf8.DecodeRuneInString(text[i:])
		marked := slices.Contains(out[i:i+size], true)
		switch {
		case !marked:
			b.WriteString(text[i : i+size])
		case !inside:
			b.WriteString(hidden)
		}
		inside = marked
	}
	return b.String()
}

// fold makes ASCII letters small. The length stays, so that places in the result are places in the text.
func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
