package elicit

import "github.com/m3-go/m3/trace"

// FormOption narrows what a form leaf matches: [Schema], or any [Option].
type FormOption interface{ form(*leaf) }

// URLOption narrows what a URL leaf matches: [Address], [ElicitationID], or any [Option].
type URLOption interface{ url(*leaf) }

// Option narrows what a leaf of either kind matches.
type Option interface {
	FormOption
	URLOption
}

type leaf struct{}

type option func(*leaf)

func (o option) form(l *leaf) { o(l) }
func (o option) url(l *leaf)  { o(l) }

type formOption func(*leaf)

func (o formOption) form(l *leaf) { o(l) }

type urlOption func(*leaf)

func (o urlOption) url(l *leaf) { o(l) }

// Message expects this message, by plain equality.
func Message(text string) Option { panic("todo") }

// Server expects a request of the server with this name: that of its definition, or, where it has none, what the server calls itself. It must not
// be empty. Write Server(shipping.Name) for a server definition.
func Server(name string) Option { panic("todo") }

// OperationKind expects a request made during such an operation.
func OperationKind(kind trace.OperationKind) Option { panic("todo") }

// OperationName expects a request made during the operation on this tool, prompt or resource (its URI). It must not be empty.
func OperationName(name string) Option { panic("todo") }

// Schema expects this requested schema: a JSON object given as a map, a struct or a json.RawMessage. Schemas are compared as JSON, not by
// what they mean: the order of members is free, that of arrays and every type counts.
func Schema(schema any) FormOption { panic("todo") }

// Address expects this URL, by plain equality. It is never opened.
func Address(url string) URLOption { panic("todo") }

// ElicitationID expects this id. Protocol 2026-07-28 has none: do not ask for one there. It must not be empty.
func ElicitationID(id string) URLOption { panic("todo") }
