package expect_test

import (
	"fmt"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

// BenchmarkToolCall finds one call among many, with and without somebody who records.
func BenchmarkToolCall(b *testing.B) {
	for _, n := range []int{1, 1000} {
		s := newStory().add(trace.KindTransportConnected, `{"phase":"connected","transport":"stdio"}`)
		for i := range n {
			s.call(fmt.Sprint(i), "quote", fmt.Sprintf(`{"weight_kg":%d}`, i), okResult)
		}
		s.event(&trace.Event{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Payload: trace.JSON(`{"outcome":"completed"}`)})
		view, err := trace.New("e1", s.arena).View()
		if err != nil {
			b.Fatal(err)
		}
		for _, recorded := range []bool{false, true} {
			b.Run(fmt.Sprintf("calls=%d/recorded=%v", n, recorded), func(b *testing.B) {
				f := &fakeT{name: b.Name()}
				if recorded {
					stop := expect.Observe(f, &expect.Observer{Redact: func(s string) string { return s }, Checked: func(*expect.Check) {}})
					defer stop()
				}
				for b.Loop() {
					if !expect.That(f, view).ToolCall("quote", expect.Succeeded(), expect.WithArguments(m3.Args{"weight_kg": n - 1})) {
						b.Fatal(f.errors)
					}
				}
			})
		}
	}
}
