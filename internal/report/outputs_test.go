package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// hostile is what a test or a server may print to be taken for something else.
const hostile = "::error::owned\n::set-output name=x::y\n\x1b[31m<script>alert(1)</script> ]]> | a | b |\n```\n</pre> @everyone [x](http://evil) <!-- %0A::warning::z\r\n\x00\ufffe"

func hostileFeedback() *report.Feedback {
	code := 1
	f := &report.Feedback{RunID: "run-1", ProjectName: "example.test/x", StartedAt: start, ExitCode: &code,
		Tests: []report.TestRecord{{Package: "example.test/x", Name: "Test/" + hostile, Iteration: 2, TestID: "t1", Outcome: store.TestFailed, Suite: hostile, Reason: hostile,
			Messages: []string{hostile}, Output: hostile, Executions: []trace.ExecutionID{hostile}},
			{Package: "example.test/x", Name: "TestSkip", Iteration: 1, Outcome: store.TestSkipped, Reason: hostile},
			{Package: "example.test/y" + hostile, Name: "TestOpen", Iteration: 1, Outcome: store.TestInterrupted}},
		Packages: []report.PackageRecord{{Package: "example.test/x", Outcome: "failed"}},
		Failures: []report.Failure{{Kind: "test", Package: "example.test/x", Test: "Test/" + hostile, Iteration: 2, Reason: "a_test.go:7: " + hostile, Messages: []string{hostile}, Output: hostile,
			Executions: []trace.ExecutionID{hostile}}, {Kind: "package", Package: "example.test/x", Reason: hostile, Output: hostile}},
		Findings: []report.FindingCount{{Severity: trace.SeverityError, Code: "c" + hostile, Count: 3, Execution: "e", Message: hostile}},
		RequiredBlocked: []eval.Blocked{{Evaluator: "a" + hostile, Status: eval.Failed, TestID: "t1", Execution: hostile, Turn: hostile, Suite: hostile, Case: hostile, Evaluation: hostile, Message: hostile},
			{Evaluator: hostile, Status: eval.Missing}},
		EvaluationStats: map[string]eval.Values{"e" + hostile: {ExpectedCount: 3, PassedCount: 1, PassRate: eval.Score(1. / 3)}},
	}
	f.Summary.TestOutcomeCounts = map[store.TestStatus]int{}
	f.Summary.Failures = 2
	return f
}

func TestHostileJUnit(t *testing.T) {
	t.Parallel()
	b, err := hostileFeedback().JUnit()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Tests  int `xml:"tests,attr"`
		Suites []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string  `xml:"name,attr"`
				Failure *string `xml:"failure"`
				Error   *string `xml:"error"`
				Skipped *string `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	dec := xml.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("it is no XML: %v\n%s", err, b)
	}
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if text, ok := tok.(xml.CharData); err != nil || !ok || strings.TrimSpace(string(text)) != "" {
			t.Fatalf("there is more: %v %v", tok, err)
		}
	}
	if doc.Tests != 6 || len(doc.Suites) != 3 || len(doc.Suites[0].Cases) != 4 || len(doc.Suites[2].Cases) != 1 {
		t.Fatalf("%+v", doc)
	}
	cases := doc.Suites[0].Cases
	if cases[0].Error == nil || cases[1].Failure == nil || cases[2].Skipped == nil || cases[3].Error == nil || doc.Suites[1].Cases[0].Error == nil || doc.Suites[2].Cases[0].Error == nil {
		t.Errorf("the kinds of ends: %+v", doc)
	}
	if !strings.Contains(*cases[1].Failure, `<script>alert(1)</script> ]]>`) || !strings.Contains(*cases[1].Failure, `\x1b[31m`) || !strings.HasSuffix(cases[1].Name, "(attempt 2)") {
		t.Errorf("the text is not what was printed: %q of %q", *cases[1].Failure, cases[1].Name)
	}
}

// TestHostileGitHub: of what stands outside the part without commands, every line is one command of ours.
func TestHostileGitHub(t *testing.T) {
	t.Parallel()
	f := hostileFeedback()
	g := &report.GitHub{Token: "TOKEN", Module: "example.test/x", Dir: "sub", Show: "m3 show"}
	var b bytes.Buffer
	g.Begin(&b)
	g.End(&b)
	g.Annotate(&b, f)
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 7 || lines[0] != "::stop-commands::TOKEN" || lines[1] != "::TOKEN::" {
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	if !strings.HasPrefix(lines[2], "::error file=sub/a_test.go,line=7,title=x.Test/%3A%3Aerror%3A%3Aowned\\n") {
		t.Errorf("the failure: %s", lines[2])
	}
	if !strings.HasPrefix(lines[3], "::error title=x::::error") {
		t.Errorf("the package: %s", lines[3])
	}
	if !strings.HasPrefix(lines[4], "::error title=required evaluation a%3A%3Aerror%3A%3Aowned\\n") || !strings.Contains(lines[4], "%250A%3A%3Awarning") || !strings.HasPrefix(lines[5], "::error title=required evaluation %3A%3Aerror") {
		t.Errorf("what blocks: %s\n%s", lines[4], lines[5])
	}
	if !strings.HasPrefix(lines[6], "::warning title=finding c%3A%3Aerror") {
		t.Errorf("the finding: %s", lines[4])
	}
	for _, l := range lines[2:] {
		if strings.ContainsAny(l, "\r\x1b\x00") {
			t.Errorf("a control character in %q", l)
		}
	}
	summary := g.Summary(f)
	for _, bad := range []string{"<script", "```", "@everyone", "](http", "</pre> ", "\x1b", "| a | b"} {
		if strings.Contains(summary, bad) {
			t.Errorf("the summary has %q:\n%s", bad, summary)
		}
	}
	if strings.Count(summary, "<pre>") != 2 || strings.Count(summary, "</pre>") != 2 {
		t.Errorf("the blocks:\n%s", summary)
	}
}

func TestGitHubPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pkg, why, want string }{
		{"example.test/x", "a_test.go:7: no", "::error file=sub/a_test.go,line=7,title=x::"},
		{"example.test/x/deep", "a_test.go:7: no", "::error file=sub/deep/a_test.go,line=7,title=deep::"},
		{"example.test/x/broken", "does not build: broken/b_test.go:5:2: undefined", "::error file=sub/broken/b_test.go,line=5,title=broken::"},
		{"example.test/x", "does not build: ./vet_test.go:8:44: fmt.Printf", "::error file=sub/vet_test.go,line=8,"},
		{"example.test/x", "../../etc/x.go:1: no", "::error title="},
		{"example.test/x", "/etc/x.go:1: no", "::error title="},
		{"other.test/y", "a_test.go:7: no", "::error title="},
		{"example.test/x", "want a.go:1 or so", "::error title="},
	} {
		var b bytes.Buffer
		g := &report.GitHub{Module: "example.test/x", Dir: "sub"}
		g.Annotate(&b, &report.Feedback{Failures: []report.Failure{{Kind: "package", Package: c.pkg, Reason: c.why}}})
		if !strings.HasPrefix(b.String(), c.want) {
			t.Errorf("%s %q: %s, want %s", c.pkg, c.why, b.String(), c.want)
		}
	}
}

// TestGitHubBounds: GitHub drops what is more.
func TestGitHubBounds(t *testing.T) {
	t.Parallel()
	f := &report.Feedback{}
	for range 1000 {
		f.Failures = append(f.Failures, report.Failure{Kind: "package", Package: "p", Reason: "r", Output: strings.Repeat("x", 50_000)})
	}
	g := &report.GitHub{}
	var b bytes.Buffer
	g.Annotate(&b, f)
	if n := strings.Count(b.String(), "\n"); n != 10 {
		t.Errorf("%d annotations", n)
	}
	f.EvaluationStats = map[string]eval.Values{}
	for i := range 1000 {
		f.EvaluationStats[fmt.Sprintf("quality.v%d", i)] = eval.Values{ExpectedCount: 1, PassedCount: 1, PassRate: eval.Score(1)}
		f.RequiredBlocked = append(f.RequiredBlocked, eval.Blocked{Evaluator: "answer.v1", Status: eval.Failed, Message: strings.Repeat("é", 50_000)})
	}
	b.Reset()
	g.Annotate(&b, f)
	if n, blocked := strings.Count(b.String(), "\n"), strings.Count(b.String(), "title=required evaluation"); n != 10 || blocked != 5 {
		t.Errorf("%d annotations, %d of them of what blocks", n, blocked)
	}
	if s := g.Summary(f); strings.Count(s, "| quality.v") != 50 || !strings.Contains(s, "| and 950 more: see feedback.json | | | | | | | |\n") {
		t.Errorf("the table of evaluators: %.9000s", s)
	}
	if s := g.Summary(f); strings.Count(s, "| answer.v1 |") != 50 || !strings.Contains(s, "| and 950 more: see feedback.json |") || strings.Contains(s, "\\x") {
		t.Errorf("the table of what blocks: %.4000s", s)
	}
	if s := g.Summary(f); len(s) > 1<<20 || !strings.Contains(s, "more: see feedback.json") {
		t.Errorf("the summary has %d bytes", len(s))
	}
}

func TestStreamLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := report.NewStream(&b)
	s.Run("run-1", "example.test/x", start)
	s.Item(&store.Item{RunID: "run-1", Package: "p", Test: "Test/" + hostile, Iteration: 1, Action: "fail", Reason: hostile, Elapsed: time.Second})
	s.Stopped()
	s.Item(&store.Item{RunID: "run-1", Package: "p", Test: "TestOpen", Iteration: 1})
	s.Item(&store.Item{RunID: "run-1", Package: "p", Action: "build-fail"})
	s.Text("")
	s.Text(hostile)
	s.End(hostileFeedback(), "feedback.json")
	var types []string
	outcomes := map[string]any{}
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		types = append(types, m["type"].(string))
		if o, ok := m["outcome"]; ok {
			outcomes[m["type"].(string)+" "+o.(string)] = m
		}
	}
	if got := strings.Join(types, " "); got != "run test test package output failure failure evaluation required required summary" {
		t.Errorf("the lines: %s", got)
	}
	for _, want := range []string{"test failed", "test interrupted", "package build_failed"} {
		if outcomes[want] == nil {
			t.Errorf("no %q in %v", want, outcomes)
		}
	}
}
