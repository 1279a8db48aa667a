package expect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

// said is a T that keeps what is reported.
type said struct {
	*testing.T
	text string
}

func (s *said) Errorf(format string, args ...any) { s.text += fmt.Sprintf(format, args...) }

// The zero value of an option, of a view, and no function are wrong use: they neither panic nor hold. That NoToolCall held of a view whose error was overlooked was
// found by an attack.
func TestZeroValuesAreWrongUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := "an option is empty"
	overlooked := "the view is empty, and of no execution: was an error of View overlooked?"
	for _, tt := range []struct {
		name, want string
		held       func(s expect.T) bool
	}{
		{"condition", empty, func(s expect.T) bool { return expect.That(s, w.shop).ToolCall("quote", expect.CallCondition{}) }},
		{"scope", empty, func(s expect.T) bool { return expect.That(s, w.shop).ToolCalls(nil, expect.Scope{}) }},
		{"count", empty, func(s expect.T) bool { return expect.That(s, w.shop).ToolCall("quote", expect.Count{}) }},
		{"elicitation", empty, func(s expect.T) bool { return expect.That(s, w.shop).Elicitation("x", expect.ElicitationCondition{}) }},
		{"comparison", empty, func(s expect.T) bool {
			return expect.That(s, m3.Args{"x": 1}).StructuredContent(m3.Args{"x": 1}, expect.Compare{})
		}},
		{"error", empty, func(s expect.T) bool { return expect.That(s, trace.ErrNotFinalized).Error(expect.ErrorOption{}) }},
		{"view", overlooked, func(s expect.T) bool { return expect.That(s, trace.View{}).NoToolCall(expect.AnyTool) }},
		{"view, turned over", overlooked, func(s expect.T) bool { return expect.That(s, trace.View{}).Not().ToolCall(expect.AnyTool) }},
		{"pointer to a view", overlooked, func(s expect.T) bool { return expect.That(s, &trace.View{}).NoFindings(trace.SeverityNote) }},
		{"part of a view", overlooked, func(s expect.T) bool { return expect.That(s, trace.View{}.ForServer("shop")).ToolCalls(nil) }},
		{"group", "the function is nil", func(s expect.T) bool { return expect.Group(s, nil) }},
	} {
		s := &said{T: t}
		func() {
			defer func() {
				if p := recover(); p != nil {
					s.text = fmt.Sprint("it panics: ", p)
				}
			}()
			if tt.held(s) {
				t.Errorf("%s: it holds", tt.name)
			}
		}()
		if !strings.Contains(s.text, "wrong use") || !strings.Contains(s.text, tt.want) {
			t.Errorf("%s: %q, want wrong use, %q", tt.name, s.text, tt.want)
		}
	}
}
