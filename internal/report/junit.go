package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// JUnit is the run as the JUnit XML that CI systems read: a testsuite a package, a testcase an attempt, or a required evaluation that blocks the run. Text that
// XML cannot hold is shown as escapes.
func (f *Feedback) JUnit() ([]byte, error) {
	doc := junitSuites{Name: Clean(f.ProjectName)}
	byPackage := map[string]*junitSuite{}
	for i := range f.Packages {
		s := newJUnitSuite(f, f.Packages[i].Package)
		s.Time = secondsText(f.Packages[i].ElapsedSeconds)
		s.packageFailure(f, &f.Packages[i])
		byPackage[s.Name] = s
		doc.Suites = append(doc.Suites, s)
	}
	for i := range f.Tests {
		t := &f.Tests[i]
		s := byPackage[Clean(t.Package)]
		if s == nil { // a package that go test told nothing of
			s = newJUnitSuite(f, t.Package)
			byPackage[s.Name] = s
			doc.Suites = append(doc.Suites, s)
		}
		s.add(f, t)
	}
	doc.required(f, byPackage)
	for _, s := range doc.Suites {
		doc.Tests, doc.Failures, doc.Errors, doc.Skipped = doc.Tests+s.Tests, doc.Failures+s.Failures, doc.Errors+s.Errors, doc.Skipped+s.Skipped
	}
	if f.FinishedAt != nil {
		doc.Time = secondsText(f.FinishedAt.Sub(f.StartedAt).Seconds())
	}
	b, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode JUnit: %w", err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Skipped  int           `xml:"skipped,attr"`
	Time     string        `xml:"time,attr,omitempty"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr,omitempty"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class      string           `xml:"classname,attr"`
	Name       string           `xml:"name,attr"`
	Time       string           `xml:"time,attr"`
	Properties *junitProperties `xml:"properties,omitempty"`
	Failure    *junitProblem    `xml:"failure,omitempty"`
	Error      *junitProblem    `xml:"error,omitempty"`
	Skipped    *junitSkipped    `xml:"skipped,omitempty"`
}

type junitProperties struct {
	Properties []junitProperty `xml:"property"`
}

type junitProblem struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr,omitempty"`
}

func secondsText(s float64) string { return fmt.Sprintf("%.3f", s) }

func newJUnitSuite(f *Feedback, pkg string) *junitSuite {
	return &junitSuite{Name: Clean(pkg), Timestamp: f.StartedAt.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{{"m3.run_id", Clean(f.RunID)}, {"m3.version", Clean(f.M3Version)}}}
}

// add adds one attempt.
func (s *junitSuite) add(f *Feedback, t *TestRecord) {
	c := junitCase{Class: s.Name, Name: Clean(t.Name), Time: secondsText(t.ElapsedSeconds)}
	if t.Iteration > 1 {
		c.Name += fmt.Sprintf(" (attempt %d)", t.Iteration)
	}
	c.properties(t)
	s.Tests++
	switch t.Outcome {
	case store.TestFailed:
		s.Failures++
		c.Failure = &junitProblem{Type: "failure", Message: CleanLine(t.whyText()), Text: t.text()}
	case store.TestInterrupted, store.TestRunning:
		s.Errors++
		c.Error = &junitProblem{Type: "interrupted", Message: CleanLine(t.whyText()), Text: t.text()}
	case store.TestSkipped:
		s.Skipped++
		c.Skipped = &junitSkipped{CleanLine(t.Reason)}
	}
	s.Cases = append(s.Cases, c)
}

func (c *junitCase) properties(t *TestRecord) {
	var list []junitProperty
	if t.Suite != "" {
		list = append(list, junitProperty{"m3.suite", Clean(t.Suite)})
	}
	for _, id := range t.Executions {
		list = append(list, junitProperty{"m3.execution_id", Clean(string(id))})
	}
	if list != nil {
		c.Properties = &junitProperties{list}
	}
}

// whyText is the reason in one line.
func (t *TestRecord) whyText() string {
	switch {
	case t.Reason != "":
		return t.Reason
	case len(t.Messages) > 0:
		return firstLine(t.Messages[0])
	case t.Outcome == store.TestFailed:
		return "failed without a word"
	default:
		return "it never ended"
	}
}

// text is everything that is known of a failure.
func (t *TestRecord) text() string {
	parts := append([]string{}, t.Messages...)
	if t.Output != "" {
		parts = append(parts, t.Output)
	}
	return Clean(strings.Join(parts, "\n"))
}

// packageFailure is what failed of a package apart from its tests, as a case of its own: consumers of JUnit see cases alone.
func (s *junitSuite) packageFailure(f *Feedback, p *PackageRecord) {
	for i := range f.Failures {
		fail := &f.Failures[i]
		if fail.Package != p.Package || fail.Kind == "test" {
			continue
		}
		name := map[string]string{"build": "[build]", "package": "[package]"}[fail.Kind]
		if name == "" {
			name = "[" + Clean(fail.Kind) + "]"
		}
		s.Tests++
		s.Errors++
		s.Cases = append(s.Cases, junitCase{Class: s.Name, Name: name, Time: secondsText(fail.Seconds),
			Error: &junitProblem{Type: Clean(fail.Kind), Message: CleanLine(fail.why()), Text: Clean(fail.Output)}})
	}
}

// withoutTest is the suite of required evaluations that belong to no test of the run.
const withoutTest = "[required evaluations]"

// required adds each required evaluation that blocks the run as a case of its own, in the suite of the package whose test it belongs to: go test's outcome of that
// test is another fact, and stays.
func (doc *junitSuites) required(f *Feedback, byPackage map[string]*junitSuite) {
	at, seen := f.packageOf(), map[string]int{}
	for i := range f.RequiredBlocked {
		b := &f.RequiredBlocked[i]
		name := cmp.Or(Clean(at(b)), withoutTest)
		s := byPackage[name]
		if s == nil {
			s = newJUnitSuite(f, name)
			byPackage[name] = s
			doc.Suites = append(doc.Suites, s)
		}
		c := blockedCase(s.Name, b)
		if seen[s.Name+"\x00"+c.Name]++; seen[s.Name+"\x00"+c.Name] > 1 { // readers take cases of one name for one
			c.Name += fmt.Sprintf(" #%d", seen[s.Name+"\x00"+c.Name])
		}
		s.Tests++
		s.Errors++
		s.Cases = append(s.Cases, c)
	}
}

// blockedCase names what is the same in the next run, too: the execution's id is a property, and in the text.
func blockedCase(class string, b *eval.Blocked) junitCase {
	c := junitCase{Class: class, Name: "[required evaluation] " + CleanLine(b.Evaluator), Time: secondsText(0)}
	if b.Case != "" {
		c.Name += " in " + CleanLine(b.Case)
	}
	var list []junitProperty
	for _, p := range [][2]string{{"m3.suite", b.Suite}, {"m3.execution_id", string(b.Execution)}, {"m3.turn_id", string(b.Turn)}, {"m3.evaluation_id", b.Evaluation}} {
		if p[1] != "" {
			list = append(list, junitProperty{p[0], Clean(p[1])})
		}
	}
	if list != nil {
		c.Properties = &junitProperties{list}
	}
	text := b.String()
	if _, more, _ := strings.Cut(b.Message, "\n"); more != "" {
		text += "\n" + more
	}
	if b.Execution != "" {
		text += "\nexecution: " + string(b.Execution)
	}
	c.Error = &junitProblem{Type: "required_evaluation", Message: CleanLine(b.String()), Text: Clean(text)}
	return c
}

// packageOf finds the package of the test that evaluated, else of the one that made the execution; empty when the run knows neither.
func (f *Feedback) packageOf() func(*eval.Blocked) string {
	tests, executions := map[string]string{}, map[trace.ExecutionID]string{}
	for i := range f.Tests {
		t := &f.Tests[i]
		if t.TestID != "" {
			tests[t.TestID] = t.Package
		}
		for _, id := range t.Executions {
			executions[id] = t.Package
		}
	}
	return func(b *eval.Blocked) string { return cmp.Or(tests[b.TestID], executions[b.Execution]) }
}
