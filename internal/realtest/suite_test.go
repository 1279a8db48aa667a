package realtest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/conformance"
)

// The client scenarios of the public MCP conformance suite (docs/conformance-suite.md): the suite starts a server, runs our program suiteclient against it
// and judges what the program sent. What m3 does not pass is in suite/baseline.txt.

// suiteVersions are the protocol versions in which the suite runs.
var suiteVersions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

func TestRealSuite20250618(t *testing.T) { suiteVersion(t, "2025-06-18") }
func TestRealSuite20251125(t *testing.T) { suiteVersion(t, "2025-11-25") }
func TestRealSuite20260728(t *testing.T) { suiteVersion(t, "2026-07-28") }

// suiteVersion runs every scenario that the suite lists for a version, but for those about authorization.
func suiteVersion(t *testing.T, version string) {
	s := theSuite(t)
	baseline := readBaseline(t)
	all := s.list(t, "--spec-version", version)
	names := withoutAuth(all)
	scored := withoutAuth(s.scored(t, version, all))
	var rows strings.Builder
	var ran []string
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r := s.run(t, s.client, name, version)
			ran = append(ran, name)
			reason := reasonFor(baseline, version, name)
			if wrong := judge(r, reason); wrong != "" {
				t.Errorf("%s\n\nThe suite said:\n%s", wrong, tail(r.said))
			}
			fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, yesNo(slices.Contains(scored, name)), r.cells(), outcome(r, reason))
		})
	}
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		t.Log("only some scenarios were asked for: their number and the page were not checked")
		return
	}
	for _, wrong := range unlisted(version, ran, slices.Concat(names, scored), baseline) {
		t.Error(wrong)
	}
	text := fmt.Sprintf("Suite %s. Not run: %d scenarios under `auth/`.\n\n| scenario | scored | checks | result |\n| --- | --- | --- | --- |\n%s", s.version, len(all)-len(names), rows.String())
	if err := conformance.PageSection("docs/conformance-suite.md", version, text, os.Getenv("M3_UPDATE") == "1"); err != nil && !t.Failed() {
		t.Error(err)
	}
}

// scored are the scenarios that count in a version. The suite has no list of its own for 2025-06-18, where all count.
func (s *suite) scored(t *testing.T, version string, all []string) []string {
	if version == "2025-06-18" {
		return all
	}
	return s.list(t, "--requirements", version)
}

func withoutAuth(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "auth/") })
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func outcome(r *suiteResult, reason string) string {
	if r.wrong() == "" {
		return "pass"
	}
	return cell("fails: " + reason)
}

// TestRealSuiteControl: each scenario fails for a client that does nothing, and for one that plays another scenario. So a pass says something.
func TestRealSuiteControl(t *testing.T) {
	s := theSuite(t)
	seen := map[string]bool{}
	for _, version := range slices.Backward(suiteVersions) {
		for _, name := range withoutAuth(s.list(t, "--spec-version", version)) {
			if seen[name] {
				continue
			}
			seen[name] = true
			t.Run(name, func(t *testing.T) {
				if r := s.run(t, "true", name, version); r.wrong() == "" {
					t.Errorf("a client that does nothing passes. The suite said:\n%s", tail(r.said))
				}
			})
		}
	}
	t.Run("another scenario", func(t *testing.T) {
		r := s.run(t, "env MCP_CONFORMANCE_SCENARIO=initialize "+s.client, "tools_call", "2025-11-25")
		if wrong := r.wrong(); !strings.Contains(wrong, "FAILURE tool-add-numbers") {
			t.Errorf("a client that lists tools and calls none is judged %q. The suite said:\n%s", wrong, tail(r.said))
		}
	})
}
