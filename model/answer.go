package model

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// answer is what goes to the agent, whatever the dialect.
type answer struct {
	id       string // unique in the execution
	model    string // as the request names it
	parts    []part
	stop     Stop
	usage    *Usage // nil: none
	reports  bool   // the stream is to end with usage
	complete bool   // false: the answer broke off
}

// part is one piece of an answer.
type part struct {
	kind partKind
	text string // reasoning, text, or the text of the arguments
	call offered
	id   string // of a call
}

type partKind int

const (
	thinkPart partKind = iota
	hiddenPart
	sayPart
	callPart
)

// answerOf makes the answer of a step; the calls are found already.
func answerOf(s *Step, id string, req *request, calls []offered, callID func(i int) string) *answer {
	a := &answer{id: id, model: req.model, stop: s.stop, reports: req.usage, complete: true}
	if s.think != "" {
		a.parts = append(a.parts, part{kind: thinkPart, text: s.think})
	}
	if s.hidden != "" {
		a.parts = append(a.parts, part{kind: hiddenPart, text: s.hidden})
	}
	if s.say != nil {
		a.parts = append(a.parts, part{kind: sayPart, text: *s.say})
	}
	for i, u := range s.calls {
		text, _ := u.arguments() // Validate has seen it
		id := u.ID
		if id == "" {
			id = callID(i)
		}
		a.parts = append(a.parts, part{kind: callPart, text: text, call: calls[i], id: id})
	}
	switch {
	case s.usage != nil:
		a.usage = s.usage
	case !s.silent:
		u := DefaultUsage
		a.usage = &u
	}
	return a
}

// calls reports whether the answer calls a tool.
func (a *answer) calls() bool {
	for _, p := range a.parts {
		if p.kind == callPart {
			return true
		}
	}
	return false
}

// text is all text of the answer.
func (a *answer) text(kind partKind) string {
	var sb strings.Builder
	for _, p := range a.parts {
		if p.kind == kind {
			sb.WriteString(p.text)
		}
	}
	return sb.String()
}

// input is the arguments as an object, or as a text where they are none.
func (p part) input() json.RawMessage {
	if json.Valid([]byte(p.text)) {
		return json.RawMessage(p.text)
	}
	b, _ := encode(p.text)
	return b
}

// frame is one event of a stream.
type frame struct {
	event string // "" for dialects that do not name events
	data  any    // nil: no event, only a mark
	part  int    // the part that it carries a piece of, -1 for none
	text  string // that piece
	end   bool   // here the answer begins to end: a fault comes before it
}

// gathered keeps what was sent of an answer.
type gathered struct {
	of  *answer
	got answer
}

func gather(a *answer) *gathered {
	g := &gathered{of: a, got: *a}
	g.got.parts, g.got.complete = nil, false
	return g
}

func (g *gathered) add(f frame) {
	if f.part < 0 {
		return
	}
	for len(g.got.parts) <= f.part {
		p := g.of.parts[len(g.got.parts)]
		p.text = ""
		g.got.parts = append(g.got.parts, p)
	}
	g.got.parts[f.part].text += f.text
}

// pieces cuts a text for a stream: at words when it is short, and never within a character.
func pieces(text string) []string {
	const words, size = 24, 16 << 10
	if text == "" {
		return []string{""}
	}
	if out := strings.SplitAfter(text, " "); len(out) <= words && len(text) <= size {
		if out[len(out)-1] == "" {
			out = out[:len(out)-1]
		}
		return out
	}
	return chunks(text, min(size, max(len(text)/words, 1)))
}

// halves cuts the text of arguments in two at least, where it can be: agents have to put it together.
func halves(text string) []string { return chunks(text, min(16<<10, max(len(text)/2, 1))) }

func chunks(text string, size int) []string {
	var out []string
	for text != "" {
		n := min(size, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		out, text = append(out, text[:n]), text[n:]
	}
	return out
}

// rawData is an event's data that is no JSON.
type rawData string
