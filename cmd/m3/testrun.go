package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/gotest"
	"github.com/m3-go/m3/internal/judging"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/store/sqlite"
)

// The variables by which m3 test speaks to the test processes. m3test takes them out of the environment at start.
const (
	envResultsDB = "M3_RESULTS_DB"
	envRunID     = "M3_RUN_ID"
	envSuite     = "M3_SUITE"
)

// ingestEvery is how often the spools are read while the tests run, and ingestWait how long another process that takes them in is waited for then.
const (
	ingestEvery = 150 * time.Millisecond
	ingestWait  = time.Second
)

// testRun is one m3 test.
type testRun struct {
	c     *cli
	args  *gotest.Args
	env   []string
	suite string
	proj  *project
	db    string
	st    *sqlite.Store
	show  string // the command that opens a trace
	junit string // where JUnit XML goes; empty: nowhere
	json  bool   // results are JSON lines
	// baseline is the run to compare with.
	baseline baseline

	hold     *spool.Hold // of the run's directory, in which the counters of judge requests are
	signals  *interrupts
	held     *spool.Store // m3 test's own, see holdRun
	id       string
	started  time.Time
	redactor *evidence.Redactor
	live     progress
	stream   *report.Stream // with json; it is live, too
	actions  *actions       // in GitHub Actions, else nil
	style    report.Style

	mu      sync.Mutex // guards what follows: events, stderr and the recorder come from goroutines of their own
	result  gotest.Result
	partial map[string]string // lines that -v shows and that are not whole yet
	pending []store.Record
	recErr  error // the first failure to record
	lockErr error // the last attempt to record met a locked database
}

// guarded runs the tests, with every signal from here on in order.
func (r *testRun) guarded(ctx context.Context) error {
	var preparing context.Context
	r.signals, preparing = catchSignals(ctx, r.announce)
	defer r.signals.stop()
	st, err := r.c.openDB(preparing, r.db)
	if err != nil {
		if r.signals.signal() != nil {
			err = nil // it has been told
		}
		return r.signals.exit(err)
	}
	r.st = st
	defer st.Close()
	if err := r.baseline.read(preparing, st, r.proj.module); err != nil {
		return r.signals.exit(err)
	}
	return r.signals.exit(r.run(ctx, preparing))
}

func (r *testRun) run(ctx, preparing context.Context) error {
	if err := r.begin(preparing); err != nil {
		return err
	}
	if !r.signals.enter(running, nil) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		r.signals.enter(storing, cancel)
		sig := r.signals.signal()
		r.end(ctx, &gotest.Exit{Code: signalCode(sig), Signal: sig})
		return nil
	}
	p, err := gotest.Start(&gotest.Config{Dir: r.c.dir, Env: r.environment(), Args: r.args.Command(), Event: r.event,
		Stderr: r.stderr, Signals: r.signals.tests})
	if err != nil {
		r.end(ctx, &gotest.Exit{Code: exitUsage})
		return err
	}
	stop := r.recordUntil(ctx)
	ex := p.Wait(ctx)
	// What is there is stored also when the caller has given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	r.signals.enter(storing, cancel)
	stop()
	return r.finish(ctx, &ex)
}

// progress is told what happens while a run goes on.
type progress interface {
	Began(pkg, test string)
	Item(it *store.Item)
	Text(s string)
	Stopped()
	Tick()
	Close()
}

// begin opens the run in the database, before anything is started.
func (r *testRun) begin(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	r.id, r.started, r.partial = id.String(), time.Now(), map[string]string{}
	r.redactor = redactorOf(r.env)
	r.style = report.Style{Module: r.proj.module}
	r.tellWith()
	if err := r.holdJudges(ctx); err != nil {
		return err
	}
	run := r.record(store.RunRunning, nil)
	if err := r.holdRun(ctx, run); err != nil {
		r.hold.Release()
		return err
	}
	err = r.c.patiently(ctx, r.db, func() error { return r.st.Append(ctx, run) })
	if err == nil {
		return nil
	}
	r.release(nil)
	r.hold.Release()
	if locked(err) {
		return hint(lockedHint, "record the run in %s: %w", r.db, err)
	}
	return fmt.Errorf("record the run in %s: %w", r.db, err)
}

// tellWith chooses how the run is told: as text, or as JSON lines.
func (r *testRun) tellWith() {
	if r.json {
		r.stream = report.NewStream(r.c.out)
		r.stream.Run(r.id, r.proj.module, r.started)
		r.live = r.stream
		return
	}
	if r.actions = actionsOf(r); r.actions != nil {
		r.actions.Begin(r.c.out)
	}
	cfg := &report.LiveConfig{}
	if f, ok := r.c.out.(*os.File); ok {
		cfg.Progress, r.style.Color = report.Terminal(f)
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			cfg.Width = w
		}
	}
	cfg.Style = r.style
	r.live = report.NewLive(r.c.out, cfg)
}

// holdRun begins m3 test's own spool. It holds nothing but the run: its lock is how others know, whatever happens to this process, whether there is
// still somebody who will end it.
func (r *testRun) holdRun(ctx context.Context, run *store.Run) error {
	held, err := spool.Open(ctx, &spool.Config{Database: r.db, RunID: r.id, Package: run.Owner, Version: m3.Version})
	if err == nil {
		r.held = held
		err = held.Append(ctx, run)
	}
	if err != nil {
		r.release(nil)
		return fmt.Errorf("record the run beside %s: %w", r.db, err)
	}
	return nil
}

// release ends m3 test's own spool with the end of the run; without one it takes it back.
func (r *testRun) release(run *store.Run) error {
	if r.held == nil {
		return nil
	}
	held := r.held
	r.held = nil
	if run != nil {
		return errors.Join(held.Append(context.Background(), run), held.Close())
	}
	return errors.Join(spool.Remove(spool.File{Path: held.Path()}), held.Close())
}

// redactorOf knows the values of the variables whose names say that they are secret.
func redactorOf(env []string) *evidence.Redactor {
	red := evidence.NewRedactor(nil)
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if value != "" && red.Sensitive(name) {
			_ = red.Add(name, value) // too short to be told from other text: the rules for keys and headers still hold
		}
	}
	return red
}

// record is the run as it stands.
func (r *testRun) record(status store.RunStatus, ex *gotest.Exit) *store.Run {
	run := &store.Run{ID: r.id, Status: status, Started: r.started, Project: r.proj.module, Version: m3.Version, Owner: "m3 test"}
	for _, a := range append([]string{"go"}, r.args.Command()...) {
		run.Command = append(run.Command, r.redactor.String(a))
	}
	if ex != nil {
		now := r.started.Add(time.Since(r.started)) // also when the machine's clock was set meanwhile
		run.Finished, run.ExitCode, run.Detail = &now, &ex.Code, r.detail(ex)
	}
	return run
}

// detail is what the runner reported beside the items.
func (r *testRun) detail(ex *gotest.Exit) []byte {
	d := struct {
		FailedBuilds []string `json:"failed_builds,omitempty"`
		Signal       string   `json:"signal,omitempty"`
		Killed       bool     `json:"killed,omitempty"`
		Plain        string   `json:"plain_output,omitempty"`
		Suite        string   `json:"suite,omitempty"`
	}{FailedBuilds: r.result.FailedBuilds, Killed: ex.Killed, Suite: r.suite}
	if ex.Signal != nil {
		d.Signal = gotest.SignalName(ex.Signal)
	}
	d.Plain = gotest.Bound(r.redactor.String(r.result.Plain.String()), 20_000)
	b, _ := json.Marshal(d) // strings and booleans: cannot fail
	return b
}

// environment is what go test gets: the user's, the file's, and m3's own.
func (r *testRun) environment() []string {
	var env []string
	for _, kv := range r.env {
		name, _, _ := strings.Cut(kv, "=")
		if name != envResultsDB && name != envRunID && name != judging.EnvDir && (name != envSuite || r.suite == "") {
			env = append(env, kv)
		}
	}
	env = append(env, envResultsDB+"="+r.db, envRunID+"="+r.id, judging.EnvDir+"="+r.hold.Dir())
	if r.suite != "" {
		env = append(env, envSuite+"="+r.suite)
	}
	return env
}

// announce says what a signal does.
func (r *testRun) announce(sig os.Signal, at stage) {
	if at == preparing { // nothing is shown yet
		fmt.Fprintln(r.c.err, stopping(sig, at))
		return
	}
	if at == running {
		r.live.Stopped()
	}
	r.live.Text(stopping(sig, at))
}

// event takes one line of go test's stdout.
func (r *testRun) event(ev *gotest.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ch := r.result.Add(ev)
	if ch.Began != nil {
		r.live.Began(ch.Began.Package, ch.Began.Name)
	}
	if ev.Action == gotest.ActionAttr && ev.Key == "m3.secret" {
		r.learn(ev.Value)
	}
	switch {
	case ev.Plain, ev.Action == gotest.ActionBuildOutput && (r.args.Has("n") || r.args.Has("x")):
		r.live.Text(r.redactor.String(ev.Output))
	case ev.Action != gotest.ActionOutput:
	case r.args.Verbose, ev.Test == "" && r.args.Has("list") && !strings.HasPrefix(ev.Output, "ok  \t"):
		r.show1(ev)
	}
	r.tell(r.result.Items(r.id, ch, r.redactor.String))
	if ch.Package != nil {
		r.keep(ch.Package)
	}
}

// learn makes the value of a variable that a test used as a secret known to the redactor: the test may print it itself.
func (r *testRun) learn(variable string) {
	for _, kv := range r.env {
		if name, value, _ := strings.Cut(kv, "="); name == variable {
			_ = r.redactor.Add(name, value) // too short a value was refused in the test already
		}
	}
}

// show1 shows a test's own output under -v, line by line: a secret that comes in two pieces is one again by then.
func (r *testRun) show1(ev *gotest.Event) {
	key := ev.Package + "\x00" + ev.Test
	text := r.partial[key] + ev.Output
	end := strings.LastIndexByte(text, '\n') + 1
	r.partial[key] = text[end:]
	if text = gotest.WithoutFraming(text[:end]); text != "" {
		r.live.Text(r.redactor.String(text))
	}
}

// tell shows items.
func (r *testRun) tell(items []store.Item) {
	for i := range items {
		r.live.Item(&items[i])
	}
}

// keep queues what is known of a package that has ended for the database.
func (r *testRun) keep(p *gotest.Package) {
	items := r.result.Records(r.id, p, r.redactor.String)
	for i := range items {
		r.pending = append(r.pending, &items[i])
	}
}

// stderr takes a line of the go command's own.
func (r *testRun) stderr(line []byte) {
	r.live.Text(r.redactor.String(string(line)))
}

// recordUntil records what comes in until the returned function is called.
func (r *testRun) recordUntil(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(ingestEvery)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				r.live.Tick()
				r.lingering()
				r.flush(ctx)
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// lingerAfter is when a package whose tests have ended, and which has not, is worth a line.
const lingerAfter = 10 * time.Second

// lingering says what go test is waiting for, when it waits for nothing that it tells.
func (r *testRun) lingering() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.result.Lingering(time.Now(), lingerAfter) {
		r.live.Text("m3: the tests of " + p.Path + " have ended, but their process, or one that it left behind with its output, still runs: go test waits for it")
	}
}

// flush stores the items that are there, and what the test processes have spooled.
func (r *testRun) flush(ctx context.Context) {
	r.mu.Lock()
	recs := r.pending
	r.pending = nil
	r.mu.Unlock()
	var err error
	if len(recs) > 0 {
		err = r.st.Append(ctx, recs...)
	}
	kept := err == nil
	// Somebody who takes in for long must not keep us from seeing the end of the tests.
	if _, ierr := r.st.IngestWithin(ctx, ingestWait); err == nil {
		err = ierr
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !kept {
		r.pending = append(recs, r.pending...) // the next time, or the last
	}
	switch {
	case locked(err):
		r.lockErr = err
	case err == nil:
		r.lockErr = nil
	case r.recErr == nil && !errors.Is(err, context.Canceled):
		r.recErr = err
	}
}

// flushAll stores what is left. A database that is locked is waited for.
func (r *testRun) flushAll(ctx context.Context) {
	_ = r.c.patiently(ctx, r.db, func() error {
		r.flush(ctx)
		return r.lockErr
	})
	if r.recErr == nil {
		r.recErr = r.lockErr
	}
}

// finish closes the run, reports it, and gives the exit code.
func (r *testRun) finish(ctx context.Context, ex *gotest.Exit) error {
	r.end(ctx, ex)
	r.live.Close()
	code := ex.Code
	if r.recErr != nil {
		r.c.fail(fmt.Sprintf("recording into %s failed, so the stored run is not whole: %v", r.db, r.recErr), "")
		code = orCode(code, exitUsage)
	}
	if lost := r.st.Ingested().Lost; lost > 0 {
		r.c.fail(fmt.Sprintf("%s.spool was deleted while the tests ran: what was recorded there after that is lost (%s)", r.db, count(lost, "spool")), "")
		code = orCode(code, exitUsage)
	}
	if bad := r.st.Ingested().Bad; bad > 0 {
		r.c.fail(fmt.Sprintf("%d recorded lines could not be read: they are kept beside the database, in %s.spool", bad, r.db), "")
		code = orCode(code, exitUsage)
	}
	f, err := r.report(ctx, ex)
	if err != nil {
		r.c.fail(err.Error(), "")
		code = orCode(code, exitUsage)
	}
	if f != nil && len(f.RequiredBlocked) > 0 { // everything that the processes recorded is there by now
		code = orCode(code, exitBlocked)
	}
	if code != 0 {
		return &exitError{code}
	}
	return nil
}

func orCode(code, other int) int {
	if code != 0 {
		return code
	}
	return other
}

// end stores what is still open, and the end of the run. A process that left its tests with exit code 0 is no success.
func (r *testRun) end(ctx context.Context, ex *gotest.Exit) {
	reason, status := "go test ended before it", store.RunFinished
	if ex.Signal != nil {
		reason, status = "stopped by "+gotest.SignalName(ex.Signal), store.RunInterrupted
	}
	r.mu.Lock()
	open := r.result.Close(reason)
	r.tell(r.result.OpenItems(r.id, open, r.redactor.String))
	for _, p := range open {
		r.keep(p)
	}
	if ex.Code == 0 && len(r.result.Silent()) > 0 {
		ex.Code = 1
	}
	run := r.record(status, ex)
	// First where it needs nobody else: whatever comes between, the run has its end.
	if err := r.release(run); err != nil && r.recErr == nil {
		r.recErr = err
	}
	r.pending = append(r.pending, run)
	r.mu.Unlock()
	r.hold.Release() // before the last taking in, which sweeps
	r.flushAll(ctx)
}

// report writes feedback.json and the summary. The feedback is there also when it could not be written.
func (r *testRun) report(ctx context.Context, ex *gotest.Exit) (*report.Feedback, error) {
	f, err := report.Build(ctx, r.st, r.id)
	if err != nil {
		return nil, err
	}
	cfg := &report.PrintConfig{Style: r.style, Show: r.show, Suite: r.suite}
	if ex.Signal != nil {
		cfg.Stopped = gotest.SignalName(ex.Signal)
	}
	r.baseline.compare(ctx, r.st, f)
	path := report.Path(r.proj.root, r.id)
	werr := errors.Join(f.WriteFiles(ctx, r.st, path), f.WriteFile(path))
	if werr == nil {
		cfg.FeedbackPath = r.relative(path)
	}
	if r.junit != "" {
		werr = errors.Join(werr, f.WriteJUnit(r.junit))
	}
	if r.json {
		r.stream.End(f, cfg.FeedbackPath)
		return f, werr
	}
	werr = errors.Join(report.Print(r.c.out, f, cfg), werr)
	if r.actions != nil {
		werr = errors.Join(werr, r.actions.report(r.c.out, f))
	}
	return f, werr
}

// relative is a path as the user would type it, where that is shorter.
func (r *testRun) relative(path string) string {
	if rel, err := filepath.Rel(r.c.dir, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}
