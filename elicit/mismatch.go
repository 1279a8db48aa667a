package elicit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxNamed is how many keys or paths an error names.
const maxNamed = 8

func errNoMatcher() *ExpectationError {
	return &ExpectationError{Message: "a Matcher is made by NewMatcher", Details: map[string]any{"reason": "finished"}}
}

// failure is an error about the round that is being matched.
func (m *Matcher) failure(reason, message string) *ExpectationError {
	return &ExpectationError{Message: message, Details: map[string]any{"reason": reason, "round": m.round + 1}}
}

func (e *ExpectationError) with(name string, v any) *ExpectationError {
	e.Details[name] = v
	return e
}

// unexpected is the error about a round that no candidate matches: what came, and what could have, and why it is not that.
func (m *Matcher) unexpected(asked map[string]*observed) *ExpectationError {
	var expected []string
	for _, at := range m.next[:min(len(m.next), maxNamed)] {
		expected = append(expected, fmt.Sprintf("%s (%s)", m.program.path(at), m.why(m.program.code[at].item, asked)))
	}
	what := "nothing more"
	if len(expected) > 0 {
		what = some(expected, len(m.next), ", or ")
		if m.ended {
			what += ", or nothing more"
		}
	}
	e := m.failure("no_match", fmt.Sprintf("round %d asks for %s; the plan expects %s", m.round+1, describe(asked), what))
	return e.with("expected", expected).about(asked)
}

// why says in words why an item does not match.
func (m *Matcher) why(item *Plan, asked map[string]*observed) string {
	fit := m.misfit(item, asked)
	switch {
	case fit.kind == otherSize && item.node == NodeLeaf:
		return "a round of one request"
	case fit.kind == otherSize:
		return "a round of " + count(len(item.children), "request")
	case fit.kind == otherKey:
		return quote(fit.key) + " is not asked for"
	}
	var names []string
	for _, f := range fields {
		if fit.fields&f.rule != 0 {
			names = append(names, f.name)
		}
	}
	text := strings.Join(names, ", ") + " differ"
	if len(names) == 1 {
		text = names[0] + " differs"
	}
	if fit.key != "" {
		return quote(fit.key) + ": " + text
	}
	return text
}

// ambiguous is the error about a round that branches of the plan answer differently.
func (m *Matcher) ambiguous(matched []int32, asked map[string]*observed) *ExpectationError {
	var branches []string
	for _, at := range matched[:min(len(matched), maxNamed)] {
		branches = append(branches, m.program.path(at))
	}
	e := m.failure("ambiguous", fmt.Sprintf("round %d asks for %s, and the plan has different answers: %s; nothing was answered",
		m.round+1, describe(asked), some(branches, len(matched), ", ")))
	return e.with("branches", branches).about(asked)
}

// incomplete is the error about a plan of which something required is left.
func (m *Matcher) incomplete() *ExpectationError {
	required := slices.DeleteFunc(slices.Clone(m.next), m.program.skipped)
	if len(required) == 0 {
		required = m.next
	}
	var unused []string
	for _, at := range required[:min(len(required), maxNamed)] {
		unused = append(unused, m.program.path(at))
	}
	e := m.failure("incomplete", fmt.Sprintf("the operation is complete after %s, and the plan still expects %s",
		count(m.round, "round"), some(unused, len(required), ", or ")))
	return e.with("unused", unused)
}

// about names the keys that were asked for.
func (e *ExpectationError) about(asked map[string]*observed) *ExpectationError {
	keys := slices.Sorted(maps.Keys(asked))
	e.Details["request_keys"] = keys[:min(len(keys), maxNamed)]
	if len(keys) == 1 {
		e.Details["request_key"] = keys[0]
	}
	return e
}

// describe says what a round asks for.
func describe(asked map[string]*observed) string {
	keys := slices.Sorted(maps.Keys(asked))
	var all []string
	for _, key := range keys[:min(len(keys), maxNamed)] {
		all = append(all, asked[key].mode+" "+quote(key))
	}
	return some(all, len(keys), ", ")
}

// some joins the first of many.
func some(first []string, all int, sep string) string {
	text := strings.Join(first, sep)
	if more := all - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
