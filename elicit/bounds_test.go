package elicit_test

import (
	"fmt"
	"testing"

	"github.com/m3-go/m3/elicit"
)

// TestBoundedWork: what a round costs is a small multiple of the plan's size, whatever the plan is. It is counted, not timed.
func TestBoundedWork(t *testing.T) {
	t.Parallel()
	a := form("a", elicit.Content{"n": 1})
	times := func(n int, one func(i int) *elicit.Plan) []*elicit.Plan {
		all := make([]*elicit.Plan, n)
		for i := range all {
			all[i] = one(i)
		}
		return all
	}
	// Each level doubles the plan, and squares the number of ways through it.
	doubled := a
	for range 13 {
		doubled = elicit.Sequence(elicit.Optional(doubled), elicit.Optional(doubled))
	}
	var keys []string
	for i := range 10_000 {
		keys = append(keys, fmt.Sprint("key-", i))
	}
	for _, tc := range []struct {
		name   string
		plan   *elicit.Plan
		size   int // of the plan: leaves and composites
		round  []elicit.Request
		rounds int
	}{
		{"2,000 equal optionals", elicit.Sequence(times(2_000, func(int) *elicit.Plan { return elicit.Optional(a) })...), 4_001, asks("a"), 20},
		{"2,000 maybe leaves", elicit.Sequence(times(2_000, func(int) *elicit.Plan { return elicit.MaybeForm("a").Accept(elicit.Content{"n": 1}) })...), 2_001, asks("a"), 20},
		{"2^13 optionals in 13 levels", doubled, 1 << 15, asks("a"), 10},
		{"2,000 branches with equal answers", elicit.OneOf(times(2_000, func(i int) *elicit.Plan {
			return elicit.Sequence(a, form(fmt.Sprint(i)))
		})...), 6_001, asks("a"), 1},
		{"10,000 keys", elicit.Round(times(10_000, func(i int) *elicit.Plan { return form(keys[i]) })...), 10_001, asks(keys...), 1},
		{"200 rounds of 200 keys", elicit.Sequence(times(200, func(int) *elicit.Plan {
			return elicit.Optional(elicit.Round(times(200, func(i int) *elicit.Plan { return form(keys[i]) })...))
		})...), 200*202 + 1, asks(keys[:200]...), 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if err := tc.plan.Err(); err != nil {
				t.Fatal(err)
			}
			m := matcher(t, tc.plan)
			for i := range tc.rounds {
				before := m.Visited()
				if answers, err := m.Round(tc.round); err != nil || len(answers) != len(tc.round) {
					t.Fatalf("round %d: %d answers, %v", i, len(answers), err)
				}
				if work := m.Visited() - before; work > 4*tc.size || m.Candidates() > tc.size {
					t.Fatalf("round %d: looked at %d places, has %d candidates, and the plan has %d nodes", i, work, m.Candidates(), tc.size)
				}
			}
		})
	}
}
