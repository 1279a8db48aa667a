package elicit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// gen makes plans and calls from few keys, texts and answers, so that they often meet.
type gen struct {
	*rand.Rand
	narrow bool // all leaves are much alike
}

func pick[T any](g gen, from ...T) T { return from[g.IntN(len(from))] }

func (g gen) chance(percent int) bool { return g.IntN(100) < percent }

var schemas = []string{`{"type":"object","n":1}`, `{"n":1.0,"type":"object"}`, `{"type":"object","n":2}`}

func (g gen) options() []elicit.Option {
	var opts []elicit.Option
	if g.narrow && g.chance(90) {
		return nil
	}
	if g.chance(20) {
		opts = append(opts, elicit.Message(pick(g, "", "m1", "m2")))
	}
	if g.chance(20) {
		opts = append(opts, elicit.Server(pick(g, "s1", "s2")))
	}
	if g.chance(20) {
		opts = append(opts, elicit.OperationKind(pick(g, trace.OperationTool, trace.OperationPrompt)))
	}
	if g.chance(20) {
		opts = append(opts, elicit.OperationName(pick(g, "o1", "o2")))
	}
	return opts
}

// leaf makes a bound leaf. Equal answers are frequent, some of them only in value.
func (g gen) leaf(key string, maybe bool) *elicit.Plan {
	var meta elicit.Meta
	if g.chance(10) {
		meta = elicit.Meta{"k": 1}
	}
	if g.narrow && g.chance(85) {
		make := elicit.Form
		if maybe {
			make = elicit.MaybeForm
		}
		return make(key).Accept(elicit.Content{"n": json.Number(pick(g, "1", "1.0", "1", "10e-1", "2"))})
	}
	if g.chance(50) {
		make := elicit.Form
		if maybe {
			make = elicit.MaybeForm
		}
		var opts []elicit.FormOption
		for _, o := range g.options() {
			opts = append(opts, o)
		}
		if g.chance(20) {
			opts = append(opts, elicit.Schema(json.RawMessage(pick(g, schemas...))))
		}
		if g.chance(15) {
			return make(key, opts...).Decline(meta)
		}
		return make(key, opts...).Accept(elicit.Content{"n": json.Number(pick(g, "1", "1.0", "1", "10e-1", "2"))}, meta)
	}
	make := elicit.URL
	if maybe {
		make = elicit.MaybeURL
	}
	var opts []elicit.URLOption
	for _, o := range g.options() {
		opts = append(opts, o)
	}
	if g.chance(40) {
		opts = append(opts, elicit.Address(pick(g, "u1", "u2")))
	}
	if g.chance(40) {
		opts = append(opts, elicit.ElicitationID(pick(g, "e1", "e2")))
	}
	if g.chance(25) {
		return make(key, opts...).Cancel(meta)
	}
	return make(key, opts...).Accept(meta)
}

var keys = []string{"a", "b", "c"}

func (g gen) key() string {
	if g.narrow && g.chance(85) {
		return "a"
	}
	return pick(g, keys...)
}

// plan makes any plan that the builders take.
func (g gen) plan(depth int) *elicit.Plan {
	for {
		if p := g.attempt(depth); p.Err() == nil {
			return p
		}
	}
}

func (g gen) attempt(depth int) *elicit.Plan {
	if depth == 0 || depth < 2 && g.chance(30) {
		return g.leaf(g.key(), g.chance(25))
	}
	children := func(n int) []*elicit.Plan {
		all := make([]*elicit.Plan, n)
		for i := range all {
			all[i] = g.plan(depth - 1)
			if i > 0 && g.chance(25) { // once more, or nearly so
				all[i] = all[i-1]
			}
		}
		return all
	}
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		return elicit.Sequence(children(2 + g.IntN(2))...)
	case 4, 5:
		return elicit.Optional(g.plan(depth - 1))
	case 6, 7, 8:
		return elicit.OneOf(children(2 + g.IntN(2))...)
	default:
		shuffled := g.Perm(len(keys))[:2+g.IntN(2)]
		var leaves []*elicit.Plan
		for _, i := range shuffled {
			leaves = append(leaves, g.leaf(keys[i], false))
		}
		return elicit.Round(leaves...)
	}
}

// request makes a request that a leaf's JSON describes, with anything where it says nothing.
func (g gen) request(leaf bruteNode) elicit.Request {
	text := func(name string, from ...string) string {
		if v, ok := leaf.Request[name].(string); ok {
			return v
		}
		return pick(g, from...)
	}
	key, message, server := text("request_key", keys...), text("message", "", "m1", "m2"), text("server", "", "s1", "s2")
	kind, name := trace.OperationKind(text("operation_kind", "", "tool", "prompt")), text("operation_name", "", "o1", "o2")
	meta, task := pick(g, nil, elicit.Meta{"x": 1}), pick(g, nil, map[string]any{"y": 2})
	if leaf.Request["mode"] == "url" {
		return &elicit.URLRequest{RequestKey: key, Message: message, URL: text("url", "u1", "u2"), ElicitationID: text("elicitation_id", "", "e1", "e2"),
			Server: server, OperationKind: kind, OperationName: name, Meta: meta, Task: task}
	}
	schema, ok := leaf.Request["requested_schema"].(map[string]any)
	if !ok || g.chance(50) && spell(schema) == spell(map[string]any{"type": "object", "n": json.Number("1")}) {
		schema = nil
		if err := json.Unmarshal([]byte(pick(g, schemas[:2+g.IntN(2)]...)), &schema); err != nil {
			panic(err)
		}
	}
	return &elicit.FormRequest{RequestKey: key, Message: message, RequestedSchema: schema, Server: server, OperationKind: kind, OperationName: name, Meta: meta, Task: task}
}

// spoil makes a request that a leaf describes but for one thing.
func (g gen) spoil(leaf bruteNode) elicit.Request {
	other := bruteNode{Request: maps.Clone(leaf.Request)}
	name := pick(g, slices.Sorted(maps.Keys(other.Request))...)
	delete(other.Request, name) // then it may be anything
	if name == "mode" {
		other.Request = map[string]any{"request_key": leaf.Request["request_key"], "mode": pick(g, "form", "url")}
	}
	return g.request(other)
}

// call makes the rounds of a call: those of one way through the plan, or nearly so.
func (g gen) call(ways []derivation) [][]elicit.Request {
	way := pick(g, ways...)
	var rounds [][]elicit.Request
	for _, item := range way {
		var round []elicit.Request
		for _, leaf := range item.leaves {
			round = append(round, g.request(leaf))
		}
		g.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		rounds = append(rounds, round)
	}
	if g.chance(50) {
		return rounds
	}
	anything := func() elicit.Request {
		return g.request(bruteNode{Request: map[string]any{"mode": pick(g, "form", "form", "url")}})
	}
	at := 0
	if len(rounds) > 0 {
		at = g.IntN(len(rounds))
	}
	switch n := g.IntN(16); {
	case n < 5 || len(rounds) == 0 && n < 15: // ends too early, or not at all
		if len(rounds) > 0 && n < 4 {
			return rounds[:at]
		}
		return append(rounds, []elicit.Request{anything()})
	case n < 9:
		leaf := pick(g, way[at].leaves...)
		i := slices.IndexFunc(rounds[at], func(r elicit.Request) bool { return r.Key() == leaf.Request["request_key"] })
		rounds[at][i] = g.spoil(leaf)
	case n < 11:
		rounds[at] = append(rounds[at], anything())
	case n < 12:
		rounds[at] = rounds[at][1:]
	case n < 14 && len(rounds) > 1:
		i := g.IntN(len(rounds))
		rounds[at], rounds[i] = rounds[i], rounds[at]
	case n < 15:
		rounds = append(rounds[:at:at], rounds[at+1:]...)
	}
	return rounds
}

// matchCase is one generated call and what enumeration says about it.
type matchCase struct {
	plan   *elicit.Plan
	rounds [][]elicit.Request
	want   verdict
	equal  bool
}

func (c matchCase) String() string {
	plan, _ := json.Marshal(c.plan)
	rounds, _ := json.Marshal(c.rounds)
	return fmt.Sprintf("plan %s\nrounds %s", plan, rounds)
}

// cases generates n calls.
func cases(t testing.TB, seed uint64, n int) []matchCase {
	t.Helper()
	g := gen{Rand: rand.New(rand.NewPCG(seed, 4))}
	var all []matchCase
	for len(all) < n {
		g.narrow = g.chance(50)
		plan := g.plan(pick(g, 0, 1, 2, 2, 2, 3, 3, 3))
		text, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		var node bruteNode
		decodeExact(t, text, &node)
		ways := derivations(node, "")
		if len(ways) > tooMany {
			continue
		}
		c := matchCase{plan: plan, rounds: g.call(ways)}
		text, err = json.Marshal(c.rounds)
		if err != nil {
			t.Fatal(err)
		}
		var rounds [][]map[string]any
		decodeExact(t, text, &rounds)
		c.want, c.equal = judge(ways, rounds)
		all = append(all, c)
	}
	return all
}

// TestMatcherEqualsEnumeration: on generated calls the matcher says what the enumeration of all ways through the plan says: the same
// answers in the same rounds, and the same end. And were any one of its rules left out, this test would see it.
func TestMatcherEqualsEnumeration(t *testing.T) {
	t.Parallel()
	const n = 4000
	all := cases(t, 1, n)
	outcomes := map[string]int{}
	for _, c := range all {
		if got := run(t, c.plan, c.rounds, 0); !reflect.DeepEqual(got, c.want) {
			t.Fatalf("the matcher says %+v, the enumeration %+v\n%v", got, c.want, c)
		}
		outcomes[c.want.reason]++
		if c.equal {
			outcomes["equal answers"]++
		}
	}
	for _, name := range []string{"", "no_match", "ambiguous", "incomplete", "equal answers"} {
		if outcomes[name] < n/20 {
			t.Errorf("only %d of %d cases are %q: the generator is poor", outcomes[name], n, name)
		}
	}
	t.Logf("%v", outcomes)
	seen := elicit.Rule(0)
	for name, rule := range elicit.Rules {
		seen |= rule
		t.Run("without "+name, func(t *testing.T) {
			t.Parallel()
			const enough = 5
			caught := 0
			for i := 0; i < n && caught < enough; i++ {
				if got := run(t, all[i].plan, all[i].rounds, rule); !reflect.DeepEqual(got, all[i].want) {
					caught++
				}
			}
			if caught < enough {
				t.Errorf("a matcher without the rule %q differs in %d of %d cases only", name, caught, n)
			}
		})
	}
	if want := elicit.LastRule<<1 - 1; seen != want {
		t.Errorf("rules %b, want %b: name each in export_test.go", seen, want)
	}
}

// FuzzMatcher lets the seed be anything.
func FuzzMatcher(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, c := range cases(t, seed, 20) {
			if got := run(t, c.plan, c.rounds, 0); !reflect.DeepEqual(got, c.want) {
				t.Fatalf("the matcher says %+v, the enumeration %+v\n%v", got, c.want, c)
			}
		}
	})
}
