package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// PrintConfig says how the summary of a run is printed. The zero value is plain.
type PrintConfig struct {
	Style Style
	// Show is the command that opens a trace, without the execution's id. Empty is "m3 show".
	Show string
	// FeedbackPath is where feedback.json is; empty when it was not written.
	FeedbackPath string
	// Suite is the --suite that was asked for: when no test of it ran, that is said.
	Suite string
	// Stopped names the signal that ended the run: "interrupt". Empty when none did.
	Stopped string
}

// What the summary shows of one failure, and of blocked evaluations.
const (
	maxOutputLines = 40
	maxTraces      = 3
	maxBlocked     = 20
)

// Print writes the summary of a finished run: what failed, each with its reason and the command that opens its trace, one
// table, the findings, the verdict, and where feedback.json is.
func Print(w io.Writer, f *Feedback, cfg *PrintConfig) error {
	p := &printer{w: bufio.NewWriter(w), f: f}
	if cfg != nil {
		p.cfg = *cfg
	}
	if p.cfg.Show == "" {
		p.cfg.Show = "m3 show"
	}
	p.failures()
	p.blocked()
	p.table()
	p.evaluations()
	p.comparison()
	p.findings()
	p.remarks()
	p.verdict()
	return p.w.Flush()
}

type printer struct {
	w   *bufio.Writer
	f   *Feedback
	cfg PrintConfig
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p *printer) failures() {
	if len(p.f.Failures) == 0 {
		return
	}
	p.line("\n%s", p.cfg.Style.paint(bold, "Failed:"))
	for i := range p.f.Failures {
		p.failure(&p.f.Failures[i])
	}
}

// blocked tells what of the required evaluations makes the run fail.
func (p *printer) blocked() {
	list := p.f.RequiredBlocked
	if len(list) == 0 {
		return
	}
	p.line("\n%s", p.cfg.Style.paint(bold, "Required evaluations blocked the run:"))
	for i := range list {
		if i == maxBlocked {
			p.line("  and %d more: they are in feedback.json", len(list)-i)
			break
		}
		p.line("\n%s %s", p.cfg.Style.paint(red, "GATE"), CleanLine(list[i].String()))
		if id := list[i].Execution; id != "" {
			p.line("  trace: %s %s", p.cfg.Show, CleanLine(string(id)))
		}
	}
}

func (p *printer) failure(f *Failure) {
	st := p.cfg.Style
	name := st.short(f.Package)
	if f.Kind == "test" {
		name = st.name(f.Package, f.Test, f.Iteration)
	}
	p.line("\n%s %s %s", st.paint(red, "FAIL"), name, st.paint(dim, "("+elapsed(duration(f.Seconds))+")"))
	why := f.why()
	p.line("  %s", st.paint(bold, CleanLine(why)))
	said := why + " " + p.output(f, why)
	for _, m := range f.Messages {
		if !strings.Contains(words(said), words(m)) {
			p.block(m)
		}
	}
	for i, id := range f.Executions {
		if i == maxTraces {
			p.line("  trace: and %s more", count(len(f.Executions)-i, "execution"))
			break
		}
		p.line("  trace: %s %s", p.cfg.Show, CleanLine(string(id)))
	}
}

// why is the reason on one line; m3's own message goes before what go test printed, except where the process died.
func (f *Failure) why() string {
	if len(f.Messages) > 0 && f.Reason == "" {
		return firstLine(f.Messages[0])
	}
	if f.Reason == "" {
		return "failed without a word"
	}
	return f.Reason
}

// output prints what a failed test printed, without the line that is the reason: what belongs to that comes first. It returns what it
// printed.
func (p *printer) output(f *Failure, why string) string {
	lines := strings.Split(strings.TrimLeft(f.Output, "\n"), "\n")
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == why }); i >= 0 {
		end := i + 1
		for end < len(lines) && indentation(lines[end]) > indentation(lines[i]) {
			end++
		}
		lines = slices.Concat(lines[i+1:end], lines[:i], lines[end:])
	}
	out := strings.Join(lines, "\n")
	p.block(out)
	return out
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// words is a text whose lines were indented or not.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

func (p *printer) block(text string) {
	text = strings.TrimRight(text, "\n ")
	if text == "" {
		return
	}
	lines := strings.Split(Clean(text), "\n")
	if over := len(lines) - maxOutputLines; over > 1 {
		cut := fmt.Sprintf("    [%d lines left out: they are in feedback.json]", over)
		lines = slices.Concat(lines[:maxOutputLines/2], []string{cut}, lines[len(lines)-maxOutputLines/2:])
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "    ") {
			l = "    " + l
		}
		p.line("%s", strings.TrimRight(l, " "))
	}
}

// row is one package of the table.
type row struct {
	name                                             string
	passed, failed, skipped, interrupted, executions int
	seconds                                          float64
	note                                             string
}

func (p *printer) table() {
	rows := p.rows()
	if len(rows) == 0 {
		return
	}
	total := row{name: "total"}
	for _, r := range rows {
		total.passed += r.passed
		total.failed += r.failed
		total.skipped += r.skipped
		total.interrupted += r.interrupted
		total.executions += r.executions
	}
	if f := p.f; f.FinishedAt != nil {
		total.seconds = f.FinishedAt.Sub(f.StartedAt).Seconds()
	}
	width := len("package")
	for _, r := range rows {
		width = max(width, utf8.RuneCountInString(r.name))
	}
	stopped := ""
	if total.interrupted > 0 {
		stopped = "  interrupted"
	}
	p.line("\n%s", p.cfg.Style.paint(bold, pad("package", width)+"  passed  failed  skipped"+stopped+"  executions       time"))
	if len(rows) > 1 {
		rows = append(rows, total)
	}
	for _, r := range rows {
		p.row(r, width, stopped != "")
	}
}

func (p *printer) row(r row, width int, stopped bool) {
	failed := fmt.Sprintf("%6d", r.failed)
	if r.failed > 0 || r.note != "" {
		failed = p.cfg.Style.paint(red, failed)
	}
	mid := ""
	if stopped {
		mid = fmt.Sprintf("  %11d", r.interrupted)
	}
	if r.note != "" {
		r.note = "  " + r.note
	}
	p.line("%s  %6d  %s  %7d%s  %10d  %8.2fs%s", pad(r.name, width), r.passed, failed, r.skipped, mid, r.executions, r.seconds, r.note)
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func (p *printer) rows() []row {
	var rows []row
	at := map[string]int{}
	of := func(pkg string) *row {
		i, ok := at[pkg]
		if !ok {
			i = len(rows)
			at[pkg] = i
			rows = append(rows, row{name: p.cfg.Style.short(pkg)})
		}
		return &rows[i]
	}
	for i := range p.f.Tests {
		t := &p.f.Tests[i]
		of(t.Package).count(t)
	}
	for i := range p.f.Packages {
		k := &p.f.Packages[i]
		if k.Outcome == "no_tests" {
			continue
		}
		r := of(k.Package)
		r.seconds = k.ElapsedSeconds
		switch {
		case k.Outcome == "build_failed":
			r.note = "does not build"
		case k.Outcome == "failed" && r.failed == 0:
			r.note = "failed"
		case k.Cached:
			r.note = "cached: of an earlier run"
		}
	}
	return rows
}

func (r *row) count(t *TestRecord) {
	switch t.Outcome {
	case store.TestPassed:
		r.passed++
	case store.TestSkipped:
		r.skipped++
	case store.TestInterrupted:
		r.interrupted++
	default:
		r.failed++
	}
	r.executions += len(t.Executions)
}

func (p *printer) findings() {
	if len(p.f.Findings) == 0 {
		return
	}
	counts := p.f.Summary.FindingCounts
	var parts []string
	for _, s := range []trace.Severity{trace.SeverityError, trace.SeverityWarning, trace.SeverityNote} {
		if n := counts[s]; n > 0 {
			parts = append(parts, count(n, string(s)))
		}
	}
	p.line("\n%s", p.cfg.Style.paint(bold, "Findings on the wire: "+strings.Join(parts, ", ")))
	for i, c := range p.f.Findings {
		if i == 10 {
			p.line("  and %s more", count(len(p.f.Findings)-i, "kind"))
			break
		}
		p.line("  %s %s ×%d: %s  (%s %s)", p.severity(c.Severity), CleanLine(c.Code), c.Count, CleanLine(c.Message), p.cfg.Show,
			CleanLine(string(c.Execution)))
	}
}

func (p *printer) severity(s trace.Severity) string {
	color := map[trace.Severity]string{trace.SeverityError: red, trace.SeverityWarning: yellow}[s]
	if color == "" {
		color = dim
	}
	return p.cfg.Style.paint(color, CleanLine(string(s)))
}

// remarks are the lines without which a result could be misread.
func (p *printer) remarks() {
	f := p.f
	var lines []string
	if p.cfg.Stopped != "" {
		lines = append(lines, "stopped by "+p.cfg.Stopped+": what was there until then is stored")
	}
	if f.Summary.SkippedOnly {
		lines = append(lines, "nothing was tested: "+count(f.Summary.SkippedTests, "test")+" skipped, none ran (the exit code is go test's)")
	}
	if f.Summary.Tests == 0 && len(f.Failures) == 0 && p.cfg.Stopped == "" {
		lines = append(lines, "nothing was tested: go test ran no test")
	}
	if p.cfg.Suite != "" && !slices.ContainsFunc(f.Suites, func(s Suite) bool { return s.Name == p.cfg.Suite }) {
		lines = append(lines, fmt.Sprintf("no test of suite %q ran", CleanLine(p.cfg.Suite)))
	}
	for _, l := range f.Limitations {
		if strings.HasPrefix(l, noComparison) {
			lines = append(lines, CleanLine(l))
		}
	}
	for i, e := range f.Executions {
		if e.Unavailable != "" {
			lines = append(lines, fmt.Sprintf("the trace of %s cannot be read: %s", e.ExecutionID, CleanLine(f.Executions[i].Unavailable)))
		}
	}
	if len(lines) > 0 {
		p.line("")
	}
	for _, l := range lines {
		p.line("%s %s", p.cfg.Style.paint(yellow, "note:"), l)
	}
}

func (p *printer) verdict() {
	s := p.f.Summary
	st := p.cfg.Style
	word := st.paint(green, "PASS")
	if s.SkippedOnly || s.Tests == 0 {
		word = st.paint(yellow, "NONE")
	}
	if s.Failures > 0 || s.RequiredBlocked > 0 || p.f.ExitCode != nil && *p.f.ExitCode != 0 {
		word = st.paint(red, "FAIL")
	}
	passed, failed := s.TestOutcomeCounts[store.TestPassed], s.TestOutcomeCounts[store.TestFailed]
	line := fmt.Sprintf("%s  %d of %s passed", word, passed, count(s.Tests, "test"))
	if failed > 0 {
		line += fmt.Sprintf(", %d failed", failed)
	}
	if n := s.TestOutcomeCounts[store.TestInterrupted]; n > 0 {
		line += fmt.Sprintf(", %d interrupted", n)
	}
	for _, k := range []struct{ kind, noun, what string }{{"build", "package", "not built"}, {"package", "package", "failed apart from its tests"}} {
		if n := p.kinds(k.kind); n > 0 {
			line += fmt.Sprintf(", %s %s", count(n, k.noun), k.what)
		}
	}
	if s.RequiredBlocked > 0 {
		line += fmt.Sprintf(", %s blocked the run", count(s.RequiredBlocked, "required evaluation"))
	}
	if s.SkippedTests > 0 {
		line += fmt.Sprintf(", %d skipped", s.SkippedTests)
	}
	p.line("\n%s; %s", line, count(s.Executions, "execution"))
	if p.cfg.FeedbackPath != "" {
		p.line("feedback: %s", p.cfg.FeedbackPath)
	}
}

func (p *printer) kinds(kind string) int {
	n := 0
	for i := range p.f.Failures {
		if p.f.Failures[i].Kind == kind {
			n++
		}
	}
	return n
}

func duration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
