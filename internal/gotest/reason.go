package gotest

import (
	"regexp"
	"strings"
)

// crashes are the ways in which a test process ends without its tests. Only lines that start with the prefix count.
var crashes = []struct {
	prefix string
	reason func(line string) string
}{
	{"panic: test timed out after ", func(l string) string {
		return "timed out after " + field(l, "panic: test timed out after ") + " (-timeout)"
	}},
	{"panic: unexpected call to os.Exit(0) during test", func(string) string { return "the test called os.Exit(0)" }},
	{"panic: ", panicReason},
	{"fatal error: ", func(l string) string { return l }},
	{"signal: ", func(l string) string { return "the test process was killed (" + l + ")" }},
	{"*** Test killed", func(l string) string { return strings.TrimPrefix(l, "*** ") }},
	{"*** Test I/O incomplete", func(l string) string {
		return strings.TrimPrefix(l, "*** ") + " (a process that it started still holds its output)"
	}},
	{"exit status ", func(l string) string { return "the test process ended with " + l }},
}

func panicReason(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, " [recovered, repanicked]"), " [recovered]")
}

func field(line, prefix string) string { return strings.TrimSpace(line[len(prefix):]) }

// crashOf finds how the process ended in what was printed last. A line that only looks like a panic is told from a real one
// by the goroutine trace that follows.
func crashOf(output string) string {
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		for _, c := range crashes {
			if !strings.HasPrefix(line, c.prefix) {
				continue
			}
			if (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) && !hasTrace(lines[i:]) {
				break
			}
			return oneLine(c.reason(line))
		}
	}
	return ""
}

func hasTrace(lines []string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, "goroutine ") && strings.HasSuffix(l, ":") {
			return true
		}
	}
	return false
}

// reason says why a test failed or was skipped: how its process crashed, else the first line that it printed.
func (t *Test) reason() string {
	out := t.Output.String()
	if t.Action == ActionFail {
		if c := crashOf(out); c != "" {
			return c
		}
	}
	if r := lastLogged(out); r != "" {
		return r
	}
	if first := firstLine(out); first != "got:" || !strings.HasPrefix(t.Name, "Example") {
		return first
	}
	return "the output differs from the one in the example's comment"
}

// logged is a line of t.Error, t.Fatal, t.Log or t.Skip.
var logged = regexp.MustCompile(`^ +[^ :]+\.go:[0-9]+: `)

// lastLogged is the last thing that the test logged: go test does not tell errors from remarks, and what stops a test comes
// last.
func lastLogged(out string) string {
	last := ""
	for line := range strings.Lines(out) {
		if logged.MatchString(line) {
			last = line
		}
	}
	return oneLine(last)
}

// reason says why a package failed, apart from its tests. Empty when they say it.
func (p *Package) reason() string {
	if p.Action == ActionBuildFail {
		return "does not build"
	}
	if p.Action == ActionSkip {
		return strings.Trim(afterTab(firstLine(p.Output.String())), "[]")
	}
	if p.ended {
		if p.anyFailed() {
			return ""
		}
		if c := crashOf(p.Output.String()); c != "" {
			return c
		}
		return "every test passed, but the test process ended with a failure"
	}
	if u, _, ok := p.usage(); ok {
		return u
	}
	if c := crashOf(p.Output.String()); c != "" {
		return c
	}
	for i := len(p.Tests) - 1; i >= 0; i-- {
		if t := p.Tests[i]; t.Failed() {
			if c := crashOf(t.Output.String()); c != "" {
				return c
			}
		}
	}
	return "the test process ended before its tests did (os.Exit, or a signal)"
}

// usageErrors begin the line with which package flag refuses the test binary's arguments.
var usageErrors = []string{"flag provided but not defined: ", "flag needs an argument: ", "bad flag syntax: ", "invalid value ", "invalid boolean value "}

// usage finds the test binary's refusal of its arguments, before any test ran, and the output up to it; its usage follows.
func (p *Package) usage() (reason, until string, ok bool) {
	out := p.Output.String()
	at := strings.Index(out, "\nUsage of ")
	if len(p.Tests) > 0 || at < 0 {
		return "", "", false
	}
	until = out[:at+1]
	for line := range strings.Lines(until) {
		for _, begin := range usageErrors {
			if strings.HasPrefix(line, begin) {
				return oneLine(line), until, true
			}
		}
	}
	return "", "", false
}

// dropUsage leaves the list of every flag of a test binary out of what is kept.
func (p *Package) dropUsage() {
	if _, until, ok := p.usage(); ok {
		p.Output.clear()
		p.Output.add(until)
	}
}

// takeForeign takes the panic of -timeout, or the signal that ended the process, out of the output of a test that had ended before it: go test
// takes it for the words of whoever spoke last. Empty when there is none. Another panic may be the test's own: it is told after its end.
func (t *Test) takeForeign() string {
	out := t.Output.String()
	ended, dump := -1, -1
	for i := 0; i < len(out); {
		line := out[i:]
		if n := strings.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		switch {
		case isEnd(line, t.Name):
			ended = i
		case ended < 0:
		case strings.HasPrefix(line, "panic: test timed out after ") && hasTrace(strings.Split(out[i:], "\n")), strings.HasPrefix(line, "signal: "):
			dump = i
		case strings.HasPrefix(line, "panic: "):
			return ""
		}
		if dump >= 0 {
			break
		}
		i += len(line)
	}
	if dump < 0 {
		return ""
	}
	t.Output.clear()
	t.Output.add(out[:dump])
	return out[dump:]
}

// isEnd reports whether the line is go test's about the end of the test.
func isEnd(line, test string) bool {
	line = strings.TrimLeft(line, " ")
	for _, p := range []string{"--- PASS: ", "--- FAIL: ", "--- SKIP: "} {
		if rest, ok := strings.CutPrefix(line, p); ok {
			return strings.HasPrefix(rest, test+" (")
		}
	}
	return false
}

func (p *Package) anyFailed() bool {
	for _, t := range p.Tests {
		if t.Action == ActionFail {
			return true
		}
	}
	return false
}

// cutReason says why a test never ended: its own crash, or what ended its process.
func cutReason(t *Test, p *Package) string {
	if c := crashOf(t.Output.String()); c != "" {
		return c
	}
	if p.Reason != "" {
		return "never ended: " + p.Reason
	}
	return "never ended"
}

// firstLine is the first line of a test's own words: go test's framing left out.
func firstLine(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		if s := strings.TrimSpace(line); s != "" && !isFraming(line) {
			return oneLine(s)
		}
	}
	return ""
}

func isFraming(line string) bool {
	line = strings.TrimLeft(line, " ")
	for _, p := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ", "=== ATTR ", "=== ARTIFACTS ",
		"--- PASS: ", "--- FAIL: ", "--- SKIP: ", "--- BENCH: "} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

// WithoutFraming returns out without the lines by which go test frames a test's output.
func WithoutFraming(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !isFraming(strings.TrimRight(line, "\r\n")) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func afterTab(s string) string { return s[strings.LastIndexByte(s, '\t')+1:] }

func oneLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(s)
}
