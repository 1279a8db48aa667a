package elicit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3/elicit"
)

// The matcher of this file shares nothing with the product's. It reads a plan's public JSON, writes down every way in which the plan can go from
// its beginning to its end, and asks of each round which of them are left.

// bruteNode is a plan's JSON.
type bruteNode struct {
	Node               string
	Request, Response  map[string]any
	Children           []bruteNode
	OptionalOccurrence bool `json:"optional_occurrence"`
}

// bruteItem is what one round must be: leaves by their keys. Its name is its own in the plan.
type bruteItem struct {
	name   string
	leaves []bruteNode
}

// derivation is one way through a plan.
type derivation []bruteItem

func decodeExact(t testing.TB, b []byte, v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		t.Fatal(err)
	}
}

// derivations are all ways through a node; too many are cut off, for the caller to see.
func derivations(n bruteNode, name string) []derivation {
	var all []derivation
	switch n.Node {
	case "leaf":
		all = append(all, derivation{{name, []bruteNode{n}}})
		if n.OptionalOccurrence {
			all = append(all, derivation{})
		}
	case "round_of":
		all = append(all, derivation{{name, n.Children}})
	case "optional":
		all = append(derivations(n.Children[0], name+".0"), derivation{})
	case "one_of":
		for i, child := range n.Children {
			all = append(all, derivations(child, fmt.Sprint(name, ".", i))...)
		}
	case "sequence":
		all = []derivation{{}}
		for i, child := range n.Children {
			var longer []derivation
			for _, begin := range all {
				for _, end := range derivations(child, fmt.Sprint(name, ".", i)) {
					if longer = append(longer, slices.Concat(begin, end)); len(longer) > tooMany {
						return longer
					}
				}
			}
			all = longer
		}
	}
	return all
}

const tooMany = 400

// spell is a JSON value as text, equal for equal values.
func spell(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var all []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, fmt.Sprintf("%q:%s", name, spell(v[name])))
		}
		return "{" + strings.Join(all, ",") + "}"
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, spell(e))
		}
		return "[" + strings.Join(all, ",") + "]"
	case json.Number:
		r, _ := new(big.Rat).SetString(string(v))
		return r.RatString()
	default:
		return fmt.Sprintf("%#v", v)
	}
}

// satisfies reports whether a request's JSON is what a leaf's says.
func satisfies(leaf bruteNode, request map[string]any) bool {
	for name, want := range leaf.Request {
		if name == "meta" || name == "task" {
			continue
		}
		got, there := request[name]
		if !there {
			got = "" // an absent text
		}
		if spell(want) != spell(got) {
			return false
		}
	}
	return true
}

// answersOf are an item's responses when the round is what it must be.
func answersOf(item bruteItem, round []map[string]any) (map[string]string, bool) {
	if len(item.leaves) != len(round) {
		return nil, false
	}
	answers := map[string]string{}
	for _, leaf := range item.leaves {
		key := leaf.Request["request_key"]
		at := slices.IndexFunc(round, func(r map[string]any) bool { return r["request_key"] == key })
		if at < 0 || !satisfies(leaf, round[at]) {
			return nil, false
		}
		answers[key.(string)] = spell(leaf.Response)
	}
	return answers, true
}

// verdict is what happened to a call: the answers of each round, and how it ended ("" when all is well).
type verdict struct {
	answers []map[string]string
	reason  string
}

// judge follows a call by enumeration. equal is true when a round was matched by different items with equal answers.
func judge(ways []derivation, rounds [][]map[string]any) (v verdict, equal bool) {
	for k, round := range rounds {
		keys := map[any]bool{}
		for _, r := range round {
			keys[r["request_key"]] = true
		}
		switch {
		case len(round) == 0:
			v.reason = "empty_round"
			return v, equal
		case len(keys) < len(round):
			v.reason = "duplicate_key"
			return v, equal
		}
		var left []derivation
		items, answers := map[string]bool{}, map[string]map[string]string{}
		for _, way := range ways {
			if len(way) <= k {
				continue
			}
			if a, ok := answersOf(way[k], round); ok {
				left = append(left, way)
				items[way[k].name] = true
				answers[fmt.Sprint(a)] = a
			}
		}
		switch {
		case len(left) == 0:
			v.reason = "no_match"
			return v, equal
		case len(answers) > 1:
			v.reason = "ambiguous"
			return v, equal
		}
		equal = equal || len(items) > 1
		for _, a := range answers {
			v.answers = append(v.answers, a)
		}
		ways = left
	}
	if !slices.ContainsFunc(ways, func(way derivation) bool { return len(way) == len(rounds) }) {
		v.reason = "incomplete"
	}
	return v, equal
}

// run follows a call with the product's matcher, which may leave a rule out.
func run(t testing.TB, plan *elicit.Plan, rounds [][]elicit.Request, dropped elicit.Rule) (v verdict) {
	t.Helper()
	m, err := elicit.NewMatcherWithout(plan, dropped)
	if err != nil {
		t.Fatal(err)
	}
	for _, round := range rounds {
		responses, err := m.Round(round)
		if err != nil {
			v.reason = reasonOf(t, err)
			return v
		}
		answers := map[string]string{}
		for key, r := range responses {
			wire, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var value any
			decodeExact(t, wire, &value)
			answers[key] = spell(value)
		}
		v.answers = append(v.answers, answers)
	}
	if err := m.Complete(); err != nil {
		v.reason = reasonOf(t, err)
	}
	return v
}

func reasonOf(t testing.TB, err error) string {
	t.Helper()
	e, ok := err.(*elicit.ExpectationError)
	if !ok {
		t.Fatalf("%v (%T)", err, err)
	}
	return e.Details["reason"].(string)
}
