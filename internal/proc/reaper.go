package proc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/shim"
)

// keeper is the one reaper of this process: the end of the process is one event, whatever in it started something.
var keeper reaper

const (
	reaperReady = 10 * time.Second // for the executable to come up as the reaper
	reaperWrite = 2 * time.Second  // for the reaper to take a note
	reaperTries = 3                // how often it is started again when somebody killed it
)

// reaper is this process's side of the reaper. The zero value has not been started.
type reaper struct {
	mu     sync.Mutex
	id     string            // of the marks; set with the first start
	n      int               // marks given
	self   uint64            // when this process began
	groups map[int]shim.Note // what the reaper was told and has not been told to forget
	starts int
	exe    string // the executable; empty means this one

	// These are nil while there is no reaper.
	proc  *os.Process
	notes *os.File
	ready *os.File // nil also once it is up
}

// open makes sure that the reaper was started and returns the next mark.
func (r *reaper) open() (shim.Mark, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		if err := r.start(); err != nil {
			return shim.Mark{}, err
		}
	}
	r.n++
	return shim.Mark{ID: r.id, N: r.n}, nil
}

// watch hands a process group to the reaper. The first call also waits until the reaper is up: it started along with the
// process, so that costs next to nothing.
func (r *reaper) watch(ctx context.Context, group int, start uint64) error {
	return r.tell(ctx, shim.Note{Verb: shim.NoteGroup, Group: group, Start: start})
}

func (r *reaper) tell(ctx context.Context, n shim.Note) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[n.Group] = n
	if err := r.note(n); err != nil {
		return err
	}
	return r.await(ctx)
}

// watches reports whether a process group is one that this process has started and will end, or the reaper after it.
func (r *reaper) watches(group int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.groups[group]
	return ok
}

// forget tells the reaper that nothing of the group is left, before its number can belong to somebody else.
func (r *reaper) forget(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, group)
	r.note(shim.Note{Verb: shim.NoteForget, Group: group}) // an error comes up again at the next start, which can report it
}

// note writes to the reaper. When it is gone, somebody having killed it, a new one learns everything.
func (r *reaper) note(n shim.Note) error {
	if r.write(n) == nil {
		return nil
	}
	err := r.bury()
	if r.starts > reaperTries {
		return because(err, "m3's reaper, which ends what a test leaves behind, ends again and again (%v); "+
			"if something on this system kills it, let it run", err)
	}
	return r.start()
}

func (r *reaper) write(n shim.Note) error {
	if r.notes == nil {
		return os.ErrClosed
	}
	r.notes.SetWriteDeadline(time.Now().Add(reaperWrite))
	_, err := io.WriteString(r.notes, n.String())
	return err
}

// start starts the reaper and tells it what there is.
func (r *reaper) start() error {
	if r.id == "" {
		r.identify()
		keepDescriptors()
	}
	r.starts++
	if err := r.spawn(); err != nil {
		r.bury()
		return because(err, "m3's reaper, this executable started again, cannot be started: %v", err)
	}
	err := r.write(shim.Note{Verb: shim.NoteMark, Mark: r.id, Start: r.self})
	for _, n := range r.groups {
		err = errors.Join(err, r.write(n))
	}
	if err != nil {
		return because(err, "m3's reaper, this executable started again, ended at once (%v)", r.bury())
	}
	return nil
}

func (r *reaper) identify() {
	var id [8]byte
	rand.Read(id[:]) // never fails
	r.id = hex.EncodeToString(id[:])
	r.groups = make(map[int]shim.Note)
	if me, ok := shim.Find(os.Getpid()); ok {
		r.self = me.Start
	}
}

// keepDescriptors keeps what this process inherited beyond stderr, such as the 3 of "go test 3>&1 | tee log", from every
// process that it starts from now on: somebody waits for the end of that too. Files that Go opens are never passed on, and
// those that a Go program passes on by exec.Cmd.ExtraFiles still are.
func keepDescriptors() {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // a system without it keeps what it has; the three standard ones are never passed on
	}
	for _, e := range names {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// spawn starts this executable again: in a session of its own, out of reach of Ctrl-C and of signals to our group, in a
// directory that nobody wants to remove, and without a descriptor of ours. It keeps our environment, so that the init
// functions that run before the hook do what they did here.
func (r *reaper) spawn() error {
	exe, err := r.executable()
	if err != nil {
		return err
	}
	var f [4]*os.File // notes: reading, writing end; ready: reading, writing end
	defer func() { closeAll(f[0], f[3]) }()
	for i := 0; i < len(f); i += 2 {
		if f[i], f[i+1], err = os.Pipe(); err != nil {
			closeAll(f[1], f[2])
			return explainLimit(err)
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		closeAll(f[1], f[2])
		return explainLimit(err)
	}
	defer null.Close()
	r.notes, r.ready = f[1], f[2]
	r.proc, err = fork(context.Background(), exe, []string{"m3-reaper"}, &os.ProcAttr{
		Dir:   "/",
		Env:   append(without(os.Environ(), shim.MarkEnv, coverDir), shim.RoleEnv+"="+shim.RoleReaper),
		Files: []*os.File{f[0], null, null, f[3]},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

// await waits until the reaper said that it is up.
func (r *reaper) await(ctx context.Context) error {
	if r.ready == nil {
		return nil
	}
	deadline := time.Now().Add(reaperReady)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	r.ready.SetReadDeadline(deadline)
	b, err := io.ReadAll(io.LimitReader(r.ready, int64(len(shim.Ready))))
	if string(b) == shim.Ready {
		r.ready.Close()
		r.ready = nil
		return nil
	}
	if err != nil { // it hangs
		r.proc.Kill()
	}
	how := r.bury()
	return because(how, "m3's reaper, this executable started again with %s=%s, did not come up (%v): "+
		"does an init function of some package end or block the process?", shim.RoleEnv, shim.RoleReaper, how)
}

// bury closes what belongs to a reaper that is gone, or is to go, and returns how it ended.
func (r *reaper) bury() error {
	p, pipes := r.proc, []*os.File{r.notes, r.ready}
	r.proc, r.notes, r.ready = nil, nil, nil
	defer closeAll(pipes...)
	if p == nil {
		return errors.New("it was not running")
	}
	p.Kill() // before its pipe is closed: if it only hung, it must not wake up and end what we go on using
	return fmt.Errorf("%v", exitOf(p.Wait()))
}

// coverDir makes a program that was built with -cover write its counters there when it ends.
const coverDir = "GOCOVERDIR"

// executable returns the path of the running program. On Linux it is good even when the file was removed or replaced, as
// go test does once the test binary has ended.
func (r *reaper) executable() (string, error) {
	if r.exe != "" {
		return r.exe, nil
	}
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe", nil
		}
	}
	return os.Executable()
}

// without returns env without some variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}
