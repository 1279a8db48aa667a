package elicit

import (
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// leaf is what one request must be. What is nil, or an empty kind, may be anything.
type leaf struct {
	mode, key              string
	message, server, name  *string
	address, elicitationID *string // of a URL
	kind                   trace.OperationKind
	schema                 map[string]any // of a form
	meta, task             map[string]any // kept, never compared
	err                    *PlanError     // of the options

	spelling string // the schema's, in canonical form
}

// label names the leaf in paths.
func (l *leaf) label() string { return l.mode + " " + quote(l.key) }

// check ends the building of a leaf.
func (l *leaf) check() *PlanError {
	switch {
	case l.err != nil:
		return l.err
	case l.key == "":
		return failure("empty_key", "the request key is empty")
	case !utf8.ValidString(l.key):
		return failure("bad_text", "the request key "+errUTF8.Error())
	}
	if l.schema != nil {
		l.spelling = canonical(l.schema)
	}
	return nil
}

// tree is the leaf as a JSON value.
func (l *leaf) tree() map[string]any {
	t := map[string]any{"mode": l.mode, "request_key": l.key}
	for name, text := range map[string]*string{"message": l.message, "server": l.server, "operation_name": l.name, "url": l.address, "elicitation_id": l.elicitationID} {
		if text != nil {
			t[name] = *text
		}
	}
	for name, object := range map[string]map[string]any{"requested_schema": l.schema, "meta": l.meta, "task": l.task} {
		if object != nil {
			t[name] = object
		}
	}
	if l.kind != "" {
		t["operation_kind"] = string(l.kind)
	}
	return t
}

// leafFrom reads a leaf's request through the options, so that one set of rules holds.
func leafFrom(m *members) *leaf {
	l := &leaf{mode: m.required("mode"), key: m.required("request_key"), meta: m.object("meta"), task: m.object("task")}
	text := func(name string, option func(string) Option) {
		if v := m.text(name); v != nil {
			option(*v).form(l)
		}
	}
	text("message", Message)
	text("server", Server)
	text("operation_name", OperationName)
	text("operation_kind", func(kind string) Option { return OperationKind(trace.OperationKind(kind)) })
	switch l.mode {
	case ModeForm:
		if schema := m.object("requested_schema"); schema != nil {
			Schema(schema).form(l)
		}
	case ModeURL:
		if v := m.text("url"); v != nil {
			Address(*v).url(l)
		}
		if v := m.text("elicitation_id"); v != nil {
			ElicitationID(*v).url(l)
		}
	default:
		m.fail("bad_mode", "the mode "+quote(l.mode)+" is none of form, url")
	}
	if err := m.done(); err != nil {
		l.err = err
	}
	return l
}

// expectation is the leaf as others may see it.
func (l *leaf) expectation() Expectation {
	if l.mode == ModeURL {
		return &URLExpectation{RequestKey: l.key, Message: copyText(l.message), URL: copyText(l.address), ElicitationID: copyText(l.elicitationID),
			Meta: copyMap(l.meta), Task: copyMap(l.task), Server: copyText(l.server), OperationKind: l.kind, OperationName: copyText(l.name)}
	}
	return &FormExpectation{RequestKey: l.key, Message: copyText(l.message), RequestedSchema: copyMap(l.schema),
		Meta: copyMap(l.meta), Task: copyMap(l.task), Server: copyText(l.server), OperationKind: l.kind, OperationName: copyText(l.name)}
}

func copyText(s *string) *string {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}
