package realtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What counts as passed, and what the baseline may excuse: functions of their own, so that they can be seen to fail without the suite.

// suiteCheck is one check of the suite's checks.json.
type suiteCheck struct {
	ID, Name, Status, Description, ErrorMessage string
}

// suiteResult is one scenario in one version, as the suite judged it.
type suiteResult struct {
	exit   int // of the suite
	checks []suiteCheck
	said   string // the suite's output, and what the client wrote to stderr
}

func (r *suiteResult) count(status string) int {
	n := 0
	for _, c := range r.checks {
		if c.Status == status {
			n++
		}
	}
	return n
}

// wrong says why a scenario is not passed; empty when it is. The suite calls a scenario passed in which nothing was checked, and one with warnings. Here
// both are failures.
func (r *suiteResult) wrong() string {
	var why []string
	if r.exit != 0 {
		why = append(why, fmt.Sprintf("the suite exited with %d", r.exit))
	}
	for _, c := range r.checks {
		switch c.Status {
		case "SUCCESS", "SKIPPED", "INFO":
		default:
			why = append(why, strings.TrimSuffix(fmt.Sprintf("%s %s (%s): %s: %s", c.Status, c.ID, c.Name, c.Description, c.ErrorMessage), ": "))
		}
	}
	if r.count("SUCCESS") == 0 {
		why = append(why, "no check passed")
	}
	return strings.Join(why, "\n")
}

// cells are the row's cells about the checks.
func (r *suiteResult) cells() string {
	passed, skipped := r.count("SUCCESS"), r.count("SKIPPED")
	text := fmt.Sprintf("%d of %d passed", passed, len(r.checks)-r.count("INFO")-skipped)
	if skipped > 0 {
		text += fmt.Sprintf(", %d skipped", skipped)
	}
	return text
}

// excuse is an entry of the baseline.
type excuse struct{ version, scenario, reason string }

// parseBaseline reads the baseline: VERSION SCENARIO REASON, one a line.
func parseBaseline(text string) ([]excuse, error) {
	var list []excuse
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, " ", 3)
		if len(parts) < 3 || !slices.Contains(suiteVersions, parts[0]) {
			return nil, fmt.Errorf("line %d of the baseline is not VERSION SCENARIO REASON with a version of %v: %s", i+1, suiteVersions, line)
		}
		e := excuse{parts[0], parts[1], strings.TrimSpace(parts[2])}
		if slices.ContainsFunc(list, func(x excuse) bool { return x.version == e.version && x.scenario == e.scenario }) {
			return nil, fmt.Errorf("line %d of the baseline names %s %s again", i+1, e.version, e.scenario)
		}
		list = append(list, e)
	}
	return list, nil
}

func readBaseline(t *testing.T) []excuse {
	t.Helper()
	b, err := os.ReadFile("suite/baseline.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseBaseline(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// reasonFor is the baseline's reason for a failure; empty when there is none.
func reasonFor(baseline []excuse, version, scenario string) string {
	for _, e := range baseline {
		if e.version == version && e.scenario == scenario {
			return e.reason
		}
	}
	return ""
}

// judge says what is wrong with a scenario's result in the light of the baseline's reason; empty when nothing is.
func judge(r *suiteResult, reason string) string {
	switch wrong := r.wrong(); {
	case wrong != "" && reason == "":
		return wrong
	case wrong == "" && reason != "":
		return "the baseline is stale: it excuses this scenario (" + reason + "), and it passes now"
	}
	return ""
}

// unlisted says which entries of the baseline name no scenario of the version, and which scenarios that must be there did not run.
func unlisted(version string, ran, required []string, baseline []excuse) []string {
	var wrong []string
	for _, e := range baseline {
		if e.version == version && !slices.Contains(ran, e.scenario) {
			wrong = append(wrong, fmt.Sprintf("the baseline is stale: %s is no scenario of %s", e.scenario, version))
		}
	}
	for _, name := range required {
		if !slices.Contains(ran, name) {
			wrong = append(wrong, fmt.Sprintf("scenario %s of %s did not run", name, version))
		}
	}
	return wrong
}

func TestSuiteVerdict(t *testing.T) {
	t.Parallel()
	ok, info, skipped := suiteCheck{ID: "a", Status: "SUCCESS"}, suiteCheck{Status: "INFO"}, suiteCheck{Status: "SKIPPED"}
	for _, tc := range []struct {
		name   string
		r      suiteResult
		reason string
		want   string // a part of what is wrong
	}{
		{"passed", suiteResult{checks: []suiteCheck{ok, info, skipped}}, "", ""},
		{"a failed check", suiteResult{checks: []suiteCheck{ok, {ID: "b", Status: "FAILURE", Description: "it echoes"}}}, "", "FAILURE b"},
		{"a warning", suiteResult{checks: []suiteCheck{ok, {ID: "b", Status: "WARNING"}}}, "", "WARNING b"},
		{"a status that is not known", suiteResult{checks: []suiteCheck{ok, {ID: "b", Status: "PENDING"}}}, "", "PENDING b"},
		{"the suite's exit code alone", suiteResult{exit: 1, checks: []suiteCheck{ok}}, "", "exited with 1"},
		{"nothing checked", suiteResult{checks: []suiteCheck{info, skipped}}, "", "no check passed"},
		{"excused", suiteResult{exit: 1}, "not built yet", ""},
		{"excused and passed", suiteResult{checks: []suiteCheck{ok}}, "not built yet", "stale"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := judge(&tc.r, tc.reason); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("judged %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestSuiteBaseline(t *testing.T) {
	t.Parallel()
	list, err := parseBaseline("# a comment\n\n2025-11-25 sse-retry it is slow, and so on\n")
	if want := []excuse{{"2025-11-25", "sse-retry", "it is slow, and so on"}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("%v, %v", list, err)
	}
	for _, bad := range []string{"2025-11-25 sse-retry", "2025-11-25 sse-retry  ", "2025-01-01 sse-retry why", "sse-retry 2025-11-25 why", "2025-11-25 a b\n2025-11-25 a c"} {
		if list, err := parseBaseline(bad); err == nil {
			t.Errorf("%q was read as %v", bad, list)
		}
	}
	want := []string{"the baseline is stale: sse-retry is no scenario of 2025-11-25", "scenario initialize of 2025-11-25 did not run"}
	if d := cmp.Diff(want, unlisted("2025-11-25", []string{"tools_call"}, []string{"tools_call", "initialize"}, list)); d != "" {
		t.Error(d)
	}
	if got := unlisted("2026-07-28", []string{"tools_call"}, []string{"tools_call"}, list); len(got) > 0 {
		t.Errorf("an entry of another version: %v", got)
	}
}
