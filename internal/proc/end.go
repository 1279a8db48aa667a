package proc

import (
	"cmp"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/shim"
)

// Ladder says how long each step of the end may take before the next one is needed. A zero field is its default.
type Ladder struct {
	EOF  time.Duration // after stdin was closed; 0: 0.5 s
	Term time.Duration // after SIGTERM; 0: 0.5 s
	Kill time.Duration // after SIGKILL, before a process that cannot be killed is given up; 0: 2 s
}

// The steps of the end, gentlest first.
const (
	StepExited  = "exited"  // it had ended by itself before
	StepEOF     = "eof"     // the end of its stdin was enough
	StepSigterm = "sigterm" // SIGTERM was needed
	StepSigkill = "sigkill" // SIGKILL was needed
)

// Ended says how a process was ended.
type Ended struct {
	// Step is the last step that was needed until nothing of its process group lived.
	Step string
	// Own is the step that the process itself needed. It is a gentler one than Step when something that it left in its group
	// had to be ended after it: the process did what it should, and Survivors has the others. It is empty when it could not
	// be killed.
	Own string
	// Exit is how the process itself ended.
	Exit Exit
	// Survivors are the processes of its tree that lived on without it and had to be killed: those it left in its group,
	// and those that had moved to another session. When it itself could not be killed, it is among them.
	Survivors []int
	// Held says that somebody who could not be found still holds stderr open: a descendant without our mark, which may go on
	// running. On Linux that is one of another user, elsewhere any that got away. It is not waited for.
	Held bool
	// Unswept says why it could not be checked whether anything survived outside the group; nil when it was.
	Unswept error
}

const (
	escapeGrace = 100 * time.Millisecond // for descendants elsewhere that are about to end by themselves
	sweepLimit  = time.Second            // for them to be gone after SIGKILL
	lap         = 10 * time.Second       // no system gives all its pids in less
	look        = 10 * time.Millisecond
	stdoutGrace = time.Second // for the reader of stdout to reach its end
)

// End ends the process, its group and what carries its mark: it closes stdin, then sends SIGTERM, then SIGKILL, waits a
// little after each, and goes on as soon as nothing is left. A nil ladder has the defaults. It may be called again and from
// several goroutines: the first call does the work, all return the same. A process that nobody can kill is given up, so
// End always returns, within about 4 s by default.
func (p *Process) End(l *Ladder) Ended {
	p.end.Do(func() {
		e := ending{p: p, tree: shim.Tree{Mark: p.mark, Since: p.start, Groups: map[int]uint64{p.PID(): p.start}}}
		e.tree.Others = func(group int) bool { return group != p.PID() && keeper.watches(group) }
		if time.Since(p.began) < lap {
			e.tree.From = p.PID()
		}
		p.ended = e.run(l.defaults())
	})
	return p.ended
}

func (l *Ladder) defaults() Ladder {
	d := Ladder{EOF: 500 * time.Millisecond, Term: 500 * time.Millisecond, Kill: 2 * time.Second}
	if l == nil {
		return d
	}
	for _, f := range [][2]*time.Duration{{&d.EOF, &l.EOF}, {&d.Term, &l.Term}, {&d.Kill, &l.Kill}} {
		if *f[1] != 0 {
			*f[0] = *f[1]
		}
	}
	return d
}

// ending is the work of one End.
type ending struct {
	p    *Process
	tree shim.Tree
	out  Ended
}

func (e *ending) run(l Ladder) Ended {
	p := e.p
	e.climb(l)
	if e.sweep() {
		keeper.forget(p.PID())
	}
	if exit, ok := p.Exit(); ok {
		e.out.Exit = exit
	} else {
		e.out.Exit = Exit{Code: -1}
	}
	if !within(drainGrace, p.drained) {
		e.evict()
		p.stderr.giveUp()
		within(callbackGrace, p.drained)
		e.out.Held = p.stderr.held.Load()
	}
	p.stderr.file.Close()
	if _, ok := p.Exit(); ok {
		<-p.exited
	}
	time.AfterFunc(stdoutGrace, func() { p.stdout.Close() })
	slices.Sort(e.out.Survivors)
	return e.out
}

// climb goes up the ladder until nothing of the group lives.
func (e *ending) climb(l Ladder) {
	e.out.Step = StepEOF
	if _, ok := e.p.Exit(); ok {
		e.out.Step, e.out.Own = StepExited, StepExited
	} else {
		e.tree.Living() // learns who belongs to it while the lines of parents are whole; sweep reports what is wrong
	}
	e.p.stdin.Close()
	if e.gone(l.EOF) {
		return
	}
	e.signal(StepSigterm, syscall.SIGTERM)
	if e.gone(l.Term) {
		return
	}
	e.signal(StepSigkill, syscall.SIGKILL)
	e.gone(l.Kill)
}

// signal sends the signal of a step to the group. Whoever is in it without its leader outlived that.
func (e *ending) signal(step string, sig syscall.Signal) {
	if _, ok := e.p.Exit(); ok {
		left := e.group()
		if len(left) == 0 {
			return // it ended this moment, and from now on the number can be somebody else's
		}
		for _, m := range left {
			e.survived(m.PID)
		}
	}
	e.out.Step = step
	syscall.Kill(-e.p.PID(), sig)
}

// gone waits until the process has been reaped and its group is empty.
func (e *ending) gone(d time.Duration) bool {
	deadline := time.Now().Add(d)
	if !within(d, e.p.reaped) {
		return false
	}
	e.out.Own = cmp.Or(e.out.Own, e.out.Step)
	for !e.empty() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(look)
	}
	return true
}

// empty reports whether nothing of the group lives. Only where the system still knows the group the table has to be read:
// zombies that nobody reaps stay in it.
func (e *ending) empty() bool {
	err := syscall.Kill(-e.p.PID(), 0)
	return err == syscall.ESRCH || len(e.group()) == 0
}

// group returns the living members of the process group. Where there is no table, the group itself stands for them.
func (e *ending) group() []shim.Proc {
	living, err := e.tree.Living()
	if err != nil {
		return []shim.Proc{{PID: e.p.PID(), Group: e.p.PID()}}
	}
	return slices.DeleteFunc(living, func(m shim.Proc) bool { return m.Group != e.p.PID() })
}

// sweep kills what lives of the tree after the climb, wherever it is, and reports whether it is gone.
func (e *ending) sweep() bool {
	grace := time.Now().Add(escapeGrace)
	limit := grace.Add(sweepLimit)
	for ; ; time.Sleep(look) {
		living, err := e.tree.Living()
		now := time.Now()
		switch {
		case err != nil:
			e.out.Unswept = err
			return false
		case len(living) == 0:
			return true
		case now.Before(grace):
			continue
		}
		for _, m := range living {
			e.survived(m.PID)
		}
		if now.After(limit) {
			return false
		}
		e.tree.Signal(living, syscall.SIGKILL)
	}
}

// evict kills who holds the pipes although nothing connects it with us any more: it left the group, its parents and its
// environment.
func (e *ending) evict() {
	holders := append(shim.Writers(e.p.stderr.file), shim.Writers(e.p.stdout)...)
	for _, h := range holders {
		e.survived(h.PID)
		h.Signal(syscall.SIGKILL)
	}
	within(drainGrace, e.p.drained)
}

func (e *ending) survived(pid int) {
	if !slices.Contains(e.out.Survivors, pid) {
		e.out.Survivors = append(e.out.Survivors, pid)
	}
}

// closeAll closes the files that are there.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
