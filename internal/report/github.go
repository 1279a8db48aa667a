package report

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// GitHub writes what GitHub Actions shows of a run. What tests and servers print stands on the same output as the runner's own commands, so
// everything between [GitHub.Begin] and [GitHub.End] is kept from being read as commands.
type GitHub struct {
	// Token ends the part without commands: a random word that nothing else can print.
	Token string
	// Module is the module's path and Dir its folder, relative to the repository's: they make packages files.
	Module, Dir string
	// Show is the command that opens a trace, without the execution's id.
	Show string
}

// What GitHub shows at most of one step.
const (
	maxAnnotations = 10
	maxSummary     = 900 << 10
	maxRows        = 50  // of what blocks the run, and of evaluators
	maxWhy         = 500 // bytes of a reason in a table
)

// Begin makes the runner read no commands from here on.
func (g *GitHub) Begin(w io.Writer) { fmt.Fprintf(w, "::stop-commands::%s\n", g.Token) }

// End makes the runner read commands again.
func (g *GitHub) End(w io.Writer) { fmt.Fprintf(w, "::%s::\n", g.Token) }

// Annotate writes an error for each failure and each required evaluation that blocks the run, and a warning for each kind of finding that is no note, at most ten
// of either: GitHub shows no more. Where there are more, failures leave half of the room to what blocks.
func (g *GitHub) Annotate(w io.Writer, f *Feedback) {
	blocked := min(len(f.RequiredBlocked), max(maxAnnotations/2, maxAnnotations-len(f.Failures)))
	for i := range min(len(f.Failures), maxAnnotations-blocked) {
		g.failure(w, &f.Failures[i])
	}
	for i := range blocked {
		g.blocked(w, &f.RequiredBlocked[i])
	}
	n := 0
	for _, c := range f.Findings {
		if c.Severity == trace.SeverityNote || n == maxAnnotations {
			continue
		}
		n++
		fmt.Fprintf(w, "::warning title=%s::%s\n", property("finding "+c.Code), message(fmt.Sprintf("%s (%d times; %s %s)", c.Message, c.Count, g.Show, c.Execution)))
	}
}

func (g *GitHub) failure(w io.Writer, fail *Failure) {
	why := fail.why()
	place := ""
	if file, line := g.place(fail.Package, why); file != "" {
		place = "file=" + property(file) + ",line=" + strconv.Itoa(line) + ","
	}
	title := Style{Module: g.Module}.short(fail.Package)
	if fail.Test != "" {
		title = Style{Module: g.Module}.name(fail.Package, fail.Test, fail.Iteration)
	}
	text := why
	for i, id := range fail.Executions {
		if i == maxTraces {
			break
		}
		text += "\ntrace: " + g.Show + " " + string(id)
	}
	fmt.Fprintf(w, "::error %stitle=%s::%s\n", place, property(title), message(text))
}

// blocked annotates without a place: an evaluation has none, and the line of a test that passed would mislead.
func (g *GitHub) blocked(w io.Writer, b *eval.Blocked) {
	text := b.String()
	if b.Execution != "" {
		text += "\ntrace: " + g.Show + " " + string(b.Execution)
	}
	fmt.Fprintf(w, "::error title=%s::%s\n", property("required evaluation "+b.Evaluator), message(text))
}

// position is how go test and the compiler begin a line about a place.
var position = regexp.MustCompile(`(?:^|[ \t])((?:\./)?[^\s:]+\.go):([0-9]+)(?::[0-9]+)?: `)

// place is the file that a failure names, relative to the repository, and the line. Tests name files of their own folder, the compiler those of
// the module.
func (g *GitHub) place(pkg, text string) (string, int) {
	m := position.FindStringSubmatch(text)
	if m == nil || filepath.IsAbs(m[1]) {
		return "", 0
	}
	line, err := strconv.Atoi(m[2])
	if err != nil {
		return "", 0
	}
	file := path.Clean(filepath.ToSlash(m[1]))
	sub, inModule := strings.CutPrefix(pkg+"/", g.Module+"/")
	if !inModule || strings.HasPrefix(file, "../") {
		return "", 0
	}
	if !strings.Contains(file, "/") && !strings.HasPrefix(m[1], "./") {
		file = path.Join(sub, file)
	}
	return path.Join(g.Dir, file), line
}

// message escapes the text of a workflow command.
func message(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(Clean(s))
}

// property escapes a property of one.
func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(message(CleanLine(s)))
}

// Summary is the step summary, in Markdown. Nothing of what tests and servers say is read as Markdown or HTML.
func (g *GitHub) Summary(f *Feedback) string {
	var b strings.Builder
	word := "passed"
	if f.Summary.Failures > 0 || len(f.RequiredBlocked) > 0 || f.ExitCode != nil && *f.ExitCode != 0 {
		word = "failed"
	}
	fmt.Fprintf(&b, "### m3 test %s\n\n%d of %s passed, %s", word, f.Summary.TestOutcomeCounts[store.TestPassed], count(f.Summary.Tests, "test"),
		count(f.Summary.Executions, "execution"))
	if n := len(f.RequiredBlocked); n > 0 {
		fmt.Fprintf(&b, "; %s blocked the run", count(n, "required evaluation"))
	}
	b.WriteString(".\n\n")
	g.packages(&b, f)
	g.required(&b, f)
	g.evaluations(&b, f)
	g.failures(&b, f)
	g.findings(&b, f)
	return b.String()
}

func (g *GitHub) packages(b *strings.Builder, f *Feedback) {
	type counts struct{ passed, failed, skipped int }
	n := map[string]*counts{}
	for i := range f.Tests {
		c := n[f.Tests[i].Package]
		if c == nil {
			c = &counts{}
			n[f.Tests[i].Package] = c
		}
		switch f.Tests[i].Outcome {
		case store.TestPassed:
			c.passed++
		case store.TestSkipped:
			c.skipped++
		default:
			c.failed++
		}
	}
	if len(f.Packages) == 0 {
		return
	}
	b.WriteString("| package | outcome | passed | failed | skipped | seconds |\n| --- | --- | --: | --: | --: | --: |\n")
	for i := range f.Packages {
		p := &f.Packages[i]
		c := n[p.Package]
		if c == nil {
			c = &counts{}
		}
		fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %.2f |\n", cell(Style{Module: g.Module}.short(p.Package)), cell(p.Outcome), c.passed, c.failed, c.skipped, p.ElapsedSeconds)
	}
	b.WriteString("\n")
}

// required is the table of what blocks the run, bounded.
func (g *GitHub) required(b *strings.Builder, f *Feedback) {
	if len(f.RequiredBlocked) == 0 {
		return
	}
	b.WriteString("| required evaluation | stands | case | why | trace |\n| --- | --- | --- | --- | --- |\n")
	for i := range f.RequiredBlocked {
		x := &f.RequiredBlocked[i]
		if i == maxRows {
			fmt.Fprintf(b, "| and %d more: see feedback.json | | | | |\n", len(f.RequiredBlocked)-i)
			break
		}
		trace := ""
		if x.Execution != "" {
			trace = cell(g.Show + " " + string(x.Execution))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", cell(x.Evaluator), cell(string(x.Status)), cell(x.Case), cell(bounded(x.Message, maxWhy)), trace)
	}
	b.WriteString("\n")
}

// bounded is the beginning of a text, cut at a whole character.
func bounded(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + " …"
}

func (g *GitHub) failures(b *strings.Builder, f *Feedback) {
	for i := range f.Failures {
		fail := &f.Failures[i]
		if b.Len() > maxSummary {
			fmt.Fprintf(b, "and %s more: see feedback.json\n\n", count(len(f.Failures)-i, "failure"))
			return
		}
		name := Style{Module: g.Module}.short(fail.Package)
		if fail.Kind == "test" {
			name = Style{Module: g.Module}.name(fail.Package, fail.Test, fail.Iteration)
		}
		fmt.Fprintf(b, "<details><summary>%s: %s</summary>\n\n<pre>%s</pre>\n\n", escaped(name), escaped(CleanLine(fail.why())), g.block(fail))
		b.WriteString("</details>\n\n")
	}
}

// block is what is known of a failure, bounded.
func (g *GitHub) block(fail *Failure) string {
	text := strings.Join(append(append([]string{}, fail.Messages...), fail.Output), "\n")
	if len(text) > 20_000 {
		text = text[:20_000] + "\n… " + strconv.Itoa(len(text)-20_000) + " bytes more"
	}
	for _, id := range fail.Executions {
		text += "\ntrace: " + g.Show + " " + string(id)
	}
	// An empty line would end the HTML block in Markdown.
	return strings.ReplaceAll(escaped(strings.TrimSpace(Clean(text))), "\n", "&#10;")
}

func (g *GitHub) findings(b *strings.Builder, f *Feedback) {
	if len(f.Findings) == 0 {
		return
	}
	b.WriteString("| finding | severity | times | first |\n| --- | --- | --: | --- |\n")
	for _, c := range f.Findings {
		fmt.Fprintf(b, "| %s | %s | %d | %s |\n", cell(c.Code), cell(string(c.Severity)), c.Count, cell(c.Message))
	}
	b.WriteString("\n")
}

// special are the characters that Markdown or HTML reads something into; @ is a mention.
const special = "&<>\"'|`*_[]\\!#~@:()"

// escaped is text that neither Markdown nor HTML reads anything into: what is special in either becomes an entity.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(special, r) {
			fmt.Fprintf(&b, "&#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// cell is text in a table.
func cell(s string) string { return escaped(CleanLine(s)) }
