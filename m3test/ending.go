package m3test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// endTime is how long the ends of executions may take when somebody outside is waiting: a signal, or go test's own timeout.
const endTime = 5 * time.Second

// stubbornTime is what the end of a server takes that ignores the end of its input and SIGTERM, with time to spare.
const stubbornTime = 2 * time.Second

// grace is how long before the deadline executions are ended: a tenth of the time, at least what a stubborn server needs, unless that
// would be more than a quarter.
func grace(remaining time.Duration) time.Duration {
	return min(endTime, max(remaining/10, min(stubbornTime, remaining/4)))
}

// watchDeadline ends the kit's executions a grace period before go test kills the process, which would leave them without an
// end. The returned function stops watching, and waits for an end that has begun.
func (a *attempt) watchDeadline(k *m3.Kit) (stop func()) {
	d, ok := a.t.(deadliner)
	if !ok {
		return func() {}
	}
	deadline, ok := d.Deadline()
	if !ok {
		return func() {}
	}
	remaining := time.Until(deadline)
	early := grace(remaining)
	done := make(chan struct{})
	timer := time.AfterFunc(remaining-early, func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		// What fails here fails again in the clean-up, which can say so.
		_ = k.Stop(ctx, trace.OutcomeTimedOut, fmt.Sprintf("ended %s before the deadline of go test -timeout", early.Round(time.Millisecond)))
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

// signals catches SIGINT and SIGTERM while tests have kits. At other times they do what they always do, so that tests of
// signal handlers are left alone.
type signals struct {
	mu       sync.Mutex
	watchers int
	ch       chan os.Signal
	signal   os.Signal       // the one that was caught
	raise    func(os.Signal) // nil: end this process
}

// watch begins watching for the process's attempts; unwatch ends it.
func (s *signals) watch(p *process) (unwatch func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers++
	if s.watchers == 1 && s.signal == nil {
		s.ch = make(chan os.Signal, 1)
		for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
			if !signal.Ignored(sig) { // a run in the background of a shell ignores SIGINT, and goes on doing so
				signal.Notify(s.ch, sig)
			}
		}
		go s.wait(p, s.ch)
	}
	return s.unwatch
}

func (s *signals) unwatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers--
	if s.watchers == 0 && s.signal == nil {
		signal.Stop(s.ch) // nothing is sent any more
		close(s.ch)
	}
}

func (s *signals) wait(p *process, ch chan os.Signal) {
	sig, ok := <-ch
	if !ok {
		return
	}
	s.mu.Lock()
	s.signal = sig
	s.mu.Unlock()
	// Whoever read our output may be gone as well: then a line of a test must not end the process before everything is kept. Caught, and not
	// ignored, because what is ignored is inherited.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	p.interrupt(sig)
	if s.raise != nil {
		s.raise(sig)
		return
	}
	signal.Reset(sig)
	_ = syscall.Kill(os.Getpid(), sig.(syscall.Signal)) // to oneself it is always allowed
}

// caught reports whether the run has been interrupted.
func (s *signals) caught() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal != nil
}

func (p *process) interrupted() bool { return p.signals.caught() }

// interrupt cancels every kit and finalizes what there is, within endTime.
func (p *process) interrupt(sig os.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	p.mu.Lock()
	var kits []*m3.Kit
	for _, a := range p.attempts {
		a.mu.Lock()
		kits = append(kits, a.kits...)
		a.mu.Unlock()
	}
	rec := p.rec
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, k := range kits {
		wg.Go(func() {
			_ = k.Stop(ctx, trace.OutcomeCancelled, "the run was interrupted by "+signalName(sig)) // there is nobody left to tell
		})
	}
	wg.Wait()
	if rec != nil {
		p.recordFailed()
		_ = rec.Close()
	}
}

// noticeTime is how long tests may take to notice that their calls were cancelled, before what they are is recorded.
const noticeTime = 200 * time.Millisecond

// recordFailed records the tests that have failed and will not come to their end. The others are left open: they read interrupted.
func (p *process) recordFailed() {
	for end := time.Now().Add(noticeTime); ; time.Sleep(5 * time.Millisecond) {
		running := p.running()
		if undecided := slices.ContainsFunc(running, func(a *attempt) bool { return !a.t.Failed() }); undecided && time.Now().Before(end) {
			continue
		}
		for _, a := range running {
			if a.t.Failed() {
				_ = a.recordEnd() // there is nobody left to tell
			}
		}
		return
	}
}

// running are the attempts that have not ended.
func (p *process) running() []*attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.attempts))
}

func signalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	default:
		return sig.String()
	}
}
