package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/m3-go/m3/store"
)

// LiveConfig says how a run is shown while it goes on. The zero value is plain lines.
type LiveConfig struct {
	Style Style
	// Progress keeps a line about what runs at the bottom. Only for terminals.
	Progress bool
	// Width is the terminal's width; 0 is 80.
	Width int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Live prints a line for each test and package as it ends. It is safe for concurrent use.
type Live struct {
	mu      sync.Mutex
	w       io.Writer
	cfg     LiveConfig
	start   time.Time
	running []string
	n       struct{ passed, failed, skipped int }
	any     bool // something has ended
	shown   bool // a progress line stands
	stopped bool
}

// NewLive returns a Live that writes to w.
func NewLive(w io.Writer, cfg *LiveConfig) *Live {
	l := &Live{w: w}
	if cfg != nil {
		l.cfg = *cfg
	}
	if l.cfg.Now == nil {
		l.cfg.Now = time.Now
	}
	if l.cfg.Width <= 0 {
		l.cfg.Width = 80
	}
	l.start = l.cfg.Now()
	return l
}

// Began notes a test that runs, for the progress line.
func (l *Live) Began(pkg, test string) {
	if !l.cfg.Progress {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = append(l.running, l.cfg.Style.name(pkg, test, 1))
}

// Item prints what ended. Of a package whose tests were told it is one line; a package without test files is not worth one.
func (l *Live) Item(it *store.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.any = true
	line := l.packageLine(it)
	if it.Test != "" {
		line = l.testLine(it)
	}
	if line != "" {
		l.print(line + "\n")
	}
}

// Text prints what go itself said, made safe.
func (l *Live) Text(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s = Clean(s); s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	l.print(s)
}

// Stopped says that the run is being ended from outside: what never ends from now on has not failed by itself.
func (l *Live) Stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// Tick brings the progress line up to date.
func (l *Live) Tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress()
}

// Close takes the progress line away.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	l.cfg.Progress = false
}

func (l *Live) testLine(it *store.Item) string {
	st := l.cfg.Style
	name := st.name(it.Package, it.Test, it.Iteration)
	l.ended(st.name(it.Package, it.Test, 1))
	tail := " (" + elapsed(it.Elapsed) + ")"
	switch {
	case it.Cached:
		return "" // told before, when go test had not yet said that it was old
	case it.Action == "pass":
		l.n.passed++
		return st.paint(green, "PASS") + " " + name + st.paint(dim, tail)
	case it.Action == "skip":
		l.n.skipped++
		return st.paint(yellow, "SKIP") + " " + name + st.paint(dim, tail) + reasonTail(it.Reason)
	case it.Action == "" && l.stopped:
		return st.paint(yellow, "STOP") + " " + name + st.paint(dim, tail)
	case it.Action == "":
		l.n.failed++
		return st.paint(red, "FAIL") + " " + name + st.paint(dim, tail) + reasonTail(it.Reason)
	default:
		l.n.failed++
		return st.paint(red, "FAIL") + " " + name + st.paint(dim, tail)
	}
}

func (l *Live) packageLine(it *store.Item) string {
	st := l.cfg.Style
	pkg := st.short(it.Package)
	tail := st.paint(dim, " ("+elapsed(it.Elapsed)+")")
	switch {
	case it.Cached:
		return st.paint(yellow, "old ") + " " + pkg + ": a cached result of an earlier run, not a result of this one"
	case it.Action == "pass":
		return st.paint(green, "ok  ") + " " + pkg + tail
	case it.Action == "skip":
		return ""
	case it.Action == "build-fail":
		l.n.failed++
		return st.paint(red, "FAIL") + " " + pkg + reasonTail(it.Reason)
	case l.stopped:
		return st.paint(yellow, "STOP") + " " + pkg + tail + reasonTail(it.Reason)
	default:
		return st.paint(red, "FAIL") + " " + pkg + tail + reasonTail(it.Reason)
	}
}

func reasonTail(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + CleanLine(reason)
}

func (l *Live) ended(name string) {
	for i, r := range l.running {
		if r == name {
			l.running = append(l.running[:i], l.running[i+1:]...)
			return
		}
	}
}

func (l *Live) print(s string) {
	l.clear()
	io.WriteString(l.w, s)
	l.progress()
}

func (l *Live) clear() {
	if l.shown {
		io.WriteString(l.w, "\r\x1b[K")
		l.shown = false
	}
}

func (l *Live) progress() {
	if !l.cfg.Progress {
		return
	}
	s := fmt.Sprintf("%s  %d passed, %d failed, %d skipped", elapsedShort(l.cfg.Now().Sub(l.start)), l.n.passed, l.n.failed, l.n.skipped)
	switch n := len(l.running); {
	case n > 0:
		s += fmt.Sprintf(", %d running: %s", n, l.running[n-1])
	case !l.any:
		s += ", building"
	}
	if over := utf8.RuneCountInString(s) - (l.cfg.Width - 1); over > 0 {
		r := []rune(s)
		s = string(r[:max(0, len(r)-over-1)]) + "…"
	}
	io.WriteString(l.w, "\r\x1b[K"+l.cfg.Style.paint(dim, s))
	l.shown = true
}

func elapsedShort(d time.Duration) string { return d.Truncate(100 * time.Millisecond).String() }
