package shim

import (
	"bufio"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyFD is where the reaper says that it is up: a pipe of which it closes its end.
const readyFD = 3

// Ready is what the reaper writes to its fourth descriptor once nothing can stop it.
const Ready = "ready\n"

// The reaper's ladder. The end of the pipe is also the end of every server's stdin, so the first step has happened when it
// starts; all of it fits into the 3 s that a test process may leave something behind.
const (
	eofGrace  = 500 * time.Millisecond
	termGrace = 500 * time.Millisecond
	killGrace = time.Second
	look      = 20 * time.Millisecond // between two looks at the process table

	// guardGrace is what a guarded group has after SIGINT: test processes take up to five seconds to store the ends of their executions.
	guardGrace = 7 * time.Second
)

// Reap is the reaper: it reads what the test process started from a pipe, a [Note] a line, and when the pipe ends, because
// the test process ended in whatever way, it ends all that is left: EOF 0.5 s, TERM 0.5 s, KILL. It returns the exit code.
func Reap(pipe io.Reader, ready io.WriteCloser) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	io.WriteString(ready, Ready)
	ready.Close()
	w := &watched{tree: Tree{Groups: make(map[int]uint64)}, guarded: Tree{Groups: make(map[int]uint64)}}
	w.listen(pipe)
	if w.tree.Mark.ID == "" {
		return 0 // the test process went before it had said a word
	}
	var guarded sync.WaitGroup
	guarded.Go(w.guarded.finishGently)
	w.tree.finish()
	guarded.Wait()
	return 0
}

// watched is what the reaper is to end. The guarded tree has nothing but groups.
type watched struct{ tree, guarded Tree }

// listen applies the notes until the pipe ends. A torn last line is not one.
func (w *watched) listen(pipe io.Reader) {
	r := bufio.NewReader(pipe)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if n, err := ParseNote(line); err == nil {
			n.apply(w)
		}
	}
}

// finish ends everything that lives of the tree.
func (t *Tree) finish() {
	if t.wait(eofGrace, 0) || t.wait(0, syscall.SIGTERM) || t.wait(termGrace, 0) {
		return
	}
	t.wait(killGrace, syscall.SIGKILL)
}

// wait reports whether nothing is left, and waits for that. Each time that it looks, what it finds gets the signal.
func (t *Tree) wait(grace time.Duration, sig syscall.Signal) bool {
	for end := time.Now().Add(grace); ; time.Sleep(look) {
		living, err := t.Living()
		switch {
		case err == nil && len(living) == 0:
			return true
		case sig == 0:
		case err != nil:
			t.blind(sig)
		default:
			t.Signal(living, sig)
		}
		if !time.Now().Before(end) {
			return false
		}
	}
}

// finishGently ends the groups as Ctrl-C would: one SIGINT, guardGrace, then KILL. Only the groups: who left them was let go, and what
// test processes of m3 have started is ended by those, or by their reapers.
func (t *Tree) finishGently() {
	for pgid := range t.Groups {
		if living, err := t.members(); err != nil || slices.ContainsFunc(living, func(p Proc) bool { return p.Group == pgid }) {
			syscall.Kill(-pgid, syscall.SIGINT)
		}
	}
	for end := time.Now().Add(guardGrace + killGrace); time.Now().Before(end); time.Sleep(look) {
		living, err := t.members()
		switch {
		case err == nil && len(living) == 0:
			return
		case time.Until(end) > killGrace:
		case err != nil:
			t.blind(syscall.SIGKILL)
		default:
			t.Signal(living, syscall.SIGKILL)
		}
	}
}

// blind signals the groups unseen, where there is no process table to look at.
func (t *Tree) blind(sig syscall.Signal) {
	for group := range t.Groups {
		syscall.Kill(-group, sig)
	}
}

// Note is one line that a test process writes to its reaper.
type Note struct {
	Verb  string // mark, group, guard, forget
	Mark  string // mark: the id of the test process's marks
	Group int    // group, guard, forget: a process group
	Start uint64 // mark: the Start of the test process; group, guard: that of the group's leader; 0 when not known
}

// The verbs of a [Note].
const (
	NoteMark   = "mark"
	NoteGroup  = "group"
	NoteGuard  = "guard" // a group that is ended gently: SIGINT, 7 s, KILL
	NoteForget = "forget"
)

// String returns the note as its line, newline included.
func (n Note) String() string {
	switch n.Verb {
	case NoteMark:
		return fmt.Sprintf("%s %s %d\n", n.Verb, n.Mark, n.Start)
	case NoteGroup, NoteGuard:
		return fmt.Sprintf("%s %d %d\n", n.Verb, n.Group, n.Start)
	default:
		return fmt.Sprintf("%s %d\n", n.Verb, n.Group)
	}
}

// ParseNote reads one line. It refuses the group numbers 0 and 1 and negative ones, which kill(2) takes for something else.
func ParseNote(line string) (Note, error) {
	f := strings.Fields(line)
	var n Note
	var ok bool
	if len(f) > 0 {
		n.Verb = f[0]
	}
	switch {
	case n.Verb == NoteMark && len(f) == 3:
		n.Mark = f[1]
		ok = number(f[2], &n.Start)
	case (n.Verb == NoteGroup || n.Verb == NoteGuard) && len(f) == 3:
		ok = group(f[1], &n.Group) && number(f[2], &n.Start)
	case n.Verb == NoteForget && len(f) == 2:
		ok = group(f[1], &n.Group)
	}
	if !ok {
		return Note{}, fmt.Errorf("shim: not a note: %q", line)
	}
	return n, nil
}

func number(s string, to *uint64) (ok bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	*to = n
	return err == nil
}

func group(s string, to *int) (ok bool) {
	n, err := strconv.Atoi(s)
	*to = n
	return err == nil && n > 1
}

func (n Note) apply(w *watched) {
	switch n.Verb {
	case NoteMark:
		w.tree.Mark.ID, w.tree.Since = n.Mark, n.Start
	case NoteGroup:
		w.tree.Groups[n.Group] = n.Start
	case NoteGuard:
		w.guarded.Groups[n.Group] = n.Start
	case NoteForget:
		delete(w.tree.Groups, n.Group)
		delete(w.guarded.Groups, n.Group)
	}
}
