package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/m3-go/m3/internal/stats"
	"github.com/m3-go/m3/store"
)

// maxCompared bounds each list of the comparison on the terminal.
const maxCompared = 10

// comparison tells how the run differs from its baseline.
func (p *printer) comparison() {
	c := p.f.Comparison
	if c == nil {
		return
	}
	p.line("\n%s", p.cfg.Style.paint(bold, "Compared with run "+CleanLine(c.BaselineRunID)+":"))
	n := 0
	for _, list := range [][]string{c.verdictLines(), c.toolLines(), c.testLines(), c.incomparableLines()} {
		for i, line := range list {
			if n++; i == maxCompared {
				p.line("  and %d more: they are in feedback.json", len(list)-i)
				break
			}
			p.line("  %s", CleanLine(line))
		}
	}
	if n == 0 {
		p.line("  no difference")
	} else {
		p.line("  each change, with the cases: .comparison of feedback.json; an execution: %s ID", p.cfg.Show)
	}
	for _, l := range c.Limitations {
		p.line("  note: %s", CleanLine(l))
	}
}

// verdictLines are the rates, what got worse first.
func (c *Comparison) verdictLines() []string {
	order := []stats.Verdict{stats.Worse, stats.Better, stats.CannotTell, stats.Same}
	list := slices.Clone(c.Evaluators)
	slices.SortStableFunc(list, func(a, b EvaluatorComparison) int {
		return slices.Index(order, a.Verdict) - slices.Index(order, b.Verdict)
	})
	suites, configs := map[string]bool{}, map[string]bool{}
	for i := range list {
		suites[list[i].Suite], configs[list[i].Config] = true, true
	}
	var out []string
	for i := range list {
		e := &list[i]
		name := e.Evaluator
		if len(suites) > 1 {
			name += " in " + e.Suite
		}
		if len(configs) > 1 {
			name += " [" + e.Config + "]"
		}
		out = append(out, fmt.Sprintf("%-11s  %s: %d / %d → %d / %d (%s, %s)", strings.ReplaceAll(string(e.Verdict), "_", " "), name,
			e.PassedCount.Baseline, e.ExpectedCount.Baseline, e.PassedCount.Current, e.ExpectedCount.Current, points(e.Delta), e.why()))
	}
	return out
}

// why is the method with its figures: an interval of the difference, and for pairs the p-value.
func (e *EvaluatorComparison) why() string {
	text := fmt.Sprintf("%s to %s by %s", points(e.Interval.Low), points(e.Interval.High), e.Method)
	if e.P != nil {
		text += fmt.Sprintf(", p = %.3f", *e.P)
	}
	return text
}

// points is a difference of rates.
func points(d float64) string {
	return fmt.Sprintf("%+.1f points", math.Round(1000*d)/10+0) // no negative zero
}

func (c *Comparison) toolLines() []string {
	var out []string
	for i := range c.InterfaceChanges {
		ch := &c.InterfaceChanges[i]
		if !ch.Comparable {
			out = append(out, fmt.Sprintf("tools of %s: cannot be compared in %s: %s", ch.Server, count(len(ch.Where), "place"), ch.Reason))
			continue
		}
		for _, change := range ch.Changes {
			out = append(out, fmt.Sprintf("tools of %s: %s", ch.Server, change.String()))
		}
	}
	return out
}

func (c *Comparison) testLines() []string {
	var out []string
	for i := range c.TestChanges {
		t := &c.TestChanges[i]
		out = append(out, fmt.Sprintf("test %s: %s → %s", t.Test, outcomes(t.Outcomes.Baseline), outcomes(t.Outcomes.Current)))
	}
	return out
}

// outcomes counts the attempts by outcome.
func outcomes(list []store.TestStatus) string {
	if len(list) == 0 {
		return "not there"
	}
	var parts []string
	for _, status := range slices.Compact(slices.Clone(list)) { // they are sorted
		n := 0
		for _, s := range list {
			if s == status {
				n++
			}
		}
		if n > 1 {
			parts = append(parts, fmt.Sprintf("%d × %s", n, status))
		} else {
			parts = append(parts, string(status))
		}
	}
	return strings.Join(parts, ", ")
}

// incomparableLines tell which evaluations are in both runs and were not asked the same, by what differs.
func (c *Comparison) incomparableLines() []string {
	n, order := map[string]int{}, []string{}
	for i := range c.EvaluationChanges {
		if e := &c.EvaluationChanges[i]; e.In == "both" && !e.Comparable {
			key := strings.Join(e.ChangedFields, ", ")
			if n[key]++; n[key] == 1 {
				order = append(order, key)
			}
		}
	}
	slices.Sort(order)
	var out []string
	for _, key := range order {
		out = append(out, fmt.Sprintf("not comparable: %s, because of %s", count(n[key], "evaluation"), key))
	}
	return out
}
