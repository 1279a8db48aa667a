package shim

import (
	"os"
	"syscall"
)

// Proc is one living process as the system's table showed it. Zombies are not living.
type Proc struct {
	PID, Parent, Group int
	// Start is when the process began, in a unit of the table's own (0: not known). It grows with time, so PID and Start
	// together name one process for good, although pids are used again.
	Start uint64

	text []byte // the environment where the table shows it along with the process, else nil
}

// Find returns the living process with the pid.
func Find(pid int) (Proc, bool) { return find(pid) }

// Writers returns the living processes that hold the other end of a pipe of which we have the reading end, whatever they did
// to get away. It looks at the descriptors of every process of the same user, so it is for the rare case that somebody who
// should be gone holds one. Where the system does not show descriptors there are none.
func Writers(pipe *os.File) []Proc { return writers(pipe) }

// Signal sends a signal to exactly this process. Where the system has process handles (Linux), another process that got
// the same pid in the meantime is never hit; elsewhere the pid is trusted, so call it right after the table was read.
func (p Proc) Signal(sig syscall.Signal) error {
	h, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer h.Release()
	if !same(p) {
		return os.ErrProcessDone
	}
	return h.Signal(sig)
}

// same reports whether the pid still belongs to the process. The handle must be open already.
func same(p Proc) bool {
	if !cheapFind || p.Start == 0 {
		return true
	}
	now, ok := find(p.PID)
	return ok && now.Start == p.Start
}
