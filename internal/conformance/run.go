package conformance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/trace"
)

// Excuse is a message that a test sends wrong on purpose.
type Excuse struct {
	Contains string // a part of the problem's text or of the message
	Why      string
}

// maxPrinted bounds how many problems are printed.
const maxPrinted = 20

// Run runs the tests of a package, m being a *testing.M, and returns their exit code, which is 1 when a message that m3 sent is not as it must be. Where the
// schemas are missing nothing is checked, and a line on stderr says so; with M3_REQUIRE_SHARED=1 that is a failure.
func Run(m interface{ Run() int }, excuses ...Excuse) int { return run(m, os.Stderr, excuses) }

// Wrap is m with the checks, for who calls m's Run by himself.
func Wrap(m interface{ Run() int }, excuses ...Excuse) interface{ Run() int } {
	return wrapped{m, excuses}
}

type wrapped struct {
	m       interface{ Run() int }
	excuses []Excuse
}

// Run runs the tests and the checks.
func (w wrapped) Run() int { return Run(w.m, w.excuses...) }

func run(m interface{ Run() int }, w io.Writer, excuses []Excuse) int {
	s, err := Load()
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("M3_REQUIRE_SHARED") != "1":
		fmt.Fprintf(w, "wire conformance is not checked: %v\n", err)
		return m.Run()
	case err != nil:
		fmt.Fprintf(w, "wire conformance: %v\n", err)
		return 1
	}
	followed, err := follow(s.dir)
	if err != nil {
		fmt.Fprintf(w, "wire conformance: %v\n", err)
		return 1
	}
	defer followed.remove()
	c := New(s, false)
	stop := evidence.Watch(func(owner *evidence.Tape, ev *trace.Event) { c.Event(owner, ev) })
	code := m.Run()
	stop()
	return max(code, c.report(w, excuses), followed.report(w, excuses))
}

// report prints what was found, and how much was looked at.
func (c *Checker) report(w io.Writer, excuses []Excuse) (code int) {
	messages := 0
	uses := c.Uses()
	for _, u := range uses {
		if strings.HasPrefix(u.Definition, "JSONRPC") {
			messages += u.Messages
		}
	}
	printed := 0
	for _, p := range c.Problems() {
		if excused(p, excuses) {
			continue
		}
		if printed++; printed <= maxPrinted {
			fmt.Fprintf(w, "wire conformance: %s\n", p)
		}
	}
	if printed > maxPrinted {
		fmt.Fprintf(w, "wire conformance: and %d more\n", printed-maxPrinted)
	}
	fmt.Fprintf(w, "wire conformance: %d messages by %d definitions, %d problems\n", messages, len(uses), printed)
	return min(printed, 1)
}

func excused(p Problem, excuses []Excuse) bool {
	for _, e := range excuses {
		if strings.Contains(p.Text, e.Contains) || strings.Contains(p.Message, e.Contains) {
			return true
		}
	}
	return false
}
