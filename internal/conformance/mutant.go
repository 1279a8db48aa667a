package conformance

import (
	"maps"
	"slices"
)

// mutant is a message with one thing wrong, or perhaps only left out that may be left out.
type mutant struct {
	what  string
	value any
	must  bool // every schema must refuse it
}

// mutants makes the mutants of a message or a result: it is something else altogether, has another method, lacks a member or has one of
// another JSON type, down to three levels. Arguments are the caller's own and stay as they are.
func mutants(v map[string]any) []mutant {
	list := []mutant{{"not an object", "x", true}}
	if _, ok := v["method"]; ok {
		list = append(list, mutant{"another method", with(v, "method", "m3/mutant"), true})
	}
	if _, ok := v["params"]; ok {
		list = append(list, mutant{"params of another type", with(v, "params", "x"), true})
	}
	return append(list, members(v, func(m map[string]any) any { return m }, "", 3)...)
}

// members mutates the members of obj; place puts a changed object back into the whole.
func members(obj map[string]any, place func(map[string]any) any, path string, depth int) []mutant {
	var list []mutant
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		at := path + "/" + name
		list = append(list, mutant{what: at + " is missing", value: place(without(obj, name))},
			mutant{what: at + " has another type", value: place(with(obj, name, otherType(obj[name])))})
		inner, ok := obj[name].(map[string]any)
		if !ok || depth == 0 || name == "arguments" || name == "structuredContent" {
			continue
		}
		list = append(list, members(inner, func(m map[string]any) any { return place(with(obj, name, m)) }, at, depth-1)...)
	}
	return list
}

func with(obj map[string]any, name string, v any) map[string]any {
	c := maps.Clone(obj)
	c[name] = v
	return c
}

func without(obj map[string]any, name string) map[string]any {
	c := maps.Clone(obj)
	delete(c, name)
	return c
}

func otherType(v any) any {
	if _, isText := v.(string); isText {
		return map[string]any{}
	}
	return "m3 mutant"
}
