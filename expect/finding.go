package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

// FindingOption says where [Expectation.Finding] and [Expectation.NoFindings] look, and how many they want: [InTurn], [OnServer], [Except];
// for Finding also [Times], [MinTimes] and [MaxTimes].
type FindingOption interface{ findingOption(*findingSpec) }

type findingSpec struct {
	common
	count
	except []string
}

// Exception is what [Except] returns.
type Exception struct{ codes []string }

func (o Exception) findingOption(s *findingSpec) {
	s.except = append(s.except, o.codes...)
	s.common.args.add("except", o.codes)
}

// Except lets [Expectation.NoFindings] pass over findings of the codes.
func Except(codes ...string) Exception { return Exception{codes} }

func newFindingSpec(opts []FindingOption) *findingSpec {
	spec := &findingSpec{}
	for _, opt := range opts {
		if opt == nil {
			spec.wrong("an option is nil")
			continue
		}
		opt.findingOption(spec)
	}
	if wrong := spec.count.check(); wrong != "" {
		spec.wrong("%s", wrong)
	}
	return spec
}

// Finding expects that something of the code was found on the wire: at least once, or as often as the options say. docs/findings.md lists the
// codes.
func (e *Expectation) Finding(code string, opts ...FindingOption) bool {
	e.t.Helper()
	spec := newFindingSpec(opts)
	switch {
	case code == "":
		spec.wrong("Finding: the code is empty")
	case spec.except != nil:
		spec.wrong("Finding: Except belongs to NoFindings")
	}
	c := &check{matcher: "finding", title: "finding " + quoted(code), selector: spec.selector(code), turn: spec.turn, misuse: spec.common.misuse}
	c.args.add("code", code)
	c.args = append(append(c.args, spec.common.args...), spec.count.args...)
	return e.judge(c, func(s *subject) outcome {
		found, lost, o := s.findings("Finding", spec)
		if o.verdict != met {
			return o
		}
		n := 0
		for _, f := range found {
			if f.Code == code {
				n++
			}
		}
		return spec.weigh(s, n, 0, lost, func() string {
			return fmt.Sprintf("findings (-want +got):\n- %s of %s\n+ %s", &spec.count, code, s.listFindings(found))
		})
	})
}

// severities, from remark to defect.
var severities = []trace.Severity{trace.SeverityNote, trace.SeverityWarning, trace.SeverityError}

// NoFindings expects that nothing of the severity, or of a graver one, was found on the wire. DirectOptions.Strict makes the same a rule for
// every client, also for what is found while it closes.
func (e *Expectation) NoFindings(from trace.Severity, opts ...FindingOption) bool {
	e.t.Helper()
	spec := newFindingSpec(opts)
	least := slices.Index(severities, from)
	switch {
	case least < 0:
		spec.wrong("NoFindings(%q): use trace.SeverityNote, trace.SeverityWarning or trace.SeverityError", string(from))
	case len(spec.count.args) > 0:
		spec.wrong("NoFindings: it wants none: Times, MinTimes and MaxTimes belong to Finding")
	}
	c := &check{matcher: "no_findings", title: "no findings of severity " + string(from) + " or above", selector: spec.selector(string(from)), turn: spec.turn, misuse: spec.common.misuse}
	c.args.add("severity", from)
	c.args = append(c.args, spec.common.args...)
	return e.judge(c, func(s *subject) outcome {
		found, lost, o := s.findings("NoFindings", spec)
		if o.verdict != met {
			return o
		}
		found = slices.DeleteFunc(found, func(f trace.Finding) bool {
			return slices.Index(severities, f.Severity) < least || slices.Contains(spec.except, f.Code)
		})
		switch {
		case len(found) > 0:
			return differs("findings (-want +got):\n- none\n+ %s", s.listFindings(found))
		case lost != "":
			return cannotTell("none is in the evidence, but " + lost)
		default:
			return s.holds("there are none")
		}
	})
}

// truncatedFindings is the code of the finding that counts those that were too many to be kept.
const truncatedFindings = "findings-truncated"

// findings lists what was found where the options say, and why there may be more.
func (s *subject) findings(matcher string, spec *findingSpec) (found []trace.Finding, more string, o outcome) {
	view, o := s.onView(matcher)
	if view == nil {
		return nil, "", o
	}
	if view, o = spec.narrow(view); view == nil {
		return nil, "", o
	}
	more = lost(view)
	for _, f := range view.Findings().All() {
		switch {
		case f.Own:
		case f.Code == truncatedFindings:
			more = "there were more findings than are kept: " + f.Message
		case spec.server == "" || f.ServerBinding == spec.server:
			found = append(found, f.Finding)
		}
	}
	return found, more, held
}

func (s *subject) listFindings(found []trace.Finding) string {
	if len(found) == 0 {
		return "none"
	}
	const most = 10
	var lines []string
	for i, f := range found {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(found)-most))
			break
		}
		line := fmt.Sprintf("%s (%s): %s", f.Code, f.Severity, cut(s.redact(f.Message), 200, "bytes more"))
		if f.Sequence >= 0 {
			line += fmt.Sprintf(", at event %d", f.Sequence)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n+ ")
}
