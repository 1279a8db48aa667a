// Package aggregation shows how to measure many evaluations: by configuration, by suite, and by day.
package aggregation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// evaluator is the name under which the verdicts are kept. What is counted is always counted by evaluator.
const evaluator = "shop.cheap.v1"

// cheap passes when the quoted price is at most 10 EUR.
func cheap(_ context.Context, e eval.Context) (eval.Decision, error) {
	var s struct{ Price float64 }
	if err := e.Subject.Decode(&s); err != nil {
		return eval.Decision{}, err
	}
	d := eval.PassIf(s.Price <= 10, fmt.Sprintf("%.2f EUR", s.Price))
	d.Score = eval.Score(s.Price)
	return d, nil
}

// The cases of two suites; each is asked under two configurations, three times.
var (
	suites         = map[string][]float64{"letters": {0.5, 1}, "parcels": {2, 20}}
	configurations = map[string]string{"home": "IN", "abroad": "PL"}
)

const trials = 3

// run makes all executions of one run, and evaluates each.
func run(t *testing.T, history store.Store, id string) {
	t.Helper()
	for suite, weights := range suites {
		kit, err := m3.New(m3.Config{Store: history, RunID: id, Suite: suite})
		if err != nil {
			t.Fatal(err)
		}
		if err := kit.RegisterEvaluator(evaluator, cheap); err != nil {
			t.Fatal(err)
		}
		for _, weight := range weights {
			for name, country := range configurations {
				for range trials {
					trial(t, kit, weight, name, country)
				}
			}
		}
		if err := kit.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// trial is one execution. Its case is what stays the same when the suite does not; its metadata says what it is a trial of.
func trial(t *testing.T, kit *m3.Kit, weight float64, name, country string) {
	t.Helper()
	client, err := kit.Direct(t.Context(), shop, &m3.DirectOptions{Case: fmt.Sprintf("%g kg", weight), Metadata: map[string]any{"harness_config": name}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": weight, "country": country}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := kit.Evaluate(t.Context(), r.StructuredContent, evaluator, &m3.EvaluateOptions{Execution: client.ExecutionID()}); err != nil {
		t.Fatal(err)
	}
}

func TestByConfigurationSuiteAndDay(t *testing.T) {
	t.Parallel()
	history := memory.New(nil) // or sqlite.Open(path): it answers the same
	defer history.Close()
	run(t, history, "monday's run")
	run(t, history, "today's run")
	ask := func(filters eval.Labels, groupBy ...string) eval.Report {
		t.Helper()
		filters["evaluator"] = []string{evaluator}
		report, err := history.Aggregate(t.Context(), eval.Query{Filters: filters, GroupBy: groupBy, PassK: []int{3, 4}})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}

	// By configuration. The run is filtered, so that older rows do not enter the result.
	today := eval.Labels{"run_id": {"today's run"}}
	got := rates(ask(today, "metadata.harness_config"))
	if want := "abroad 3/12, home 9/12"; got != want {
		t.Errorf("by configuration: %s, want %s", got, want)
	}
	// By suite.
	if got, want := rates(ask(today, "suite_name")), "letters 9/12, parcels 3/12"; got != want {
		t.Errorf("by suite: %s, want %s", got, want)
	}
	// By day, over both runs: one group a day, and the days together are everything there is.
	report := ask(eval.Labels{}, eval.LabelDay)
	passed := 0
	for _, g := range report.Groups {
		passed += g.Values.PassedCount
	}
	if v := report.Totals; passed != 24 || v.PassedCount != 24 || v.ExpectedCount != 48 || v.TrialCount != 48 || v.CaseCount != 4 {
		t.Errorf("by day: %d of %+v", passed, v)
	}
}

// What stands beside a rate: how sure it is, what trials say, and what the executions went through.
func TestWhatStandsBesideARate(t *testing.T) {
	t.Parallel()
	history := memory.New(nil)
	defer history.Close()
	run(t, history, "today's run")
	report, err := history.Aggregate(t.Context(), eval.Query{Filters: eval.Labels{"evaluator": {evaluator}}, GroupBy: []string{"metadata.harness_config"}, PassK: []int{3, 4}})
	if err != nil {
		t.Fatal(err)
	}
	home := report.Groups[1].Values
	// 9 of 12, but of four cases: the trials of a case repeat each other, and the interval knows.
	if i := home.PassInterval; i.Low > 0.25 || i.High < 0.97 {
		t.Errorf("from %.2f to %.2f is too sure for four cases", i.Low, i.High)
	}
	if f := home.Flakiness; f.Flips != 0 || f.Pairs != 8 {
		t.Errorf("%d of %d pairs of trials differ", f.Flips, f.Pairs)
	}
	three, four := home.PassK[0], home.PassK[1]
	if *three.Any != 0.75 || *three.All != 0.75 || three.SeriesCount != 4 {
		t.Errorf("pass@3: %+v", three)
	}
	if four.Any != nil || four.SeriesCount != 0 {
		t.Errorf("pass@4 of three trials is undefined, and shown as –: %+v", four)
	}
	if h := home.Health; h.ToolCalls.Successful != 12 || h.ServerLatency.Count != 12 || h.OutcomeCounts["completed"] != 12 || *home.AverageScore != (4.75+5.5+7+34)/4 {
		t.Errorf("%+v", h)
	}
}

// A rate over different evaluators means nothing: it is refused.
func TestOneEvaluatorOrGrouped(t *testing.T) {
	t.Parallel()
	history := memory.New(nil)
	defer history.Close()
	if _, err := history.Aggregate(t.Context(), eval.Query{GroupBy: []string{"suite_name"}}); !errors.Is(err, eval.ErrQuery) {
		t.Errorf("%v", err)
	}
	if _, err := history.Aggregate(t.Context(), eval.Query{GroupBy: []string{"evaluator", "suite_name"}}); err != nil {
		t.Error(err)
	}
}

// rates writes the groups as "key passed/expected": the numerator and the denominator always stand together.
func rates(r eval.Report) string {
	var out []string
	for _, g := range r.Groups {
		out = append(out, fmt.Sprintf("%s %d/%d", strings.Join(g.Key, " "), g.Values.PassedCount, g.Values.ExpectedCount))
	}
	return strings.Join(out, ", ")
}
