package expect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/trace"
)

// Subject is what can be asked about besides the types that expect knows: whatever has the view of an execution, as a closed [*m3.Client] has, or
// the result of an agent. While the execution is open View returns an error that wraps [trace.ErrNotFinalized], and every matcher fails with it. A
// Subject that is a [trace.TurnSelector] too stands for that turn of the execution. One with a method Text() string has that text. What is always
// finished, as the result of an agent is, may have a View without the error.
type Subject interface {
	View() (trace.View, error)
}

// finished is the other form of a [Subject].
type finished interface{ View() trace.View }

// subject is what can be asked about: a view, an answer, an error, or why there is none of them.
type subject struct {
	kind      string // in records
	view      *trace.View
	turn      trace.TurnID // when the view is that of one turn
	answer    *answer
	err       *error // of a subject that is an error, nil included
	problem   string // why it cannot be asked about
	open      bool   // the problem is that the execution is open
	execution trace.ExecutionID
	redact    func(string) string

	negated bool
	quiet   bool // no diffs: enough has been explained
	silent  bool // no values either: nobody will read them
	spent   int  // bytes of diffs shown
}

// answer is what can be asked of one result. What it does not have is nil, with why in the words of absent.
type answer struct {
	what    string // "tool result", "prompt", …
	text    *string
	blocks  []trace.JSON // nil: none; see absent
	value   trace.JSON   // structured content, or the whole of what is no tool result
	isError bool
	isTool  bool
	broken  string // why the value cannot be used
}

// kindless is a subject of no known kind.
const kindless = "unknown"

func resolve(t T, v any) subject {
	// Only a failure needs the redactor: it is looked for then.
	s := subject{kind: kindless, redact: func(text string) string { return redactorOf(t, v)(text) }}
	if v == nil { // a nil error, most likely
		s.kind, s.err = "error", new(error)
		return s
	}
	if isNil(v) {
		s.problem = nilProblem(v)
		return s
	}
	switch v := v.(type) {
	case trace.View:
		s.setView(v)
	case *trace.View:
		s.setView(*v)
	case Subject:
		s.setSubject(v, v.View)
	case finished:
		s.setSubject(v, func() (trace.View, error) { return v.View(), nil })
	case error:
		s.kind, s.err, s.execution = "error", &v, executionOf(t)
	default:
		if s.kind, s.answer = answerOf(v); s.answer == nil {
			s.problem = fmt.Sprintf("%T is no subject: use a trace.View, a closed *m3.Client, a result of a call or of a list, an error, a text or a map", v)
			if _, ok := v.(trace.TurnSelector); ok {
				s.problem = fmt.Sprintf("%T names a turn and has no evidence: ask the view of it, view.ForTurn(turn), or use expect.InTurn(turn)", v)
			}
			return s
		}
		s.execution = executionOf(t)
		if turn, ok := v.(trace.TurnSelector); ok { // what the agent said in it
			s.turn = turn.SelectTurn()
		}
	}
	return s
}

func (s *subject) setView(v trace.View) {
	s.kind = "view"
	if isEmpty(v) {
		s.problem = emptyView
		return
	}
	s.view, s.execution = &v, v.ExecutionID()
}

// emptyView is what is wrong with the zero View: nothing happened in it, so that whatever wants nothing would hold.
const emptyView = "the view is empty, and of no execution: was an error of View overlooked?"

func isEmpty(v trace.View) bool { return v.ExecutionID() == "" && v.Timeline().Len() == 0 }

func (s *subject) setSubject(v any, viewOf func() (trace.View, error)) {
	s.kind = "execution"
	if named, ok := v.(interface{ ExecutionID() trace.ExecutionID }); ok {
		s.execution = named.ExecutionID()
	}
	if spoken, ok := v.(interface{ Text() string }); ok {
		text := spoken.Text()
		s.answer = &answer{what: "text", text: &text}
	}
	view, err := viewOf()
	switch {
	case errors.Is(err, trace.ErrNotFinalized):
		s.open = true
		if _, ok := v.(*m3.Client); ok {
			s.problem = "the client is still open: close it first (m3test.Finish(t, client) closes it and returns its view); client.Snapshot() is the view of what there is so far"
			return
		}
		if _, ok := v.(*m3.Session); ok {
			s.problem = "the session is still open: close it first (session.Finish(ctx) closes it and returns its result)"
			return
		}
		s.problem = "the execution is still open: close it first"
	case err != nil:
		s.problem = "the trace cannot be used: " + err.Error()
	case isEmpty(view):
		s.problem = emptyView
	default:
		s.view, s.execution = &view, view.ExecutionID()
		if turn, ok := v.(trace.TurnSelector); ok {
			s.kind, s.turn = "turn", turn.SelectTurn()
			narrow := view.ForTurn(s.turn)
			s.view = &narrow
		}
	}
}

func nilProblem(v any) string {
	switch v.(type) {
	case *m3.Client:
		return "the client is nil: did Direct fail?"
	case *trace.View:
		return "the view is nil"
	default:
		return fmt.Sprintf("the subject is a nil %T: did the call return an error?", v)
	}
}

func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// answerOf takes a result apart; nil for what is none.
func answerOf(v any) (kind string, a *answer) {
	switch v := v.(type) {
	case *m3.ToolCallResult:
		return "tool_call_result", toolAnswer(v)
	case *m3.PromptResult:
		return "prompt_result", promptAnswer(v)
	case *m3.ResourceReadResult:
		text := v.Text()
		return "resource_result", &answer{what: "resource", text: &text, value: v.Raw}
	case *m3.CompletionResult:
		return "completion_result", &answer{what: "completion", value: v.Raw}
	case *m3.Page[m3.ToolInfo]:
		return listKind, &answer{what: "list", value: v.Raw}
	case *m3.Page[m3.ResourceInfo]:
		return listKind, &answer{what: "list", value: v.Raw}
	case *m3.Page[m3.ResourceTemplateInfo]:
		return listKind, &answer{what: "list", value: v.Raw}
	case *m3.Page[m3.PromptInfo]:
		return listKind, &answer{what: "list", value: v.Raw}
	case []m3.ToolInfo:
		return listKind, listAnswer(v, func(i m3.ToolInfo) trace.JSON { return i.Raw })
	case []m3.ResourceInfo:
		return listKind, listAnswer(v, func(i m3.ResourceInfo) trace.JSON { return i.Raw })
	case []m3.ResourceTemplateInfo:
		return listKind, listAnswer(v, func(i m3.ResourceTemplateInfo) trace.JSON { return i.Raw })
	case []m3.PromptInfo:
		return listKind, listAnswer(v, func(i m3.PromptInfo) trace.JSON { return i.Raw })
	case string:
		return "text", &answer{what: "text", text: &v}
	case []byte:
		text := string(v)
		return "text", &answer{what: "text", text: &text}
	case interface{ Text() string }:
		text := v.Text()
		return "text", &answer{what: "text", text: &text}
	}
	if k := reflect.TypeOf(v).Kind(); k == reflect.Map || k == reflect.Slice {
		a := &answer{what: "value"}
		b, err := json.Marshal(v)
		if err != nil {
			a.broken = fmt.Sprintf("the subject, a %T, cannot be written as JSON: %v", v, err)
		}
		a.value = b
		return "json", a
	}
	return kindless, nil
}

const listKind = "list_result"

func toolAnswer(r *m3.ToolCallResult) *answer {
	text := r.Text()
	return &answer{what: "tool result", text: &text, blocks: rawBlocks(r.Content), value: r.StructuredContent, isError: r.IsError, isTool: true}
}

func promptAnswer(r *m3.PromptResult) *answer {
	blocks := make([]m3.Content, len(r.Messages))
	for i, m := range r.Messages {
		blocks[i] = m.Content
	}
	text := trace.JoinText(blocks)
	return &answer{what: "prompt", text: &text, blocks: rawBlocks(blocks), value: r.Raw}
}

func listAnswer[I any](items []I, raw func(I) trace.JSON) *answer {
	list := make([]trace.JSON, len(items))
	for i, item := range items {
		list[i] = raw(item)
	}
	return &answer{what: "list", value: joinJSON(list)}
}

// rawBlocks are the blocks as they stood on the wire; one made by hand as it would.
func rawBlocks(blocks []m3.Content) []trace.JSON {
	list := make([]trace.JSON, len(blocks))
	for i, c := range blocks {
		list[i] = c.Raw
		if c.Raw != nil {
			continue
		}
		block := map[string]string{"type": c.Type}
		if c.Type == "text" || c.Text != "" {
			block["text"] = c.Text
		}
		list[i], _ = json.Marshal(block) // texts: cannot fail
	}
	return list
}

// joinJSON makes an array of values.
func joinJSON(list []trace.JSON) trace.JSON {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// redactorOf is the nearest redactor: the client's own, that of the test's kit, else the rules that need no known secret.
func redactorOf(t T, v any) func(string) string {
	if c, ok := v.(interface{ Redact(string) string }); ok && !isNil(v) {
		return c.Redact
	}
	if o := observerOf(t); o != nil && o.Redact != nil {
		return o.Redact
	}
	return evidence.NewRedactor(nil).String
}

// onView returns the subject's view for a matcher that needs one.
func (s *subject) onView(matcher string) (*trace.View, outcome) {
	if s.view == nil && s.turn != "" {
		return nil, misused("%s asks about an execution, and a turn has no view of its own: give it the result or its view, with expect.InTurn(turn)", matcher)
	}
	if s.view == nil {
		return nil, misused("%s asks about an execution: give it the view (m3test.Finish) or the closed client", matcher)
	}
	return s.view, held
}

// onAnswer returns the subject's answer for a matcher that needs one.
func (s *subject) onAnswer(matcher, instead string) (*answer, outcome) {
	switch {
	case s.answer != nil && s.answer.broken != "":
		return nil, misused("%s", s.answer.broken)
	case s.answer != nil:
		return s.answer, held
	case s.view != nil && instead != "":
		return nil, misused("%s asks about one result: give it the *m3.ToolCallResult, or ask ToolCall with expect.%s", matcher, instead)
	default:
		return nil, misused("%s asks about one result, and the subject is none", matcher)
	}
}

// snapshot says that the subject is a view of an execution that is still open.
func (s *subject) snapshot() bool { return s.view != nil && isOpen(s.view) }

func isOpen(v *trace.View) bool {
	for _, l := range v.Limitations() {
		if l.Code == "open" {
			return true
		}
	}
	return false
}
