package report

import (
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/term"
)

// Style says how text is dressed. The zero value is plain.
type Style struct {
	Color bool
	// Module is cut from the front of package paths; empty: nothing is.
	Module string
}

// Terminal reports whether f is a terminal, and whether it should get colours: NO_COLOR (set to anything) and TERM=dumb say no.
func Terminal(f *os.File) (tty, color bool) {
	tty = term.IsTerminal(int(f.Fd()))
	dumb := os.Getenv("TERM") == "dumb"
	return tty && !dumb, tty && !dumb && os.Getenv("NO_COLOR") == ""
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
	bold   = "1"
)

func (s Style) paint(code, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// short is a package's path as people of the module call it.
func (s Style) short(pkg string) string {
	if s.Module != "" {
		if pkg == s.Module {
			return path.Base(pkg)
		}
		pkg = strings.TrimPrefix(pkg, s.Module+"/")
	}
	return CleanLine(pkg)
}

// name is a test with its package, and with its iteration when there are several.
func (s Style) name(pkg, test string, iteration int) string {
	n := s.short(pkg) + "." + CleanLine(test)
	if iteration > 1 {
		n += fmt.Sprintf(" (attempt %d)", iteration)
	}
	return n
}

func elapsed(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

// count is a number with its noun, in the plural where it must be.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
