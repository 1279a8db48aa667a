package proctest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Ending is a way for a test process to end while it has a server.
type Ending string

// The endings.
const (
	Close   Ending = "close"   // the test ends its server and passes
	Fail    Ending = "fail"    // the test fails; its cleanup ends the server
	Panic   Ending = "panic"   // a panic in a goroutine: no cleanup runs
	OSExit  Ending = "exit"    // os.Exit in the test
	Timeout Ending = "timeout" // -timeout
	Kill    Ending = "sigkill" // SIGKILL from outside
	Int     Ending = "sigint"  // SIGINT from outside

	KillGroup Ending = "sigkill-group" // SIGKILL from outside to the whole process group of the test process
)

// Kinds returns the kinds of the table: those of which nothing may be left, however the test process ends.
func Kinds() []Kind { return []Kind{Plain, Stubborn, Background, Setsid, Holder, Hidden} }

// Endings returns all endings.
func Endings() []Ending { return []Ending{Close, Fail, Panic, OSExit, Timeout, Kill, Int, KillGroup} }

// Cell is one server kind and one ending of the test process that started it.
type Cell struct {
	Kind   Kind
	Ending Ending
	Tag    string // unique: by it everything that the cell started is found
}

// NoRaceSleep in its environment keeps a program that was built with the race detector from waiting for a second before
// it exits, for which no server has the time.
const NoRaceSleep = "GORACE=atexit_sleep_ms=0"

// cellEnv tells a test process which cell it is.
const cellEnv = "M3_PROCTEST_CELL"

// started is the first part of the line that tells the outer test that the server is there, and our pid.
const started = "proctest: started "

// Environ returns what a test process must have in its environment to be the cell, added to env.
func (c Cell) Environ(env []string) []string {
	return append(env, NoRaceSleep, cellEnv+"="+string(c.Kind)+"/"+string(c.Ending)+"/"+c.Tag)
}

// Current returns the cell that this test process is.
func Current() (Cell, bool) {
	f := strings.Split(os.Getenv(cellEnv), "/")
	if len(f) != 3 {
		return Cell{}, false
	}
	return Cell{Kind: Kind(f[0]), Ending: Ending(f[1]), Tag: f[2]}, true
}

// Happen makes the ending happen to this test process, which has started its server. end ends the server properly.
func (c Cell) Happen(t *testing.T, end func()) {
	fmt.Printf("%s%d\n", started, os.Getpid())
	switch c.Ending {
	case Close:
		end()
	case Fail:
		t.Cleanup(end)
		t.Fatal("the test fails, as the cell wants it")
	case Panic:
		go panic("the goroutine panics, as the cell wants it")
		time.Sleep(lifetime)
	case OSExit:
		os.Exit(3)
	default: // the outer test, or -timeout, ends us
		dieOfInterrupt()
		time.Sleep(lifetime)
	}
}

// dieOfInterrupt makes SIGINT deadly where it is ignored, as it is for what a shell runs in the background.
func dieOfInterrupt() {
	if !signal.Ignored(syscall.SIGINT) {
		return
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT)
	go func() {
		<-c
		os.Exit(130)
	}()
}

// strike sends the signal that the ending wants from outside, if any.
func (e Ending) strike(pid func() int) error {
	switch e {
	case Kill:
		return syscall.Kill(pid(), syscall.SIGKILL)
	case Int:
		return syscall.Kill(pid(), syscall.SIGINT)
	case KillGroup:
		group, err := syscall.Getpgid(pid())
		if err == nil && group == syscall.Getpgrp() {
			return errors.New("the test process is in our group; give its command one of its own")
		}
		return errors.Join(err, syscall.Kill(-group, syscall.SIGKILL))
	}
	return nil
}

// Passes reports whether a test process that ends so has passed.
func (e Ending) Passes() bool { return e == Close }
