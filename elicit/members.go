package elicit

import (
	"maps"
	"slices"

	"github.com/m3-go/m3/trace"
)

// members takes a parsed object apart. The first thing that is wrong stays in err; what nobody took is an unknown member. A member that
// is null is an absent one.
type members struct {
	rest map[string]any
	err  *PlanError
}

func membersOf(v any) *members {
	object, ok := v.(map[string]any)
	m := &members{rest: maps.Clone(object)}
	if !ok {
		m.fail("wrong_type", "is no JSON object")
	}
	return m
}

// decode reads a whole text; what it is about is named by the error.
func decode(b []byte) *members {
	v, err := parse(b, maxText)
	if err != nil {
		m := &members{}
		m.fail("bad_json", "the JSON text "+err.Error())
		return m
	}
	return membersOf(v)
}

func (m *members) fail(reason, message string) {
	if m.err == nil {
		m.err = failure(reason, message)
	}
}

func (m *members) take(name string) any {
	v := m.rest[name]
	delete(m.rest, name)
	return v
}

// text is nil for an absent member.
func (m *members) text(name string) *string {
	switch v := m.take(name).(type) {
	case nil:
		return nil
	case string:
		return &v
	default:
		m.fail("wrong_type", name+" is no string")
		return nil
	}
}

func (m *members) required(name string) string {
	v := m.text(name)
	if v == nil {
		m.fail("missing", name+" is missing")
		return ""
	}
	return *v
}

func (m *members) optional(name string) string {
	if v := m.text(name); v != nil {
		return *v
	}
	return ""
}

// object is nil for an absent member.
func (m *members) object(name string) map[string]any {
	switch v := m.take(name).(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	default:
		m.fail("wrong_type", name+" is no object")
		return nil
	}
}

func (m *members) list(name string) []any {
	switch v := m.take(name).(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		m.fail("wrong_type", name+" is no list")
		return nil
	}
}

func (m *members) flag(name string) bool {
	switch v := m.take(name).(type) {
	case nil:
		return false
	case bool:
		return v
	default:
		m.fail("wrong_type", name+" is no boolean")
		return false
	}
}

// mode takes the mode, which must be this one.
func (m *members) mode(want string) {
	if mode := m.optional("mode"); mode != want {
		m.fail("bad_mode", "the mode "+quote(mode)+" is not "+want)
	}
}

func (m *members) kind(name string) trace.OperationKind {
	return trace.OperationKind(m.optional(name))
}

// done reports the first failure, or a member that nobody knows.
func (m *members) done() *PlanError {
	if m.err == nil && len(m.rest) > 0 {
		m.fail("unknown_member", "unknown member "+quote(slices.Min(slices.Collect(maps.Keys(m.rest)))))
	}
	return m.err
}

// knownKind reports whether kind is one of the three operations.
func knownKind(kind trace.OperationKind) bool {
	return kind == trace.OperationTool || kind == trace.OperationPrompt || kind == trace.OperationResource
}
