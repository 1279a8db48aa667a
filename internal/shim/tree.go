package shim

import (
	"os"
	"slices"
	"syscall"
)

// Tree is everything that one process, or one test process, may have left running: process groups, whoever carries the
// mark, the descendants of those, and all that was ever seen to belong to it. It is not safe for concurrent use.
type Tree struct {
	Mark Mark
	// Since is the Start of the oldest process that can belong to the tree; older ones are not looked at.
	Since uint64
	// From says that the tree has no pid below it, as far as that can be known: pids are given in turn, so it is true until
	// they have been used up once. It makes the look cheap where the system has many processes. 0 looks at all.
	From int
	// Groups holds process groups by their id, with the Start of their leader (0: not known).
	Groups map[int]uint64
	// Others says of a process group that somebody else ends it: what is in it is not looked at. Nil: none is. It must not name a group of this tree.
	Others func(group int) bool

	kin map[int]uint64 // pid and Start of everything that was seen: it stays in the tree when it loses parent, group and mark
}

// Living reads the process table and returns what lives of the tree, in no particular order. Reapers are not part of it:
// they have work to do, and end by themselves.
func (t *Tree) Living() ([]Proc, error) {
	all, err := table(t.From, t.Others)
	if err != nil {
		return nil, err
	}
	var mine, rest []Proc
	leaders, buf := t.leaders(all), make([]byte, 8<<10)
	for _, p := range all {
		switch {
		case p.Start < t.Since || p.PID == os.Getpid():
		case t.isKin(p) || t.inGroup(p, leaders) || t.Mark.in(environ(p, buf), envSeparator):
			mine = append(mine, p)
		default:
			rest = append(rest, p)
		}
	}
	mine = append(mine, descendants(mine, rest)...)
	t.remember(mine)
	return mine, nil
}

// Members returns the living processes of a process group.
func Members(pgid int) ([]Proc, error) {
	t := Tree{Groups: map[int]uint64{pgid: 0}}
	return t.members()
}

// members returns what lives in the groups, and nothing else of the tree.
func (t *Tree) members() ([]Proc, error) {
	all, err := table(0, nil)
	if err != nil {
		return nil, err
	}
	leaders := t.leaders(all)
	return slices.DeleteFunc(all, func(p Proc) bool { return !t.inGroup(p, leaders) }), nil
}

// leaders returns the Start of the leader of each group that has one.
func (t *Tree) leaders(all []Proc) map[int]uint64 {
	found := make(map[int]uint64, len(t.Groups))
	for _, p := range all {
		if _, ok := t.Groups[p.PID]; ok {
			found[p.PID] = p.Start
		}
	}
	return found
}

// inGroup reports whether the process is in one of the groups. A group whose leader is not the one we knew is another
// group: ours ended, and its number was used again.
func (t *Tree) inGroup(p Proc, leaders map[int]uint64) bool {
	start, ok := t.Groups[p.Group]
	if !ok || p.Start < start {
		return false
	}
	leader, ok := leaders[p.Group]
	return !ok || start == 0 || leader == start
}

func (t *Tree) isKin(p Proc) bool {
	start, ok := t.kin[p.PID]
	return ok && start == p.Start
}

func (t *Tree) remember(procs []Proc) {
	if t.kin == nil {
		t.kin = make(map[int]uint64, len(procs))
	}
	for _, p := range procs {
		t.kin[p.PID] = p.Start
	}
}

// descendants returns those of rest whose line of parents leads to one of roots.
func descendants(roots, rest []Proc) []Proc {
	if len(roots) == 0 || len(rest) == 0 {
		return nil
	}
	children := make(map[int][]Proc)
	for _, p := range rest {
		children[p.Parent] = append(children[p.Parent], p)
	}
	queue, buf := slices.Clone(roots), make([]byte, 8<<10)
	for i := 0; i < len(queue); i++ {
		for _, p := range children[queue[i].PID] {
			if role, _ := lookup(environ(p, buf), envSeparator, RoleEnv); string(role) != RoleReaper {
				queue = append(queue, p)
			}
		}
	}
	return queue[len(roots):]
}

// Signal sends a signal to the processes, which Living just returned: to a whole group of the tree at once, so that a
// process that forks meanwhile does not get away, and to each of the others.
func (t *Tree) Signal(procs []Proc, sig syscall.Signal) {
	groups := make(map[int]bool)
	for _, p := range procs {
		if _, ok := t.Groups[p.Group]; !ok {
			p.Signal(sig) // what could not be ended is still there at the next look, and reported then
		} else if !groups[p.Group] {
			groups[p.Group] = true
			syscall.Kill(-p.Group, sig)
		}
	}
}
