package store

import "time"

// Merge returns what an earlier and a later record about the same thing add up to. Both are of one type; neither is
// changed. It is the one place where the rules are, so that every store agrees.
func Merge(earlier, later Record) Record {
	switch a := earlier.(type) {
	case *Run:
		return mergeRuns(*a, *later.(*Run))
	case *Test:
		return mergeTests(*a, *later.(*Test))
	case *Item:
		return mergeItems(*a, *later.(*Item))
	case *Execution:
		return mergeExecutions(*a, *later.(*Execution))
	case *Evaluation:
		return a // a fact: it does not change
	}
	return later
}

// mergeRuns: the first Started and the last Finished stand, which is never before the first; and one interrupted process makes the run interrupted.
func mergeRuns(a, b Run) *Run {
	out := a
	out.Started = first(a.Started, b.Started)
	if b.Finished != nil && (a.Finished == nil || !b.Finished.Before(*a.Finished)) {
		out.Finished = b.Finished
		if b.ExitCode != nil {
			out.ExitCode = b.ExitCode
		}
	}
	if out.ExitCode == nil {
		out.ExitCode = b.ExitCode
	}
	out.Finished = notBefore(out.Finished, out.Started)
	out.Explicit = a.Explicit || b.Explicit
	out.Project = or(b.Project, a.Project)
	out.Version = or(b.Version, a.Version)
	out.Owner = or(b.Owner, a.Owner)
	if len(b.Command) > 0 {
		out.Command = b.Command
	}
	if len(b.Detail) > 0 {
		out.Detail = b.Detail
	}
	if rank(b.Status) > rank(a.Status) {
		out.Status = b.Status
	}
	return &out
}

func rank(s RunStatus) int {
	switch s {
	case RunRunning:
		return 1
	case RunFinished:
		return 2
	case RunInterrupted:
		return 3
	}
	return 0
}

// mergeTests: an end supersedes a begin, whatever the order in which they come.
func mergeTests(a, b Test) *Test {
	if a.Status != TestRunning && a.Status != "" && (b.Status == TestRunning || b.Status == "") {
		a, b = b, a
	}
	out := b
	out.Started = first(a.Started, b.Started)
	out.Finished = notBefore(out.Finished, out.Started)
	out.Package, out.Name, out.Suite = or(b.Package, a.Package), or(b.Name, a.Name), or(b.Suite, a.Suite)
	if out.Iteration == 0 {
		out.Iteration = a.Iteration
	}
	if len(out.Reasons) == 0 {
		out.Reasons = a.Reasons
	}
	return &out
}

// mergeItems: the later one stands.
func mergeItems(a, b Item) *Item {
	b.TestID = or(b.TestID, a.TestID)
	return &b
}

// mergeExecutions: an execution's record never changes; a later one fills in what the first left out.
func mergeExecutions(a, b Execution) *Execution {
	out := a
	out.Suite, out.Case, out.TestID = or(a.Suite, b.Suite), or(a.Case, b.Case), or(a.TestID, b.TestID)
	out.Kind = or(a.Kind, b.Kind)
	if len(out.Servers) == 0 {
		out.Servers = b.Servers
	}
	if len(out.Spec) == 0 || string(out.Spec) == "null" {
		out.Spec = b.Spec
	}
	if out.Created.IsZero() {
		out.Created = b.Created
	}
	return &out
}

func first(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
