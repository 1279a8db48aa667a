package judge

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// Subject is what a judge of responses is asked about: what was asked, what a good answer is or holds, and what was answered. Input and
// Expected must not be blank; Actual may be. Each has at most 32 KiB, all together at most 64 KiB.
type Subject = eval.Response

// The limits of a subject, in bytes.
const (
	maxText  = 32 << 10
	maxTexts = 64 << 10
)

// subjectOf takes the three texts out of a subject that is a JSON object. Other members are for other evaluators: they are not sent.
func subjectOf(raw trace.JSON) (Subject, *Error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return Subject{}, fail(CodeInputInvalid, "the subject is no object: a judge needs one with the texts input, expected and actual")
	}
	var s Subject
	for _, field := range []struct {
		name string
		text *string
	}{{"input", &s.Input}, {"expected", &s.Expected}, {"actual", &s.Actual}} {
		value, ok := members[field.name]
		if !ok {
			return Subject{}, fail(CodeInputInvalid, "the subject has no %s: a judge needs the texts input, expected and actual", field.name)
		}
		if value = bytes.TrimSpace(value); value[0] != '"' || json.Unmarshal(value, field.text) != nil {
			return Subject{}, fail(CodeInputInvalid, "the subject's %s is no text: a judge needs the texts input, expected and actual", field.name)
		}
	}
	return s, checkSubject(s)
}

func checkSubject(s Subject) *Error {
	for _, field := range []struct{ name, text string }{{"input", s.Input}, {"expected", s.Expected}, {"actual", s.Actual}} {
		switch {
		case !utf8.ValidString(field.text):
			return fail(CodeInputInvalid, "the subject's %s is no UTF-8 text", field.name)
		case len(field.text) > maxText:
			return fail(CodeInputInvalid, "the subject's %s has %d bytes: at most %d are allowed", field.name, len(field.text), maxText)
		case field.name != "actual" && strings.TrimSpace(field.text) == "":
			return fail(CodeInputInvalid, "the subject's %s is blank: the judge has nothing to go by", field.name)
		}
	}
	if n := len(s.Input) + len(s.Expected) + len(s.Actual); n > maxTexts {
		return fail(CodeInputInvalid, "the subject has %d bytes in all: at most %d are allowed", n, maxTexts)
	}
	return nil
}
