package elicit

import "github.com/m3-go/m3/trace"

// observed is a request as leaves look at it.
type observed struct {
	mode, key, message, server, name string
	address, elicitationID           string
	kind                             trace.OperationKind
	schema                           map[string]any

	spelling string // the schema's, in canonical form, once somebody asked
}

func observe(r Request) *observed {
	switch r := r.(type) {
	case *FormRequest:
		return &observed{mode: ModeForm, key: r.RequestKey, message: r.Message, server: r.Server, name: r.OperationName, kind: r.OperationKind, schema: r.RequestedSchema}
	case *URLRequest:
		return &observed{mode: ModeURL, key: r.RequestKey, message: r.Message, server: r.Server, name: r.OperationName, kind: r.OperationKind,
			address: r.URL, elicitationID: r.ElicitationID}
	default:
		return nil // Request is sealed
	}
}

// schemaSpelling is the schema's canonical form. The request is valid.
func (o *observed) schemaSpelling() string {
	if o.spelling == "" {
		c, _ := clean(o.schema)
		o.spelling = canonical(c)
	}
	return o.spelling
}

// field is one thing that a leaf compares.
type field struct {
	name  string
	rule  rule
	equal func(l *leaf, o *observed) bool
}

// fields are all things that a leaf compares, the key and the mode always, the others only where the leaf names them. Not among
// them are meta and task.
var fields = []field{
	{"request_key", ruleKey, func(l *leaf, o *observed) bool { return l.key == o.key }},
	{"mode", ruleMode, func(l *leaf, o *observed) bool { return l.mode == o.mode }},
	{"message", ruleMessage, func(l *leaf, o *observed) bool { return l.message == nil || *l.message == o.message }},
	{"requested_schema", ruleSchema, func(l *leaf, o *observed) bool { return l.schema == nil || l.spelling == o.schemaSpelling() }},
	{"url", ruleURL, func(l *leaf, o *observed) bool { return l.address == nil || *l.address == o.address }},
	{"elicitation_id", ruleElicitationID, func(l *leaf, o *observed) bool { return l.elicitationID == nil || *l.elicitationID == o.elicitationID }},
	{"server", ruleServer, func(l *leaf, o *observed) bool { return l.server == nil || *l.server == o.server }},
	{"operation_kind", ruleKind, func(l *leaf, o *observed) bool { return l.kind == "" || l.kind == o.kind }},
	{"operation_name", ruleName, func(l *leaf, o *observed) bool { return l.name == nil || *l.name == o.name }},
}
