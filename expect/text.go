package expect

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Text expects that the subject's text is exactly want: the text blocks of a result, or the text of a prompt's messages or of a resource's
// contents, joined with newlines; a text itself.
func (e *Expectation) Text(want string) bool {
	e.t.Helper()
	return e.onText("text", "ResultText", exactly(want))
}

// TextContaining expects that part occurs in the subject's text.
func (e *Expectation) TextContaining(part string) bool {
	e.t.Helper()
	return e.onText("text_containing", "ResultTextContaining", containing(part))
}

// TextMatching expects that the regular expression (package regexp) matches somewhere in the subject's text; (?i) at its beginning ignores
// case, ^ and $ are the ends of the text.
func (e *Expectation) TextMatching(pattern string) bool {
	e.t.Helper()
	return e.onText("text_matching", "ResultTextMatching", matching("TextMatching", pattern))
}

func (e *Expectation) onText(matcher, option string, want textWant) bool {
	e.t.Helper()
	c := &check{matcher: matcher, title: strings.ReplaceAll(matcher, "_", " "), misuse: want.misuse}
	c.args.add(want.name, want.value)
	return e.judge(c, func(s *subject) outcome {
		a, o := s.onAnswer(strings.TrimPrefix(option, "Result"), option)
		switch {
		case a == nil:
			return o
		case a.text == nil:
			return misused("a %s has no text: ask StructuredContent", a.what)
		default:
			return want.judge(s, *a.text)
		}
	})
}

// textWant is what is expected of a text.
type textWant struct {
	name, value string // for the record
	misuse      string
	judge       func(s *subject, got string) outcome
}

func exactly(want string) textWant {
	return textWant{name: "text", value: want, judge: func(s *subject, got string) outcome {
		if want == got {
			return s.holds("the text is %s", s.quoted(got))
		}
		return differs("text (-want +got):\n- %s\n+ %s", s.quoted(want), s.quoted(got))
	}}
}

func containing(part string) textWant {
	return textWant{name: "containing", value: part, judge: func(s *subject, got string) outcome {
		if strings.Contains(got, part) {
			return s.holds("%s occurs in the text %s", s.quoted(part), s.quoted(got))
		}
		return differs("text (-want +got):\n- containing %s\n+ %s", s.quoted(part), s.quoted(got))
	}}
}

func matching(option, pattern string) textWant {
	w := textWant{name: "pattern", value: pattern}
	p, err := regexp.Compile(pattern)
	if err != nil {
		w.misuse = fmt.Sprintf("%s: %s is no regular expression: %v", option, quoted(pattern), err)
		return w
	}
	w.judge = func(s *subject, got string) outcome {
		if p.MatchString(got) {
			return s.holds("%s matches the text %s", s.quoted(pattern), s.quoted(got))
		}
		return differs("text (-want +got):\n- matching %s\n+ %s", s.quoted(pattern), s.quoted(got))
	}
	return w
}

func quoted(s string) string {
	if len(s) > 2*maxValue { // what is cut anyway need not be escaped first
		s = cut(s, 2*maxValue, "bytes more")
	}
	return strconv.Quote(s)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
