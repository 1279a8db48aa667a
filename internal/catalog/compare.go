package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Class says what a change means to those who call a tool.
type Class string

// The classes, the worst first.
const (
	Breaking Class = "breaking" // what worked is refused, or what was promised is gone
	Risky    Class = "risky"    // it may change what happens, and nobody can tell from the catalogue alone
	Additive Class = "additive" // everything that worked works, and more does
	Wording  Class = "wording"  // words for people and models; they may change what a model does
)

// Classes are all of them, the worst first.
var Classes = []Class{Breaking, Risky, Additive, Wording}

// Change is one difference.
type Change struct {
	Class Class  `json:"class"`
	Tool  string `json:"tool"`
	// Path is where in the tool, with dots: inputSchema.properties.weight_kg.type. Empty: the tool as a whole.
	Path string `json:"path,omitempty"`
	// Message says what changed, in a few words.
	Message string          `json:"message"`
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
}

// String is the change in one line.
func (c Change) String() string {
	place := c.Tool
	if c.Path != "" {
		place += " " + c.Path
	}
	text := fmt.Sprintf("%-8s  %s: %s", c.Class, place, c.Message)
	if c.Before != nil || c.After != nil {
		text += " (" + shown(c.Before) + " → " + shown(c.After) + ")"
	}
	return text
}

// maxShown bounds a value in a line.
const maxShown = 200

func shown(b json.RawMessage) string {
	if b == nil {
		return "absent"
	}
	if len(b) > maxShown {
		return strings.ToValidUTF8(string(b[:maxShown]), "") + fmt.Sprintf("… %d bytes more", len(b)-maxShown)
	}
	return string(b)
}

// Text lists changes, one a line; without any it is empty.
func Text(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// Tally counts changes by class: "1 breaking, 2 wording".
func Tally(changes []Change) string {
	n := map[Class]int{}
	for _, c := range changes {
		n[c.Class]++
	}
	var parts []string
	for _, class := range Classes {
		if n[class] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[class], class))
		}
	}
	return strings.Join(parts, ", ")
}

// Compare lists what changed from the older catalogue to the newer one: the worst first, then by tool and place. The order in which a server lists
// its tools is no change.
func Compare(older, newer *Catalog) []Change {
	var d differ
	before, after := byName(older), byName(newer)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		d.tool = name
		old, now := before[name], after[name]
		if len(now) == 0 {
			d.add(Breaking, "", "the tool is gone", nil, nil)
			continue
		}
		if len(old) != len(now) {
			d.add(Risky, "", fmt.Sprintf("it was listed %d times, and now is %d times", len(old), len(now)), nil, nil)
		}
		for i := range min(len(old), len(now)) {
			d.members(old[i].Members, now[i].Members)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if len(before[name]) == 0 {
			d.tool = name
			d.add(Additive, "", "the tool is new", nil, nil)
		}
	}
	slices.SortStableFunc(d.changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(slices.Index(Classes, a.Class), slices.Index(Classes, b.Class)), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Path, b.Path))
	})
	return d.changes
}

func byName(c *Catalog) map[string][]Tool {
	m := map[string][]Tool{}
	for _, t := range c.Tools {
		m[t.Name] = append(m[t.Name], t)
	}
	return m
}

// differ gathers changes.
type differ struct {
	tool    string
	changes []Change
}

func (d *differ) add(class Class, path, message string, before, after any) {
	d.changes = append(d.changes, Change{class, d.tool, path, message, encode(before), encode(after)})
}

// absent is a member that is not there, as opposed to null.
type absent struct{}

func encode(v any) json.RawMessage {
	switch v.(type) {
	case nil, absent:
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil { // what came from JSON goes back to it
		panic("catalog: " + err.Error())
	}
	return b
}

// member returns what is under a name, or absent.
func member(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return null(v)
	}
	return absent{}
}

// null keeps a JSON null apart from Go's nil, which [differ.add] takes for nothing to show.
func null(v any) any {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}

// wordingMembers are those of a tool, or of a schema, that are words.
var wordingMembers = []string{"description", "title", "icons", "examples", "$comment", "deprecated", "markdownDescription"}

// members compares two tools.
func (d *differ) members(before, after map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(both(before, after))) {
		old, now := member(before, name), member(after, name)
		switch {
		case equal(old, now):
		case name == "inputSchema":
			d.schemas(accepts, name, before, after, old, now)
		case name == "outputSchema":
			d.outputSchema(before, after, old, now)
		case name == "annotations":
			d.annotations(old, now)
		case slices.Contains(wordingMembers, name):
			d.add(Wording, name, "reworded", old, now)
		case name == "_meta":
			d.add(Wording, name, "other metadata", old, now)
		default:
			d.add(Risky, name, "changed", old, now)
		}
	}
}

func (d *differ) outputSchema(before, after map[string]any, old, now any) {
	switch {
	case old == absent{}:
		d.add(Additive, "outputSchema", "the tool now promises structured content", nil, nil)
	case now == absent{}:
		d.add(Breaking, "outputSchema", "the tool no longer promises structured content", nil, nil)
	default:
		d.schemas(promises, "outputSchema", before, after, old, now)
	}
}

// annotations: hints decide what clients let a model do without asking.
func (d *differ) annotations(old, now any) {
	o, oldOK := asObject(old)
	n, nowOK := asObject(now)
	if !oldOK || !nowOK {
		d.add(Risky, "annotations", "changed", old, now)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(both(o, n))) {
		was, is := member(o, name), member(n, name)
		switch {
		case equal(was, is):
		case name == "title":
			d.add(Wording, "annotations."+name, "reworded", was, is)
		default:
			d.add(Risky, "annotations."+name, "the hint changed", was, is)
		}
	}
}

// asObject takes an absent value for an empty object.
func asObject(v any) (map[string]any, bool) {
	if (v == absent{}) {
		return nil, true
	}
	m, ok := v.(map[string]any)
	return m, ok
}

// both are the names of either.
func both(a, b map[string]any) map[string]struct{} {
	names := make(map[string]struct{}, len(a)+len(b))
	for name := range a {
		names[name] = struct{}{}
	}
	for name := range b {
		names[name] = struct{}{}
	}
	return names
}
