package expect_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
)

func TestGroup(t *testing.T) {
	t.Parallel()
	r := &m3.ToolCallResult{Content: []m3.Content{{Type: "text", Text: "one\ntwo"}}}
	var recorded []*expect.Check
	f := &fakeT{name: t.Name()}
	stop := expect.Observe(f, &expect.Observer{Checked: func(c *expect.Check) { recorded = append(recorded, c) }})
	defer stop()
	held := expect.Group(f, func(g expect.T) {
		expect.That(g, r).Text("one")
		expect.That(g, r).TextContaining("two")
		if len(f.errors) != 0 {
			t.Error("a failure was reported before the end")
		}
		expect.Group(g, func(g expect.T) {
			expect.That(g, r).Text("one\ntwo")
			expect.That(g, r).TextContaining("three")
		})
		expect.Group(g, func(g expect.T) { expect.That(g, r).Not().Error() })
	})
	want := `expect: 2 of 4 checks did not hold
1. text: did not hold
       text (-want +got):
       - "one"
       + "one\ntwo"
2. 1 of 2 checks did not hold
   1. text containing: did not hold
          text (-want +got):
          - containing "three"
          + "one\ntwo"`
	if held || len(f.errors) != 1 || f.errors[0] != want {
		t.Errorf("held = %v, reported\n%s\nwant\n%s", held, strings.Join(f.errors, "\n---\n"), want)
	}
	if len(recorded) != 5 || recorded[0].Status != eval.Failed || recorded[1].Status != eval.Passed {
		t.Errorf("%d checks were recorded, want each of the five", len(recorded))
	}
}

func TestGroupThatHolds(t *testing.T) {
	t.Parallel()
	f := &fakeT{name: t.Name()}
	if !expect.Group(f, func(g expect.T) { expect.That(g, "x").Text("x") }) || len(f.errors) != 0 {
		t.Errorf("errors: %q", f.errors)
	}
	if !expect.Group(f, func(expect.T) {}) || len(f.errors) != 0 {
		t.Errorf("an empty group: %q", f.errors)
	}
}

// endingT ends its goroutine in FailNow, as a test does.
type endingT struct{ fakeT }

func (e *endingT) FailNow() { e.stopped = true; runtime.Goexit() }

// Require ends the group, the group tells what it has, and the test ends.
func TestGroupRequire(t *testing.T) {
	t.Parallel()
	f := &endingT{fakeT{name: t.Name()}}
	after := false
	var wg sync.WaitGroup
	wg.Go(func() {
		expect.Group(f, func(g expect.T) {
			expect.That(g, "x").Text("y")
			expect.Require(g, "x").Text("z")
			after = true
		})
		after = true
	})
	wg.Wait()
	if after || !f.stopped || len(f.errors) != 1 || !strings.Contains(f.errors[0], "2 of 2 checks did not hold") {
		t.Errorf("went on = %v, stopped = %v, errors %q", after, f.stopped, f.errors)
	}
}

func TestGroupFromGoroutines(t *testing.T) {
	t.Parallel()
	f := &fakeT{name: t.Name()}
	expect.Group(f, func(g expect.T) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() { expect.That(g, "x").Text(fmt.Sprint(i)) })
		}
		wg.Wait()
	})
	if len(f.errors) != 1 || !strings.Contains(f.errors[0], "8 of 8 checks") {
		t.Errorf("errors: %q", f.errors)
	}
}

// What a predicate checks is not a check of the test: it is reported, and not recorded, wherever else checks are made meanwhile.
func TestChecksInPredicatesAreNotRecorded(t *testing.T) {
	t.Parallel()
	f := &fakeT{name: t.Name()}
	var mu sync.Mutex
	var recorded []string
	stop := expect.Observe(f, &expect.Observer{Checked: func(c *expect.Check) { mu.Lock(); recorded = append(recorded, c.Matcher); mu.Unlock() }})
	defer stop()
	expect.That(f, m3.Args{"a": 1}).StructuredContent(expect.Satisfying(func(m map[string]any) bool {
		var wg sync.WaitGroup
		wg.Go(func() { expect.That(f, "x").TextContaining("x") }) // another goroutine's own
		wg.Wait()
		return expect.That(f, "y").Text("y")
	}))
	if got := strings.Join(recorded, " "); got != "text_containing structured_content" {
		t.Errorf("recorded: %s", got)
	}
}
