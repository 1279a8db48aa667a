package expect

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// Group runs checks whose expectations are about one thing: what they find is collected, and reported as one numbered failure when
// checks returns. Make the expectations with the T that it is given:
//
//	expect.Group(t, func(g expect.T) {
//		expect.That(g, quote).Text("7.00 EUR")
//		expect.That(g, view).ToolCall("quote", expect.Succeeded())
//	})
//
// [Require] within a group ends the group and then the test. Groups may be nested. Each check is recorded as it would be outside. Group returns
// whether all held.
func Group(t T, checks func(g T)) (held bool) {
	t.Helper()
	if checks == nil {
		t.Errorf("expect: group: wrong use\n    the function is nil")
		return false
	}
	g := &group{T: t}
	defer func() { // also when checks ends the test, or panics
		t.Helper()
		held = g.report()
	}()
	checks(g)
	return true
}

// group is a T that collects.
type group struct {
	T
	mu       sync.Mutex
	checks   int
	failures []string
	stopped  bool
}

// note counts a check that held.
func (g *group) note() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.checks++
}

func (g *group) Errorf(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.checks++
	g.failures = append(g.failures, fmt.Sprintf(format, args...))
}

// FailNow ends the goroutine, as that of a test does; the test itself when the group is reported.
func (g *group) FailNow() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	runtime.Goexit()
}

// report tells the test what was collected.
func (g *group) report() (held bool) {
	g.T.Helper()
	g.mu.Lock()
	failures, checks, stopped := g.failures, g.checks, g.stopped
	g.mu.Unlock()
	if len(failures) == 0 && !stopped {
		if outer, ok := g.T.(*group); ok {
			outer.note()
		}
		return true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "expect: %d of %s did not hold", len(failures), plural(checks, "check"))
	for i, text := range failures {
		number := fmt.Sprintf("%d. ", i+1)
		b.WriteString("\n" + number + strings.ReplaceAll(strings.TrimPrefix(text, "expect: "), "\n", "\n"+strings.Repeat(" ", len(number))))
	}
	g.T.Errorf("%s", b.String())
	if stopped {
		g.T.FailNow()
	}
	return false
}
