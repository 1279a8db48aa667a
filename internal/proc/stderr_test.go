package proc_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/proc"
)

// TestStderrLines has every kind of line end.
func TestStderrLines(t *testing.T) {
	t.Parallel()
	type piece struct {
		Text string
		End  proc.LineEnd
	}
	var got []piece
	p := sh(t, `printf 'one\n\ntwo\r\n' >&2; head -c 70000 /dev/zero | tr '\0' x >&2; printf '\nlast' >&2`,
		func(b []byte, end proc.LineEnd) { got = append(got, piece{string(b), end}) })
	waitExited(t, p)
	want := []piece{
		{"one\n", proc.LineComplete}, {"\n", proc.LineComplete}, {"two\r\n", proc.LineComplete},
		{strings.Repeat("x", 64<<10), proc.LineContinued},
		{strings.Repeat("x", 70000-64<<10) + "\n", proc.LineComplete},
		{"last", proc.LineCut},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if tail := p.StderrTail(); tail != "last" {
		t.Errorf("tail of %d bytes; it must not start in the middle of a line", len(tail))
	}
}

// TestStderrFlood writes more than any pipe holds before it does anything else.
func TestStderrFlood(t *testing.T) {
	t.Parallel()
	var n int
	p := sh(t, "head -c 8000000 /dev/zero | tr '\\0' y | fold -w 99 >&2; exec cat", func(b []byte, _ proc.LineEnd) { n += len(b) })
	p.Stdin().WriteString("hello")
	b := make([]byte, 5)
	p.Stdout().SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := p.Stdout().Read(b); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	p.End(nil)
	if want := 8000000 + (8000000+98)/99 - 1; n < want-1 || n > want+1 {
		t.Errorf("%d bytes handed over, want %d", n, want)
	}
	if tail := p.StderrTail(); len(tail) > 64<<10 || len(tail) < 63<<10 || !strings.HasPrefix(tail, strings.Repeat("y", 99)+"\n") {
		t.Errorf("tail of %d bytes starts with %.110q", len(tail), tail)
	}
}

// TestStderrBlocked has a callback that does not return. End does.
func TestStderrBlocked(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(block) }) }
	t.Cleanup(release)
	p := sh(t, "echo x >&2", func([]byte, proc.LineEnd) { <-block })
	done := make(chan proc.Ended, 1)
	go func() { done <- p.End(nil) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		release()
		t.Error("End waits for a callback that does not return")
	}
}

// TestStderrSlow has a callback that takes longer than stderr is waited for. What the process wrote is handed over all the
// same, before it counts as exited and before End is done.
func TestStderrSlow(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(*proc.Process){
		"exited": func(p *proc.Process) { <-p.Exited() },
		"end": func(p *proc.Process) {
			if e := p.End(patient); e.Held {
				t.Errorf("End() = %+v, but nobody holds stderr", e)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n int
			release := make(chan struct{})
			time.AfterFunc(400*time.Millisecond, func() { close(release) }) // after the 100 ms, before the callback is given up
			p := sh(t, "head -c 30000 /dev/zero | tr '\\0' z | fold -w 99 >&2", func(b []byte, _ proc.LineEnd) {
				<-release
				n += len(b)
			})
			wait(p)
			if n < 30000 {
				t.Errorf("%d bytes handed over, want 30000 and more", n)
			}
		})
	}
}
