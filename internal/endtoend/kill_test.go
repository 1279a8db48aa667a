package endtoend

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// killFlags link the hook in m3test that kills the process after its n-th write, KILL_AFTER.
const killFlags = "-ldflags=-X github.com/m3-go/m3/m3test.killAfter=KILL_AFTER"

// ack is what the killed test said before.
type ack struct {
	Execution trace.ExecutionID
	Writer    int
	Call      int
	Sequence  int64
	Result    string // the digest of the result's bytes
	Closed    bool
}

// victim is one process that is killed.
type victim struct {
	dir            string // database, logs
	writers, calls int
	after          int64 // writes; 0: it lives
	acks           []ack
	killed         bool
	output         string
}

func (v *victim) database() string { return filepath.Join(v.dir, "db.sqlite") }

func (v *victim) environ() []string {
	return environ("M3_RESULTS_DB="+v.database(), "LOGS="+v.dir, "WRITERS="+strconv.Itoa(v.writers), "CALLS="+strconv.Itoa(v.calls), fmt.Sprintf("KILL_AFTER=%d", v.after))
}

// run runs the process until it has ended, and reads what it acknowledges.
func (v *victim) run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out bytes.Buffer
	cmd.Env = append(cmd.Env, "ACKNOWLEDGE=3")
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{w}, &out, &out
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a ack
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Errorf("acknowledgement %q: %v", lines.Bytes(), err)
			continue
		}
		v.acks = append(v.acks, a)
	}
	err = cmd.Wait()
	v.output = out.String()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		v.killed = true
	default:
		t.Errorf("%s: %v\n%s", cmd, err, &out)
	}
}

// hold holds the database to what was acknowledged, and to the server's own logs. It returns how many executions were interrupted.
func (v *victim) hold(t *testing.T) (interrupted int) {
	t.Helper()
	db, err := sqlite.Open(v.database())
	if err != nil {
		t.Error(err)
		return 0
	}
	defer db.Close()
	runs, err := db.Runs(t.Context())
	if err != nil || len(runs) > 1 || len(v.acks) > 0 && len(runs) == 0 {
		t.Errorf("runs %+v, %v", runs, err)
		return 0
	}
	infos, err := db.Executions(t.Context(), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, info := range infos {
		interrupted += v.holdExecution(t, db, &info)
	}
	for _, a := range v.acks {
		if !slices.ContainsFunc(infos, func(i store.ExecutionInfo) bool { return i.ID == a.Execution }) {
			t.Errorf("execution %s was acknowledged and is not there", a.Execution)
		}
	}
	if len(runs) == 1 {
		v.holdRun(t, db, &runs[0], interrupted)
	}
	if _, err := os.Stat(v.database() + ".spool"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spool is left: %v", err)
	}
	return interrupted
}

// holdRun: the run and its test are interrupted, or whole.
func (v *victim) holdRun(t *testing.T, db *sqlite.Store, run *store.Run, interrupted int) {
	t.Helper()
	tests, err := db.Tests(t.Context(), run.ID)
	if err != nil {
		t.Error(err)
	}
	open := interrupted
	for _, test := range tests {
		switch {
		case test.Status == store.TestInterrupted:
			open++
		case test.Status != store.TestPassed:
			t.Errorf("the test is %s: %+v", test.Status, test)
		}
	}
	if len(v.acks) > 0 && len(tests) != 1 {
		t.Errorf("%d tests", len(tests))
	}
	switch {
	case open > 0 && run.Status != store.RunInterrupted:
		t.Errorf("the run is %s with %d that were interrupted", run.Status, open)
	case !v.killed && (run.Status != store.RunFinished || open != 0):
		t.Errorf("the run that was not killed is %s, %d are open", run.Status, open)
	}
	// The last thing that is written is the end of the run, and the one before the end of the test.
	if acked := v.acknowledgedEnd(); v.killed && !acked && len(tests) == 1 && tests[0].Status != store.TestInterrupted {
		t.Errorf("the killed test is %s", tests[0].Status)
	}
}

// acknowledgedEnd reports whether every client was closed.
func (v *victim) acknowledgedEnd() bool {
	n := 0
	for _, a := range v.acks {
		if a.Closed {
			n++
		}
	}
	return n == v.writers
}

func (v *victim) holdExecution(t *testing.T, db *sqlite.Store, info *store.ExecutionInfo) (interrupted int) {
	t.Helper()
	view := viewOf(t, db, info.ID)
	closed := slices.ContainsFunc(v.acks, func(a ack) bool { return a.Execution == info.ID && a.Closed })
	switch {
	case info.Outcome == trace.OutcomeInterrupted && !closed:
		interrupted = 1
	case info.Outcome != trace.OutcomeCompleted || !info.Complete:
		t.Errorf("execution %s: outcome %s, complete %v, acknowledged as closed %v", info.ID, info.Outcome, info.Complete, closed)
	}
	read := fromStore(db)
	wrote, got := v.log(t, info.Case, ".wrote"), evidence(t, read, view, trace.ServerToClient)
	if !bytes.HasPrefix(wrote, got) {
		diffAt(t, "received", wrote[:min(len(got), len(wrote))], got)
	}
	sent, heard := evidence(t, read, view, trace.ClientToServer), v.log(t, info.Case, ".read")
	if !bytes.HasPrefix(sent, heard) {
		diffAt(t, "sent", sent[:min(len(heard), len(sent))], heard)
	}
	calls := map[int64]*trace.ToolCallEntry{}
	for _, c := range view.ToolCalls().All() {
		calls[c.SequenceStart] = &c
	}
	for _, a := range v.acks {
		if a.Execution == info.ID && !a.Closed {
			v.holdCall(t, db, view, calls[a.Sequence], &a, wrote)
		}
	}
	return interrupted
}

// holdCall: the call is there as it was acknowledged, and its bytes are the server's.
func (v *victim) holdCall(t *testing.T, db *sqlite.Store, view trace.View, call *trace.ToolCallEntry, a *ack, wrote []byte) {
	t.Helper()
	if call == nil || call.ToolStatus != trace.ToolSuccess {
		t.Errorf("call %d of writer %d was acknowledged and is %+v", a.Call, a.Writer, call)
		return
	}
	for _, m := range view.RawMessages().All() {
		if m.ParentID != call.EntryID || m.Direction != trace.ServerToClient {
			continue
		}
		ev, err := db.ReadRawEvidence(context.Background(), *m.EvidenceRef, 0)
		var answer struct{ Result json.RawMessage }
		if err == nil {
			err = json.Unmarshal(ev.Bytes, &answer)
		}
		if sum := sha256.Sum256(answer.Result); err != nil || hex.EncodeToString(sum[:]) != a.Result || !bytes.Contains(wrote, ev.Bytes) {
			t.Errorf("the answer to call %d of writer %d is not what it was: %v", a.Call, a.Writer, err)
		}
		return
	}
	t.Errorf("call %d of writer %d has no answer among the frames", a.Call, a.Writer)
}

// log is a log of the server of one writer; empty when the process was killed before it began.
func (v *victim) log(t *testing.T, writer, suffix string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(v.dir, writer+suffix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return b
}

// killBinary is the test binary that is killed.
func killBinary(t *testing.T) string {
	t.Helper()
	return built.get(t, "kill.test", newModule(t, t.TempDir()), "test", "-c", killFlags, "./kill")
}

// kill runs and kills one.
func kill(t *testing.T, binary string, v *victim) {
	t.Helper()
	v.run(t, command(t, v.dir, v.environ(), binary, "-test.run=^TestCalls$", "-test.timeout=60s"))
}

// After each write of a small run the process is killed, for every one of them, until a run lives.
func TestKillAfterEachWrite(t *testing.T) {
	t.Parallel()
	binary := killBinary(t)
	dir := t.TempDir()
	acked := make([]int, 200)
	var mu sync.Mutex
	next, lived := int64(1), int64(0)
	take := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		if lived > 0 || next >= int64(len(acked)) {
			return 0
		}
		next++
		return next - 1
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for n := take(); n > 0 && !t.Failed(); n = take() {
				v := &victim{dir: filepath.Join(dir, strconv.FormatInt(n, 10)), writers: 1, calls: 3, after: n}
				if err := os.Mkdir(v.dir, 0o700); err != nil {
					t.Error(err)
					return
				}
				kill(t, binary, v)
				v.hold(t)
				mu.Lock()
				acked[n] = len(v.acks)
				if !v.killed && (lived == 0 || n < lived) {
					lived = n
				}
				mu.Unlock()
				if t.Failed() {
					t.Errorf("that was after write %d; the process said:\n%s", n, v.output)
				}
			}
		})
	}
	wg.Wait()
	// What is acknowledged never gets less from one write to the next, and ends with everything.
	if lived < 25 || acked[1] != 0 || acked[lived] != 4 || !slices.IsSorted(acked[1:lived+1]) {
		t.Errorf("a run lives with %d writes; acknowledged after each: %d", lived, acked[:max(lived, 0)+1])
	}
}

// removeAll waits for the servers of a killed process, which write their logs until they are ended.
func removeAll(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := os.RemoveAll(dir)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Eight clients at once, killed at random. M3_LONG=1 makes it two hundred kills, and writes the log that is kept in docs/kills.md
// to the file that M3_KILLS_LOG names.
func TestKillUnderEightWriters(t *testing.T) {
	t.Parallel()
	binary := killBinary(t)
	kills := 20
	if long() {
		kills = 200
	}
	dir := t.TempDir()
	var log strings.Builder
	acks, interrupted := 0, 0
	for i := range kills {
		v := &victim{dir: filepath.Join(dir, strconv.Itoa(i)), writers: 8, calls: 1 << 30, after: 2 + rand.Int64N(900)}
		if err := os.Mkdir(v.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		kill(t, binary, v)
		if !v.killed {
			t.Fatalf("kill %d: it was not killed\n%s", i, v.output)
		}
		n := v.hold(t)
		acks, interrupted = acks+len(v.acks), interrupted+n
		fmt.Fprintf(&log, "| %d | %d | %d | %d |\n", i+1, v.after, len(v.acks), n)
		if t.Failed() {
			t.Fatalf("that was kill %d, after write %d; the process said:\n%s", i, v.after, v.output)
		}
		removeAll(t, v.dir)
	}
	if acks == 0 || interrupted == 0 {
		t.Errorf("nothing was tested: %d calls were acknowledged, %d executions interrupted", acks, interrupted)
	}
	t.Logf("%d kills: %d acknowledged calls are all there, %d executions were interrupted", kills, acks, interrupted)
	if path := os.Getenv("M3_KILLS_LOG"); path != "" {
		head := fmt.Sprintf("%d kills: %d acknowledged calls were all there, %d executions were interrupted.\n\n"+
			"| kill | after write | acknowledged calls, all there | interrupted executions |\n| ---: | ---: | ---: | ---: |\n", kills, acks, interrupted)
		if err := os.WriteFile(path, []byte(head+log.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// The same go test again is a second run, also when the first was killed.
func TestKilledGoTestTwice(t *testing.T) {
	t.Parallel()
	m := newModule(t, t.TempDir())
	v := &victim{dir: t.TempDir(), writers: 1, calls: 3, after: 20}
	args := []string{"test", "-vet=off", "-v", killFlags, "./kill"}
	for i := range 2 {
		v.after = 20 - 20*int64(i)
		env := append(v.environ(), "LOGS="+filepath.Join(v.dir, strconv.Itoa(i)))
		out, code := output(t, command(t, m, env, "go", args...))
		if code != 1-i || strings.Contains(out, "signal: killed") != (i == 0) || strings.Contains(out, "(cached)") {
			t.Errorf("go test %d: exit code %d\n%s", i, code, out)
		}
	}
	db := openDB(t, v.database())
	runs, err := db.Runs(t.Context())
	if err != nil || len(runs) != 2 || runs[0].ID == runs[1].ID || runs[1].Status != store.RunInterrupted || runs[0].Status != store.RunFinished {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	for i, want := range []store.TestStatus{store.TestPassed, store.TestInterrupted} {
		tests, err := db.Tests(t.Context(), runs[i].ID)
		if err != nil || len(tests) != 1 || tests[0].Status != want {
			t.Errorf("tests %+v, %v, want one that is %s", tests, err, want)
		}
	}
}
