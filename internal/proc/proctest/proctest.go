// Package proctest has servers that do not end as they should, and the ways in which a test process itself ends. Tests put
// them together: each cell of the table is one server kind, started in a real test process, and one [Ending] of that.
//
//	outer test ──► test process (a test binary, or go test) ──► server kind ──► what it leaves behind
//	     │               └─ Current, Cell.Happen                    └─ Main, Serve
//	     └─ Run: did its output end, and is everything gone 3 s later?
//
// It is for tests of m3 only. It does not import internal/proc: the same cells run on it and on the public API.
package proctest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Kind is a way for a server to live and die.
type Kind string

// The kinds.
const (
	Plain      Kind = "plain"      // ends when its stdin ends
	Stubborn   Kind = "stubborn"   // ignores the end of its stdin, SIGTERM, SIGINT and SIGHUP
	Deaf       Kind = "deaf"       // ignores the end of its stdin only
	Background Kind = "background" // leaves a child in its own process group
	Setsid     Kind = "setsid"     // has a child in a session of its own, which ignores SIGTERM
	Holder     Kind = "holder"     // a double fork in a session of its own, which keeps stdout and stderr open
	Ghost      Kind = "ghost"      // as Holder, without any environment: nothing connects it with us any more
	Hidden     Kind = "hidden"     // as Stubborn, with a child in a session of its own without any environment
)

// verb is the first argument of a process that this package is to play; arguments survive where an environment is cleared.
const verb = "m3-proctest"

// Ready is the first line on a server's stdout, once everything that it leaves behind is running.
const Ready = "proctest: ready"

// lifetime bounds every process here, so that even a failed test leaves nothing for long.
const lifetime = 90 * time.Second

// Command returns the arguments with which an executable that calls Main becomes a server. The tag is found again by Left.
func Command(k Kind, tag string) []string { return []string{verb, string(k), tag} }

// Main plays a server or one of its descendants and does not return, when the arguments say so. TestMain calls it first.
func Main() {
	if len(os.Args) != 4 || os.Args[1] != verb {
		return
	}
	time.AfterFunc(lifetime, func() { os.Exit(99) })
	role, tag := os.Args[2], os.Args[3]
	switch role {
	case "sleeper", "deaf-sleeper":
		sleep(role == "deaf-sleeper")
	case "middle":
		child{tag: tag, role: "sleeper", up: os.NewFile(3, "up"), holds: true}.start()
	default:
		Serve(Kind(role), tag, nil)
	}
	os.Exit(0)
}

// Serve behaves as the kind does: it starts what the kind leaves behind, prints Ready, calls talk, and returns or stays. A
// nil talk reads stdin to its end. A server that speaks MCP passes its own, and does without Ready.
func Serve(k Kind, tag string, talk func()) {
	if k == Stubborn || k == Hidden {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	leave(k, tag)
	if talk == nil {
		fmt.Println(Ready)
		talk = func() { io.Copy(io.Discard, os.Stdin) }
	}
	talk()
	switch k {
	case Stubborn, Hidden, Deaf:
		time.Sleep(lifetime)
	}
}

// leave starts the descendants of the kind and waits until they are up.
func leave(k Kind, tag string) {
	up, w, err := os.Pipe()
	must(err)
	c := child{tag: tag, role: "deaf-sleeper", up: w, apart: true}
	switch k {
	case Background:
		child{tag: tag, role: "sleeper", up: w}.start()
	case Setsid:
		c.start()
	case Holder:
		c.role, c.holds = "middle", true
		must(c.start().Wait())
	case Ghost:
		c.role, c.holds, c.bare = "middle", true, true
		must(c.start().Wait())
	case Hidden:
		c.bare = true
		c.start()
	default:
		w.Close()
		return
	}
	w.Close()
	if _, err := bufio.NewReader(up).ReadString('\n'); err != nil {
		must(fmt.Errorf("the child did not come up: %w", err))
	}
}

// child is this executable once more.
type child struct {
	role, tag string
	up        *os.File // where the last descendant says that it is there
	apart     bool     // in a session of its own
	holds     bool     // keeps our stdout and stderr open
	bare      bool     // without any environment
}

func (c child) start() *exec.Cmd {
	exe, err := os.Executable()
	must(err)
	cmd := exec.Command(exe, verb, c.role, c.tag)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: c.apart}
	cmd.ExtraFiles = []*os.File{c.up}
	if c.holds {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if c.bare {
		cmd.Env = []string{}
	}
	must(cmd.Start())
	return cmd
}

// sleep is the last descendant.
func sleep(deaf bool) {
	if deaf {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	up := os.NewFile(3, "up")
	fmt.Fprintln(up, "up")
	up.Close()
	time.Sleep(lifetime)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "proctest:", err)
		os.Exit(98)
	}
}
