package elicit

import (
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// FormOption narrows what a form leaf matches: [Schema], or any [Option].
type FormOption interface{ form(*leaf) }

// URLOption narrows what a URL leaf matches: [Address], [ElicitationID], or any [Option].
type URLOption interface{ url(*leaf) }

// Option narrows what a leaf of either kind matches.
type Option interface {
	FormOption
	URLOption
}

type option func(*leaf)

func (o option) form(l *leaf) { o(l) }
func (o option) url(l *leaf)  { o(l) }

type formOption func(*leaf)

func (o formOption) form(l *leaf) { o(l) }

type urlOption func(*leaf)

func (o urlOption) url(l *leaf) { o(l) }

// Message expects this message, by plain equality.
func Message(text string) Option {
	return option(func(l *leaf) { l.set(&l.message, "the message", text, true) })
}

// Server expects a request of the server with this name: that of its definition, or, where it has none, what the server calls itself. It must not
// be empty. Write Server(shipping.Name) for a server definition.
func Server(name string) Option {
	return option(func(l *leaf) { l.set(&l.server, "the server", name, false) })
}

// OperationKind expects a request made during such an operation.
func OperationKind(kind trace.OperationKind) Option {
	return option(func(l *leaf) {
		if l.kind != "" {
			l.fail("twice", "the operation kind is given twice")
		}
		if !knownKind(kind) {
			l.fail("bad_operation_kind", "the operation kind "+quote(string(kind))+" is none of tool, prompt, resource")
		}
		l.kind = kind
	})
}

// OperationName expects a request made during the operation on this tool, prompt or resource (its URI). It must not be empty.
func OperationName(name string) Option {
	return option(func(l *leaf) { l.set(&l.name, "the operation name", name, false) })
}

// Schema expects this requested schema: a JSON object given as a map, a struct or a json.RawMessage. Schemas are compared as JSON, not by
// what they mean: the order of members is free, that of arrays and every type counts.
func Schema(schema any) FormOption {
	return formOption(func(l *leaf) {
		if l.schema != nil {
			l.fail("twice", "the schema is given twice")
		}
		c, err := cleanObject(schema)
		if err != nil {
			l.fail("bad_schema", "the schema "+err.Error())
		}
		l.schema = c
	})
}

// Address expects this URL, by plain equality. It is never opened.
func Address(url string) URLOption {
	return urlOption(func(l *leaf) { l.set(&l.address, "the URL", url, true) })
}

// ElicitationID expects this id. Protocol 2026-07-28 has none: do not ask for one there. It must not be empty.
func ElicitationID(id string) URLOption {
	return urlOption(func(l *leaf) { l.set(&l.elicitationID, "the elicitation id", id, false) })
}

// set keeps what an option gives.
func (l *leaf) set(field **string, what, text string, mayBeEmpty bool) {
	switch {
	case *field != nil:
		l.fail("twice", what+" is given twice")
	case text == "" && !mayBeEmpty:
		l.fail("empty_option", what+" is empty: leave the option out where it does not matter")
	case !utf8.ValidString(text):
		l.fail("bad_text", what+" "+errUTF8.Error())
	}
	*field = &text
}

func (l *leaf) fail(reason, message string) {
	if l.err == nil {
		l.err = failure(reason, message)
	}
}
