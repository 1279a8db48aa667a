package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
)

// side is what a schema is for: an input schema says what a tool accepts, an output schema what it promises. What breaks callers is opposite.
type side bool

const (
	accepts  side = true
	promises side = false
)

// effect is what a change does to the set of values that a schema allows.
type effect int

const (
	narrower effect = iota
	wider
	other // neither can be shown
	disjoint
)

func (s side) class(e effect) Class {
	switch {
	case e == disjoint:
		return Breaking
	case e == other:
		return Risky
	case (e == narrower) == (s == accepts):
		return Breaking
	default:
		return Additive
	}
}

// maxDepth bounds how deep schemas are compared; below it any difference is risky.
const maxDepth = 64

// comparison is that of one pair of schemas of a tool.
type comparison struct {
	*differ
	side     side
	old, now any // the roots, for references
	seen     map[string]bool
	depth    int
}

func (d *differ) schemas(s side, path string, before, after map[string]any, old, now any) {
	c := &comparison{differ: d, side: s, old: before[path], now: after[path], seen: map[string]bool{}}
	if (old == absent{}) || (now == absent{}) {
		d.add(Breaking, path, "the schema appeared or went", old, now)
		return
	}
	found := len(d.changes)
	c.schema(path, old, now)
	if len(d.changes) == found && redefined(old, now) {
		d.add(Risky, path+".$defs", "a definition changed, where its use is not compared", nil, nil)
	}
}

// redefined reports whether a definition that both have under one name is another.
func redefined(old, now any) bool {
	o, n := definitions(old), definitions(now)
	for name, v := range o {
		if w, ok := n[name]; ok && !equal(null(v), null(w)) {
			return true
		}
	}
	return false
}

func definitions(v any) map[string]any {
	m, _ := v.(map[string]any)
	defs, ok := m["$defs"].(map[string]any)
	if !ok {
		defs, _ = m["definitions"].(map[string]any)
	}
	return defs
}

func (c *comparison) note(e effect, path, message string, old, now any) {
	c.add(c.side.class(e), path, message, old, now)
}

// schema compares two schemas at one place.
func (c *comparison) schema(path string, old, now any) {
	if equal(old, now) && !c.refers(old) && !c.refers(now) {
		return
	}
	if c.depth++; c.depth > maxDepth {
		c.note(other, path, "changed, too deep to compare", nil, nil)
		c.depth--
		return
	}
	defer func() { c.depth-- }()
	old, now, same := c.resolve(path, old, now)
	if same {
		return
	}
	o, okOld := asSchema(old)
	n, okNow := asSchema(now)
	switch {
	case !okOld || !okNow:
		if !equal(old, now) {
			c.note(other, path, "changed, and is no schema", old, now)
		}
	case isNever(o) || isNever(n):
		c.never(path, o, n)
	default:
		c.keywords(path, o, n)
	}
}

// refers reports whether v is a reference, whose target may have changed where it itself did not.
func (c *comparison) refers(v any) bool {
	found := false
	walk(v, func(m map[string]any) {
		if _, ok := m["$ref"]; ok {
			found = true
		}
	})
	return found
}

func walk(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, e := range v {
			walk(e, visit)
		}
	case []any:
		for _, e := range v {
			walk(e, visit)
		}
	}
}

// resolve follows local references. Same is true when the pair was compared already, as recursive schemas come back to.
func (c *comparison) resolve(path string, old, now any) (o, n any, same bool) {
	o, refOld := follow(c.old, old)
	n, refNow := follow(c.now, now)
	if refOld == "" && refNow == "" {
		return o, n, false
	}
	key := refOld + "\x00" + refNow
	if refOld == "" || refNow == "" {
		key += "\x00" + path
	}
	if c.seen[key] {
		return nil, nil, true
	}
	c.seen[key] = true
	return o, n, false
}

// follow returns what v stands for: itself, or the target of its local reference, which it names then.
func follow(root, v any) (any, string) {
	ref := ""
	for range maxDepth {
		m, ok := v.(map[string]any)
		if !ok {
			break
		}
		to, ok := m["$ref"].(string)
		pointer, local := strings.CutPrefix(to, "#")
		if !ok || !local || len(m) > 1 {
			break
		}
		target, ok := lookUp(root, pointer)
		if !ok {
			break
		}
		v, ref = target, to
	}
	return v, ref
}

// lookUp evaluates a JSON pointer (RFC 6901).
func lookUp(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, true
	}
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]; !ok {
			return nil, false
		}
	}
	return v, true
}

// never is the schema false.
var never = map[string]any{"not": map[string]any{}}

func isNever(m map[string]any) bool { return reflect.DeepEqual(m, never) }

// asSchema takes true for the empty schema and false for one that allows nothing.
func asSchema(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case absent:
		return map[string]any{}, true
	case bool:
		if v {
			return map[string]any{}, true
		}
		return never, true
	case map[string]any:
		return v, true
	}
	return nil, false
}

func (c *comparison) never(path string, o, n map[string]any) {
	switch {
	case isNever(o) && isNever(n):
	case isNever(n):
		c.note(narrower, path, "nothing is allowed here any more", nil, nil)
	default:
		c.note(wider, path, "values are allowed here now", nil, nil)
	}
}

// keywords compares what two schemas say.
func (c *comparison) keywords(path string, o, n map[string]any) {
	c.properties(path, o, n)
	for _, name := range slices.Sorted(maps.Keys(both(o, n))) {
		old, now := member(o, name), member(n, name)
		at := path + "." + name
		switch {
		case name == "properties" || name == "required" || name == "$defs" || name == "definitions":
		case name == "$ref":
			c.reference(at, old, now)
		case name == "anyOf" || name == "oneOf" || name == "allOf":
			c.alternatives(name, at, old, now)
		case slices.Contains(subschemas, name):
			c.schema(at, old, now)
		case name == "patternProperties" || name == "dependentSchemas":
			c.named(at, old, now)
		case equal(old, now):
		case name == "type":
			c.sets(at, "the type changed", types(old), types(now), old, now)
		case name == "enum" || name == "const":
			c.sets(at, "the allowed values changed", values(old), values(now), old, now)
		case slices.Contains(lower, name):
			c.bound(at, old, now, 1)
		case slices.Contains(upper, name):
			c.bound(at, old, now, -1)
		case slices.Contains(constraints, name):
			c.constraint(at, old, now)
		case name == "default":
			c.note(other, at, "the default changed", old, now)
		case slices.Contains(wordingMembers, name):
			c.add(Wording, at, "reworded", old, now)
		case slices.Contains(silent, name):
		default:
			c.note(other, at, "changed", old, now)
		}
	}
}

var (
	// subschemas hold one schema each; a missing one allows everything.
	subschemas = []string{"additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems", "additionalItems", "propertyNames", "contentSchema"}
	// lower bounds narrow as they grow, upper bounds as they shrink.
	lower = []string{"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"}
	upper = []string{"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"}
	// constraints narrow as they come and widen as they go; two of them cannot be compared.
	constraints = []string{"pattern", "multipleOf", "uniqueItems", "contains", "dependentRequired", "not"}
	// silent keywords say nothing about values.
	silent = []string{"$schema", "$id", "$anchor", "$vocabulary"}
)

// reference compares what two references with other keywords beside them stand for.
func (c *comparison) reference(path string, old, now any) {
	_, okOld := old.(string)
	_, okNow := now.(string)
	if okOld && okNow {
		c.schema(path, map[string]any{"$ref": old}, map[string]any{"$ref": now})
		return
	}
	if !equal(old, now) {
		c.constraint(path, old, now)
	}
}

// alternatives compares lists of schemas: by place when they are equally long, else by whether one list has all that the other has.
func (c *comparison) alternatives(name, path string, old, now any) {
	o, okOld := old.([]any)
	n, okNow := now.([]any)
	switch {
	case !okOld || !okNow:
		if !equal(old, now) {
			c.constraint(path, old, now)
		}
	case len(o) == len(n):
		for i := range o {
			c.schema(fmt.Sprintf("%s[%d]", path, i), null(o[i]), null(n[i]))
		}
	case contains(n, o):
		c.note(pick(name == "allOf", narrower, wider), path, "there are more alternatives", nil, nil)
	case contains(o, n):
		c.note(pick(name == "allOf", wider, narrower), path, "there are fewer alternatives", nil, nil)
	default:
		c.note(other, path, "the alternatives changed", nil, nil)
	}
}

func pick(cond bool, a, b effect) effect {
	if cond {
		return a
	}
	return b
}

// contains reports whether list has every element of part.
func contains(list, part []any) bool {
	for _, p := range part {
		if !slices.ContainsFunc(list, func(v any) bool { return equal(null(v), null(p)) }) {
			return false
		}
	}
	return true
}

// properties compares the members that objects may and must have.
func (c *comparison) properties(path string, o, n map[string]any) {
	was, okOld := asObject(member(o, "properties"))
	is, okNow := asObject(member(n, "properties"))
	if !okOld || !okNow {
		c.note(other, path+".properties", "changed, and is no object", nil, nil)
		return
	}
	must, nowMust := texts(member(o, "required")), texts(member(n, "required"))
	for _, name := range slices.Sorted(maps.Keys(both(was, is))) {
		at := path + ".properties." + name
		_, before := was[name]
		_, after := is[name]
		switch {
		case before && after:
			c.schema(at, null(was[name]), null(is[name]))
		case after:
			c.newProperty(at, slices.Contains(nowMust, name), n)
		default:
			c.goneProperty(at, slices.Contains(must, name), n)
		}
	}
	for _, name := range nowMust {
		_, known := was[name]
		if _, stays := is[name]; !slices.Contains(must, name) && (known || !stays) {
			c.note(narrower, path+".required", fmt.Sprintf("%q is required now", name), nil, nil)
		}
	}
	for _, name := range must {
		_, listed := was[name]
		if _, stays := is[name]; !slices.Contains(nowMust, name) && (stays || !listed) {
			c.note(wider, path+".required", fmt.Sprintf("%q is no longer required", name), nil, nil)
		}
	}
}

func (c *comparison) newProperty(at string, required bool, n map[string]any) {
	switch {
	case required && c.side == accepts:
		c.add(Breaking, at, "a new property, and it is required", nil, nil)
	case required:
		c.add(Additive, at, "a new property, always there", nil, nil)
	default:
		c.add(Additive, at, "a new property, optional", nil, nil)
	}
}

// goneProperty: arguments that a schema does not name are refused when it is closed; else they are accepted and, as like as not, ignored.
func (c *comparison) goneProperty(at string, required bool, n map[string]any) {
	closed := false
	if extra, ok := n["additionalProperties"]; ok {
		s, ok := asSchema(extra)
		closed = ok && isNever(s)
	}
	switch {
	case c.side == accepts && closed:
		c.add(Breaking, at, "the property is gone, and others are not allowed", nil, nil)
	case c.side == accepts:
		c.add(Risky, at, "the property is gone; callers that send it may be ignored", nil, nil)
	case required:
		c.add(Breaking, at, "the property is gone, and was always there", nil, nil)
	default:
		c.add(Risky, at, "the property is gone; callers that read it find nothing", nil, nil)
	}
}

// named compares schemas under names; one that is missing allows everything.
func (c *comparison) named(path string, old, now any) {
	o, okOld := asObject(old)
	n, okNow := asObject(now)
	if !okOld || !okNow {
		c.note(other, path, "changed, and is no object", old, now)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(both(o, n))) {
		c.schema(path+"."+name, member(o, name), member(n, name))
	}
}

// sets compares sets of allowed things; nil is everything.
func (c *comparison) sets(path, message string, old, now map[string]bool, before, after any) {
	less := now != nil && (old == nil || subset(now, old))
	more := old != nil && (now == nil || subset(old, now))
	switch {
	case less && more: // the same, written otherwise
	case less:
		c.note(narrower, path, message, before, after)
	case more:
		c.note(wider, path, message, before, after)
	default:
		c.note(disjoint, path, message, before, after)
	}
}

func subset(a, b map[string]bool) bool {
	for v := range a {
		if !b[v] {
			return false
		}
	}
	return true
}

// types is the set of a type keyword: every integer is a number.
func types(v any) map[string]bool {
	if (v == absent{}) {
		return nil
	}
	set := map[string]bool{}
	for _, t := range texts(v) {
		set[t] = true
		if t == "number" {
			set["integer"] = true
		}
	}
	return set
}

// texts are the strings of a list, or of one string.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// values is the set of an enum, or the one value of a const.
func values(v any) map[string]bool {
	if (v == absent{}) {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	set := map[string]bool{}
	for _, e := range list {
		set[string(encode(plain(null(e))))] = true
	}
	return set
}

// bound compares limits; up is 1 when a larger one narrows.
func (c *comparison) bound(path string, old, now any, up int) {
	o, okOld := number(old)
	n, okNow := number(now)
	switch {
	case okOld && okNow && o.Cmp(n)*up < 0, okNow && old == absent{}:
		c.note(narrower, path, "the limit is tighter", old, now)
	case okOld && okNow && o.Cmp(n)*up > 0, okOld && now == absent{}:
		c.note(wider, path, "the limit is looser", old, now)
	default:
		c.note(other, path, "changed", old, now)
	}
}

func (c *comparison) constraint(path string, old, now any) {
	switch {
	case equal(old, false) && now == absent{}, old == absent{} && equal(now, false): // uniqueItems: false says nothing
	case old == absent{}:
		c.note(narrower, path, "a new constraint", old, now)
	case now == absent{}:
		c.note(wider, path, "the constraint is gone", old, now)
	default:
		c.note(other, path, "the constraint changed", old, now)
	}
}

// number reads a JSON number exactly; one with an exponent of more than three digits is none.
func number(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	if i := strings.IndexAny(string(n), "eE"); i >= 0 && len(n)-i > 5 {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}

// plain is v with its numbers in one form, so that 1, 1.0 and 1e0 are equal.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := number(v); ok {
			return json.RawMessage(`"` + r.RatString() + `#"`)
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	}
	return v
}

// equal compares JSON values, numbers by what they are.
func equal(a, b any) bool {
	if (a == absent{}) || (b == absent{}) {
		return a == b
	}
	return reflect.DeepEqual(plain(a), plain(b))
}
