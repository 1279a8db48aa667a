package endtoend

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// moment is one run of m3 test, and when it gets which signal.
type moment struct {
	module string
	sig    syscall.Signal
	after  time.Duration // since its start
	line   string        // else: when its output has this in it, and after has passed since
}

func (m *moment) String() string { return fmt.Sprintf("%v after %v %s", m.sig, m.after, m.line) }

// momentResult is what became of it.
type momentResult struct {
	code   int // as a shell sees it
	sent   bool
	took   time.Duration // from the signal, or from the start, to the end
	said   string
	signal bool // the signal itself ended the process
}

// run runs m3 test in a process group of its own and signals m3 alone, as kill does.
func (m *moment) run(t *testing.T, dir, mark string) momentResult {
	t.Helper()
	temp, home := filepath.Join(dir, "tmp"), filepath.Join(dir, "home")
	for _, d := range []string{temp, home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m3 := built.get(t, "m3", "../..", "build", "./cmd/m3")
	cmd := command(t, m.module, environ(append(goEnvironment(t), markEnv+"="+mark, "TMPDIR="+temp, "HOME="+home)...), m3,
		"test", "--results-db", filepath.Join(dir, "db", "db.sqlite"), "./faults", "--", "-vet=off", "-run=^TestMoments$", "-v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &momentOutput{want: m.line, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	r := momentResult{}
	go func() { defer close(ended); _ = cmd.Wait() }()
	if m.line != "" {
		select {
		case <-out.seen:
		case <-ended:
		}
	}
	select {
	case <-time.After(m.after):
		if m.sig != 0 {
			began = time.Now()
			r.sent = cmd.Process.Signal(m.sig) == nil
		}
		<-ended
	case <-ended:
	}
	r.took, r.said = time.Since(began), out.String()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	r.code = status.ExitStatus()
	if status.Signaled() {
		r.signal, r.code = true, 128+int(status.Signal())
	}
	return r
}

// momentOutput closes seen when what was wanted has been written.
type momentOutput struct {
	all  bytes.Buffer
	want string
	seen chan struct{}
	was  bool
}

// Write is called by one goroutine: stdout and stderr are one writer.
func (o *momentOutput) Write(b []byte) (int, error) {
	o.all.Write(b)
	if !o.was && o.want != "" && strings.Contains(o.all.String(), o.want) {
		o.was = true
		close(o.seen)
	}
	return len(b), nil
}

func (o *momentOutput) String() string { return o.all.String() }

// Whenever m3 test gets SIGINT or SIGTERM, from before it has opened its database until after its last line: its exit code is the signal's, unless it
// had ended by then; no process, spool or temporary file is left; the database can be read; and nothing in it is left running or open.
// M3_LONG=1 makes it a hundred moments.
func TestSignalAtAnyMoment(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("processes are found by their environment, which only Linux shows without cgo; cmd/m3.TestSignals tests the others")
	}
	module := newModule(t, t.TempDir())
	(&moment{module: module, after: time.Hour}).check(t, t.TempDir()) // warms go's caches
	whole := (&moment{module: module, after: time.Hour}).check(t, t.TempDir())
	if whole.code != 0 {
		t.Fatalf("exit code %d without a signal:\n%s", whole.code, whole.said)
	}
	n := 12
	if long() {
		n = 100
	}
	moments := []moment{{after: 0}, {after: time.Millisecond}, {after: 10 * time.Millisecond}, {after: 30 * time.Millisecond},
		{line: "at connect a"}, {line: "at connect a", after: 2 * time.Millisecond}, {line: "at call a"}, {line: "at call a", after: 20 * time.Millisecond},
		{line: "at cleanup a"}, {line: "at cleanup a", after: 30 * time.Millisecond}, {line: "at call b"}, {line: "at cleanup b", after: 40 * time.Millisecond},
		{line: "PASS TestMoments/a"}, {line: "PASS faults"}, {line: "PASS faults", after: 5 * time.Millisecond}, {line: "package  passed"}}
	for i := range n {
		moments = append(moments, moment{after: whole.took * time.Duration(i+1) / time.Duration(n)})
	}
	for i := range moments {
		m := moments[i]
		m.module, m.sig = module, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[i%2]
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			m.check(t, t.TempDir())
		})
	}
}

func (m *moment) check(t *testing.T, dir string) momentResult {
	t.Helper()
	mark := rand.Text()
	r := m.run(t, dir, mark)
	switch {
	case !r.sent && r.code != 0, r.sent && r.code != 128+int(m.sig) && !strings.Contains(r.said, "feedback: "):
		t.Errorf("exit code %d (signal sent: %v):\n%s", r.code, r.sent, r.said)
	case r.took > 20*time.Second:
		t.Errorf("it took %v to end:\n%s", r.took, r.said)
	}
	deadline := time.Now().Add(3 * time.Second)
	left := marked(t, mark)
	for len(left) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		left = marked(t, mark)
	}
	if len(left) > 0 {
		t.Errorf("left 3 s after the end:\n%s\n%s", strings.Join(left, "\n"), r.said)
		kill9(left)
	}
	// The go command itself leaves its own directory when SIGINT finds it building: it does not listen by then (go 1.26, plain go test as well).
	own := filepath.Join(dir, "tmp", "go-build")
	files := slices.DeleteFunc(leftIn(t, filepath.Join(dir, "tmp")), func(f string) bool { return r.sent && strings.HasPrefix(f, own) })
	if len(files) > 0 {
		t.Errorf("left in TMPDIR: %q\n%s", files, r.said)
	}
	m.hold(t, dir, &r)
	return r
}

// hold holds what is in the database. Before the database was made there is none.
func (m *moment) hold(t *testing.T, dir string, r *momentResult) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "db")); err != nil {
		return
	}
	db := openDB(t, filepath.Join(dir, "db", "db.sqlite"))
	runs, err := db.Runs(t.Context())
	if err != nil || len(runs) > 1 {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	for _, f := range leftIn(t, filepath.Join(dir, "db")) {
		if !slices.Contains([]string{"db.sqlite", "db.sqlite-wal", "db.sqlite-shm", "db.sqlite.ingest.lock"}, filepath.Base(f)) {
			t.Errorf("left beside the database: %s", f)
		}
	}
	if len(runs) == 0 {
		return
	}
	run, execs := ended(t, db)
	if run.Status == store.RunFinished && run.ExitCode == nil {
		t.Errorf("a finished run without exit code: %+v", run)
	}
	if !r.sent && (run.Status != store.RunFinished || len(execs) != 4) {
		t.Errorf("without a signal: run %+v with %d executions", run, len(execs))
	}
	for _, e := range execs {
		if !slices.Contains([]trace.Outcome{trace.OutcomeCompleted, trace.OutcomeCancelled, trace.OutcomeInterrupted}, e.Outcome) {
			t.Errorf("execution %s is %s", e.ID, e.Outcome)
		}
	}
}
