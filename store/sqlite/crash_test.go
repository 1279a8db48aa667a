package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// helperEnv makes the test binary a helper process: its value is the JSON of a helper.
const helperEnv = "M3_SQLITE_TEST_HELPER"

// helper is what a helper process does.
type helper struct {
	Open     bool   // opens the database and prints how many executions it has; waits for its stdin to close first
	Database string // else it writes a spool
	KillAt   int64  // kills itself after so many writes
	Writers  int    // 1: the small run; more: that many goroutines, each with execution after execution, without end
}

func TestMain(m *testing.M) {
	if arg := os.Getenv(helperEnv); arg != "" {
		os.Exit(helperMain(arg))
	}
	os.Exit(m.Run())
}

func helperMain(arg string) int {
	var h helper
	err := json.Unmarshal([]byte(arg), &h)
	if err == nil && h.Open {
		err = h.open()
	} else if err == nil {
		err = h.write()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (h helper) command(t *testing.T) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+string(b))
	cmd.Stderr = &bytes.Buffer{}
	return cmd
}

// ack is printed for each record after Append has returned: the parent holds us to it.
type ack struct {
	Type   string
	ID     string
	Seq    int64
	Body   []byte // of an event
	SHA256 string // of a blob
	Size   int
	Ended  bool // it is the end of its run, test or execution
}

func ackOf(rec store.Record) ack {
	k := ack{Type: rec.Type()}
	switch r := rec.(type) {
	case *store.Run:
		k.ID, k.Ended = r.ID, r.Finished != nil
	case *store.Test:
		k.ID, k.Ended = r.ID, r.Finished != nil
	case *store.Execution:
		k.ID = string(r.ID)
	case *store.Event:
		k.ID, k.Seq, k.Body = string(r.ExecutionID), r.Sequence, r.Body
		k.Ended = r.Kind == trace.KindExecutionFinished
	case *store.Evaluation:
		k.ID = r.ID
	case *store.Blob:
		k.ID, k.SHA256, k.Size = string(r.ExecutionID), r.SHA256, len(r.Data)
	}
	return k
}

type acker struct {
	mu sync.Mutex
	s  *spool.Store
}

func (a *acker) append(recs ...store.Record) error {
	for _, rec := range recs {
		if err := a.s.Append(context.Background(), rec); err != nil {
			return err
		}
		b, err := json.Marshal(ackOf(rec))
		if err != nil {
			return err
		}
		a.mu.Lock()
		_, err = os.Stdout.Write(append(b, '\n'))
		a.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (h helper) write() error {
	s, err := spool.Open(context.Background(), &spool.Config{Database: h.Database, RunID: "run", Package: "p", Version: "test", AfterWrite: func(n int64) {
		if n == h.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}})
	if err != nil {
		return err
	}
	a := &acker{s: s}
	if h.Writers > 1 {
		return h.writeMany(a)
	}
	return errors.Join(a.append(smallRun()...), s.Close())
}

// smallRun is a run with one test, one execution and every kind of record that a test process writes.
func smallRun() []store.Record {
	start := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	end := start.Add(time.Second)
	run := &store.Run{ID: "run", Status: store.RunRunning, Started: start, Owner: "program"}
	test := &store.Test{ID: "t", RunID: "run", Package: "p", Name: "TestX", Suite: "s", Iteration: 1, Status: store.TestRunning, Started: start}
	tape := storetest.NewTape("run", "e")
	tape.TestID = "t"
	recs := append([]store.Record{run, test, tape.Open()}, tape.Begin()...)
	recs = append(recs, tape.Frame([]byte("{\"a\":\"\xff\"}\r\n"))...)
	recs = append(recs, tape.Frame(bytes.Repeat([]byte("large\n"), 20_000))...)
	recs = append(recs, tape.Frame([]byte("last\n"))...)
	recs = append(recs, storetest.Judged("run", "v1", "e", 1))
	recs = append(recs, tape.End(trace.OutcomeCompleted, "")...)
	recs = append(recs, storetest.Evaluation("run", "v2", "e", 2))
	testEnd, runEnd := *test, *run
	testEnd.Status, testEnd.Finished = store.TestPassed, &end
	runEnd.Status, runEnd.Finished = store.RunFinished, &end
	return append(recs, &testEnd, &runEnd)
}

func (h helper) writeMany(a *acker) error {
	errs := make(chan error, h.Writers)
	if err := a.append(&store.Run{ID: "run", Status: store.RunRunning, Started: time.Now(), Owner: "go test"}); err != nil {
		return err
	}
	for w := range h.Writers {
		go func() {
			for i := 0; ; i++ {
				tape := storetest.NewTape("run", fmt.Sprintf("e%d-%d", w, i))
				recs := append([]store.Record{tape.Open()}, tape.Begin()...)
				for j := range 10 {
					recs = append(recs, tape.Frame(fmt.Appendf(nil, "%d %d %d%s\n", w, i, j, strings.Repeat(" ", j*i%500)))...)
				}
				recs = append(recs, tape.Frame(bytes.Repeat([]byte{byte(w)}, storetest.BlobBytes+i%7+1))...)
				if err := a.append(append(recs, tape.End(trace.OutcomeCompleted, "")...)...); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

// crash runs a writer until it is dead and returns what it had acknowledged, and whether it was killed.
func crash(t *testing.T, h helper) (acks []ack, killed bool) {
	t.Helper()
	cmd := h.command(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var k ack
		if json.Unmarshal(lines.Bytes(), &k) == nil { // the last may be cut
			acks = append(acks, k)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return acks, true
	}
	if err != nil {
		t.Fatalf("the writer failed: %v\n%s", err, cmd.Stderr)
	}
	return acks, false
}

// checkRecords holds the reopened store to records that must be there.
func checkRecords(t *testing.T, s *Store, recs []ack) {
	t.Helper()
	ctx := context.Background()
	ended := map[string]bool{}
	for _, k := range recs {
		ended[k.Type+k.ID] = k.Ended
	}
	for _, k := range recs {
		switch k.Type {
		case "run":
			run, err := s.Run(ctx, k.ID)
			if want := map[bool]store.RunStatus{true: store.RunFinished, false: store.RunInterrupted}[ended["run"+k.ID]]; err != nil || run.Status != want {
				t.Errorf("run %s is %q (%v), want %s", k.ID, run.Status, err, want)
			}
		case "test":
			tests, err := s.Tests(ctx, "run")
			if want := map[bool]store.TestStatus{true: store.TestPassed, false: store.TestInterrupted}[ended["test"+k.ID]]; err != nil || len(tests) != 1 || tests[0].Status != want {
				t.Errorf("tests %+v (%v), want %s", tests, err, want)
			}
		case "execution":
			checkExecution(t, s, k.ID)
			if info, err := s.Execution(ctx, execID(k.ID)); err != nil || ended["event"+k.ID] && info.Outcome != trace.OutcomeCompleted {
				t.Errorf("execution %s was completed and is %s (%v)", k.ID, info.Outcome, err)
			}
		case "evaluation":
			rows, err := s.Evaluations(ctx, &store.EvaluationQuery{Execution: "e"})
			if err != nil || !slices.ContainsFunc(rows, func(r eval.Result) bool { return r.ID == k.ID }) {
				t.Errorf("evaluation %s is not there: %+v, %v", k.ID, rows, err)
			}
		default:
			checkBytes(t, s, k)
		}
	}
}

func checkBytes(t *testing.T, s *Store, k ack) {
	t.Helper()
	log, err := s.log(context.Background(), execID(k.ID))
	if err != nil {
		t.Fatal(err)
	}
	if k.Type == "event" {
		if body, err := log.AppendEvent(nil, int(k.Seq)); err != nil || !bytes.Equal(body, k.Body) {
			t.Errorf("event %d of %s is not there as it was written (%v)", k.Seq, k.ID, err)
		}
		return
	}
	if data, err := log.Blob(k.SHA256); err != nil || fmt.Sprintf("%x", sha256.Sum256(data)) != k.SHA256 || len(data) != k.Size {
		t.Errorf("blob %s is not there as it was written (%v)", k.SHA256, err)
	}
}

// checkExecution: it is whole, and has either its own end or one that says that it was interrupted.
func checkExecution(t *testing.T, s *Store, id string) {
	t.Helper()
	ctx := context.Background()
	info, err := s.Execution(ctx, execID(id))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := s.Trace(ctx, execID(id))
	if err != nil {
		t.Fatal(err)
	}
	if !tr.Finalized() || info.Finished == nil {
		t.Errorf("execution %s is open: %+v", id, info)
	}
	if _, err := tr.View(); err != nil {
		t.Errorf("execution %s has no view: %v", id, err)
	}
	var prev time.Duration
	for i, ev := range tr.Events() {
		if ev.Sequence != int64(i) || ev.Offset < prev {
			t.Errorf("execution %s: event %d has sequence %d, offset %v after %v", id, i, ev.Sequence, ev.Offset, prev)
		}
		prev = ev.Offset
	}
	if info.Outcome == trace.OutcomeCompleted && info.Complete {
		return
	}
	if info.Outcome != trace.OutcomeInterrupted || info.Complete {
		t.Errorf("execution %s: outcome %s, complete %v", id, info.Outcome, info.Complete)
	}
	var f trace.Finished
	last, err := tr.Event(tr.Len() - 1)
	if err == nil {
		err = last.Payload.Decode(&f)
	}
	if err != nil || len(f.Limitations) != 1 || f.Limitations[0].Code != "interrupted" || last.Source != (trace.Source{Origin: trace.OriginDerived, Source: "m3"}) {
		t.Errorf("execution %s ends with %+v (%v)", id, last, err)
	}
}

// TestKillAfterEachWrite kills the writer after its n-th write, for every n, until one lives.
func TestKillAfterEachWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var recs []ack
	for _, rec := range smallRun() {
		recs = append(recs, ackOf(rec))
	}
	// Each write and the records that are in the file after it: a header, the records, and before the first blob's its file.
	written := []int{0}
	for i, k := range recs {
		if k.Type == "blob" {
			written = append(written, i)
		}
		written = append(written, i+1)
	}
	for n := range len(written) + 1 {
		path := filepath.Join(dir, fmt.Sprintf("%d.sqlite", n))
		acks, killed := crash(t, helper{Database: path, KillAt: int64(n + 1), Writers: 1})
		if killed != (n < len(written)) {
			t.Fatalf("after write %d of %d: killed %v", n+1, len(written), killed)
		}
		there := recs
		if killed {
			there = recs[:written[n]]
			if n > 0 && len(acks) != written[n-1] {
				t.Errorf("killed after write %d: %d records were acknowledged, want %d", n+1, len(acks), written[n-1])
			}
		}
		s := reopen(t, path)
		checkRecords(t, s, there)
		if len(acks) > 0 && !reflect.DeepEqual(acks, recs[:len(acks)]) {
			t.Errorf("killed after write %d: acknowledged were other records", n+1)
		}
		if _, err := os.Stat(path + ".spool"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("killed after write %d: the spool is left (%v)", n+1, err)
		}
	}
}

// TestKillUnderEightWriters kills at random points. M3_LONG=1 makes it two hundred kills.
func TestKillUnderEightWriters(t *testing.T) {
	t.Parallel()
	kills := 20
	if os.Getenv("M3_LONG") != "" {
		kills = 200
	}
	dir := t.TempDir()
	total, interrupted := 0, 0
	for i := range kills {
		path := filepath.Join(dir, fmt.Sprintf("%d.sqlite", i))
		at := 2 + rand.Int64N(600)
		acks, killed := crash(t, helper{Database: path, KillAt: at, Writers: 8})
		if !killed {
			t.Fatal("the writer was not killed")
		}
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		// Whatever was acknowledged of the run, it has no end: interrupted if something was open.
		open := s.Ingested().Interrupted
		if run, err := s.Run(context.Background(), "run"); len(acks) > 0 && (err != nil || (run.Status == store.RunInterrupted) != (open > 0)) {
			t.Errorf("kill %d at write %d: run %+v (%v) with %d interrupted executions", i, at, run, err, open)
		}
		checkRecords(t, s, slices.DeleteFunc(acks, func(k ack) bool { return k.Type == "run" }))
		total, interrupted = total+len(acks), interrupted+open
		s.Close()
		if t.Failed() {
			t.Fatalf("kill %d, at write %d", i, at)
		}
	}
	t.Logf("%d kills: %d acknowledged records are all there, %d executions were interrupted", kills, total, interrupted)
}

func (h helper) open() error {
	if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
		return errors.New("stdin was to be closed")
	}
	s, err := Open(h.Database)
	if err != nil {
		return err
	}
	infos, err := s.Executions(context.Background(), nil)
	if err == nil {
		fmt.Println(len(infos))
	}
	return errors.Join(err, s.Close())
}

// TestTwoProcessesOpen: both make the database, one takes in the spools, and both see everything.
func TestTwoProcessesOpen(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		path := filepath.Join(t.TempDir(), "db.sqlite")
		for i := range 3 {
			s := writeSpool(t, path, fmt.Sprintf("run%d", i), storetest.NewTape(fmt.Sprintf("run%d", i), fmt.Sprintf("e%d", i)).Whole(storetest.Payloads()[:4]...)...)
			s.Close()
		}
		var cmds []*exec.Cmd
		var outs []*bytes.Buffer
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			cmd := helper{Open: true, Database: path}.command(t)
			out := &bytes.Buffer{}
			cmd.Stdin, cmd.Stdout = r, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmds, outs = append(cmds, cmd), append(outs, out)
		}
		r.Close()
		w.Close()
		for i, cmd := range cmds {
			if err := cmd.Wait(); err != nil || strings.TrimSpace(outs[i].String()) != "3" {
				t.Errorf("round %d: process %d sees %q executions, want 3 (%v)\n%s", round, i, outs[i], err, cmd.Stderr)
			}
		}
	}
}
