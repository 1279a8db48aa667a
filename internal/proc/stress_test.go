package proc_test

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/proc/proctest"
)

// TestStress starts and ends 200 processes, a quarter of which somebody kills, and leaves nothing: no process, descriptor
// or goroutine. It does not run in parallel because it counts those of the whole test process.
func TestStress(t *testing.T) {
	tag := newTag()
	first := startReady(t, kind(t, proctest.Plain, tag)) // starts the reaper, which stays
	first.End(nil)
	first.Stdout().Close()
	before := count(t)

	var wg sync.WaitGroup
	jobs := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range jobs {
				stress(t, i, tag)
			}
		})
	}
	for i := range 200 {
		jobs <- i
	}
	close(jobs)
	wg.Wait()

	if left := proctest.Left(tag); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	after := count(t)
	for end := time.Now().Add(5 * time.Second); after != before && time.Now().Before(end); after = count(t) {
		time.Sleep(10 * time.Millisecond) // a goroutine takes a moment to be gone after its last statement
	}
	if after != before {
		buf := make([]byte, 1<<16)
		t.Errorf("%+v before, %+v after\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

func stress(t *testing.T, i int, tag string) {
	s := kind(t, proctest.Plain, tag)
	if i%10 == 9 {
		s = kind(t, proctest.Setsid, tag)
	}
	p, err := proc.Start(t.Context(), s)
	if err != nil {
		t.Error(err)
		return
	}
	defer p.Stdout().Close()
	if _, err := p.Stdout().Read(make([]byte, 64)); err != nil {
		t.Errorf("no first line: %v", err)
	}
	want := proc.StepEOF
	if i%4 == 3 {
		want = proc.StepExited
		syscall.Kill(p.PID(), syscall.SIGKILL)
		<-p.Exited()
	}
	if e := p.End(patient); e.Step != want || (len(e.Survivors) == 1) != (i%10 == 9) {
		t.Errorf("process %d: End() = %+v, want %s", i, e, want)
	}
}

// counts is what must be equal before and after.
type counts struct{ descriptors, goroutines int }

func count(t *testing.T) counts {
	t.Helper()
	fds, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return counts{len(fds), runtime.NumGoroutine()}
}

// BenchmarkProcess starts and ends a process that does nothing.
func BenchmarkProcess(b *testing.B) {
	for b.Loop() {
		p, err := proc.Start(b.Context(), &proc.Spec{Path: "cat"})
		if err != nil {
			b.Fatal(err)
		}
		p.End(nil)
		p.Stdout().Close()
	}
}
