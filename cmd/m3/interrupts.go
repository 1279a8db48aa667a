package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/m3-go/m3/internal/gotest"
)

// interrupts is what becomes of the signals that m3 test gets, from its first moment to its last. Whatever it is doing, the first one ends it in order:
// what is there is stored, and the exit code is the signal's.
//
//	before the tests   nothing more is begun
//	the tests run      go test gets it (see gotest.Process.Wait), and so does every later one
//	afterwards         what is being stored is stored; a second one ends that
//
// One more than that ends m3 at once.
type interrupts struct {
	in     chan os.Signal
	tests  chan os.Signal // go test's
	done   chan struct{}  // closed by stop
	notify func(sig os.Signal, at stage)

	mu     sync.Mutex
	at     stage
	first  os.Signal
	n      int                // signals in this stage
	cancel context.CancelFunc // ends what the stage does
}

// stage is how far m3 test has come.
type stage int

// The stages.
const (
	preparing stage = iota
	running
	storing
)

// catchSignals begins with the stage preparing; the context is that of the stage.
func catchSignals(ctx context.Context, notify func(os.Signal, stage)) (*interrupts, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	i := &interrupts{in: make(chan os.Signal, 4), tests: make(chan os.Signal, 4), done: make(chan struct{}), notify: notify, cancel: cancel}
	signal.Notify(i.in, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go i.run()
	return i, ctx
}

// stop lets signals do again what they always do.
func (i *interrupts) stop() {
	signal.Stop(i.in)
	close(i.done)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cancel()
}

func (i *interrupts) run() {
	for {
		select {
		case <-i.done:
			return
		case sig := <-i.in:
			i.take(sig)
		}
	}
}

func (i *interrupts) take(sig os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n++
	news := i.first == nil
	if news {
		i.first = sig
	}
	if news && i.notify != nil {
		i.notify(sig, i.at)
	}
	switch {
	case i.at == running:
		select {
		case i.tests <- sig:
		default: // four are on their way already
		}
	case i.at == preparing && i.n == 1, i.at == storing && !news && i.n <= 2:
		i.cancel()
	case !news:
		os.Exit(signalCode(i.first))
	}
}

// enter goes on to a stage. It is refused, and everything stays as it is, when a signal has come before the tests were begun.
func (i *interrupts) enter(s stage, cancel context.CancelFunc) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s == running && i.first != nil {
		return false
	}
	i.at, i.n = s, 0
	if cancel != nil {
		i.cancel = cancel
	}
	return true
}

// signal is the first one; nil when there was none.
func (i *interrupts) signal() os.Signal {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.first
}

// exit is the end of m3 test: a signal decides over everything else.
func (i *interrupts) exit(err error) error {
	sig := i.signal()
	if sig == nil {
		return err
	}
	return &exitError{signalCode(sig)}
}

// signalCode is the exit code of a program that a signal ended.
func signalCode(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return exitInterrupted
}

// stopping says what a signal does.
func stopping(sig os.Signal, at stage) string {
	name := gotest.SignalName(sig)
	switch at {
	case preparing:
		return "m3: stopped by " + name + " before the tests were started"
	case running:
		return "m3: stopping after " + name + ": the tests have a few seconds to store what they saw (again to kill them)"
	default:
		return "m3: " + name + ": the tests have ended; what they left is being stored (again to stop that)"
	}
}
