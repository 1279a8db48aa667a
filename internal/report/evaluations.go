package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/eval"
)

// maxEvaluators is how many evaluators the terminal lists.
const maxEvaluators = 20

// evaluator is one evaluator with what Aggregate says of it.
type evaluator struct {
	name string
	eval.Values
}

// evaluators lists those of the run, the ones that did not always pass first, then by name: where a list is cut, it is what passed that is left out.
func (f *Feedback) evaluators() []evaluator {
	out := make([]evaluator, 0, len(f.EvaluationStats))
	for name, v := range f.EvaluationStats {
		out = append(out, evaluator{name, v})
	}
	slices.SortFunc(out, func(a, b evaluator) int { return cmp.Or(cmp.Compare(a.good(), b.good()), cmp.Compare(a.name, b.name)) })
	return out
}

// good is 1 when everything that was expected passed.
func (e *evaluator) good() int {
	if e.PassedCount == e.ExpectedCount {
		return 1
	}
	return 0
}

// rate is passed / expected, the one pass rate everywhere. It is rounded down: only what always passed is 100 %.
func (e *evaluator) rate() string {
	if e.PassRate == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f%%", math.Floor(1000*float64(e.PassedCount)/float64(e.ExpectedCount))/10)
}

// numbers are what stands behind the rate, in the order of [evaluatorColumns].
func (e *evaluator) numbers() []string {
	list := []string{fmt.Sprintf("%d / %d", e.PassedCount, e.ExpectedCount), e.rate()}
	for _, s := range []eval.Status{eval.Failed, eval.Inconclusive, eval.Error, eval.NotRun} {
		list = append(list, fmt.Sprint(e.StatusCounts[s]))
	}
	return append(list, fmt.Sprint(e.MissingRequiredCount))
}

var evaluatorColumns = []string{"passed / expected", "rate", "failed", "inconclusive", "error", "not run", "missing"}

// evaluations prints the table of the evaluators.
func (p *printer) evaluations() {
	list := p.f.evaluators()
	if len(list) == 0 {
		return
	}
	shown := list[:min(len(list), maxEvaluators)]
	rows := [][]string{append([]string{"evaluator"}, evaluatorColumns...)}
	for i := range shown {
		rows = append(rows, append([]string{CleanLine(shown[i].name)}, shown[i].numbers()...))
	}
	for i, text := range aligned(rows) {
		if i == 0 {
			text = "\n" + p.cfg.Style.paint(bold, text)
		}
		p.line("%s", text)
	}
	if more := len(list) - len(shown); more > 0 {
		p.line("and %s more: they are in feedback.json", count(more, "evaluator"))
	}
}

// aligned makes lines of rows: the first column to the left, the others to the right.
func aligned(rows [][]string) (lines []string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for c, cell := range row {
			width[c] = max(width[c], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := pad(row[0], width[0])
		for c, cell := range row[1:] {
			line += "  " + pad("", width[c+1]-utf8.RuneCountInString(cell)) + cell
		}
		lines = append(lines, line)
	}
	return lines
}

// evaluations is the table of the evaluators, bounded.
func (g *GitHub) evaluations(b *strings.Builder, f *Feedback) {
	list := f.evaluators()
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "| evaluator | %s |\n| --- |%s\n", strings.Join(evaluatorColumns, " | "), strings.Repeat(" --: |", len(evaluatorColumns)))
	for i := range list {
		if i == maxRows {
			fmt.Fprintf(b, "| and %d more: see feedback.json |%s\n", len(list)-i, strings.Repeat(" |", len(evaluatorColumns)))
			break
		}
		fmt.Fprintf(b, "| %s | %s |\n", cell(bounded(list[i].name, maxWhy)), strings.Join(list[i].numbers(), " | "))
	}
	b.WriteString("\n")
}

// evaluations writes a line for each evaluator.
func (s *Stream) evaluations(f *Feedback) {
	for _, e := range f.evaluators() {
		s.write(struct {
			Type      string `json:"type"`
			Evaluator string `json:"evaluator"`
			eval.Values
		}{"evaluation", e.name, e.Values})
	}
}
