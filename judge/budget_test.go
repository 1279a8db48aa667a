package judge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/judging"
	"github.com/m3-go/m3/internal/providertest"
	"github.com/m3-go/m3/trace"
)

// The variables that make this test binary a worker: see worker.
const (
	workerURL  = "M3_INTERNAL_JUDGE_WORKER"
	workerKill = "M3_INTERNAL_JUDGE_KILL"
)

const perWorker = 50

// worker is a process of a run: it asks for 50 evaluations, five at a time, and prints how they ended. It may say so and stop for good at a point of
// its third request.
func worker() {
	var hooks testHooks
	hooks.noPause = true
	if point := os.Getenv(workerKill); point != "" {
		seen := 0
		hooks.point = func(name string) {
			if name == point {
				if seen++; seen == 3 {
					fmt.Println("there")
					time.Sleep(time.Hour)
				}
			}
		}
	}
	l := LLM{Model: "m", BaseURL: os.Getenv(workerURL), Auth: AuthNone, ResponseMode: JSONText, test: &hooks}
	raw, _ := json.Marshal(texts("i", "e", "a"))
	counts := map[string]int{}
	var mu sync.Mutex
	work := make(chan int)
	var wg sync.WaitGroup
	workers := 5
	if hooks.point != nil {
		workers = 1 // so that nothing else of it is under way when it dies
	}
	for range workers {
		wg.Go(func() {
			for range work {
				d, _ := l.Evaluate(context.Background(), eval.Context{Subject: trace.JSON(raw)})
				end := string(d.Status)
				if code, ok := d.Details["error_code"].(string); ok {
					end = code
				}
				mu.Lock()
				counts[end]++
				mu.Unlock()
			}
		})
	}
	for i := range perWorker {
		work <- i
	}
	close(work)
	wg.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(counts)
}

// TestSharedBudget: six processes with fifty evaluations each reach the provider exactly as often as the budget allows, retries included.
func TestSharedBudget(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		budget int
		script providertest.Script
		kill   string // where one of the processes dies
		want   int
	}{
		{"answers", 37, providertest.Sequence(providertest.Chat(good)), "", 37},
		{"retries", 37, func(r *providertest.Request) providertest.Reply {
			if r.Number%2 == 1 {
				return providertest.Reply{Status: 503}
			}
			return providertest.Chat(good)
		}, "", 37},
		{"none", 0, providertest.Sequence(providertest.Chat(good)), "", 0},
		{"killed before it sends", 37, providertest.Sequence(providertest.Chat(good)), "before", 37},
		{"killed before it sends, with the last request", 3, providertest.Sequence(providertest.Chat(good)), "before", 3},
		// The window that is left: taken from the budget and not sent. It is never sent too often.
		{"killed between the count and the first byte", 37, providertest.Sequence(providertest.Chat(good)), "after", 36},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := providertest.New(t, tc.script)
			counter := t.TempDir()
			if err := judging.CreateIn(counter); err != nil {
				t.Fatal(err)
			}
			total, killed := runWorkers(t, p.URL, counter, tc.budget, tc.kill)
			if n := len(p.Requests()); n != tc.want {
				t.Errorf("the provider was reached %d times, want %d; the evaluations ended %v", n, tc.want, total)
			}
			ended := 0
			for _, n := range total {
				ended += n
			}
			if want := perWorker * (6 - killed); ended != want || total[CodeBudgetExhausted] == 0 {
				t.Errorf("%d evaluations ended %v, want %d, the last ones with %s", ended, total, want, CodeBudgetExhausted)
			}
			for end := range total {
				if end != "passed" && end != CodeBudgetExhausted && end != CodeServerError { // the last when both attempts met it
					t.Errorf("evaluations ended with %s: %v", end, total)
				}
			}
		})
	}
}

// runWorkers runs six processes and sums up how their evaluations ended. When kill names a point, the first of them stands there while the others
// run, and is killed then.
func runWorkers(t *testing.T, url, counter string, budget int, kill string) (total map[string]int, killed int) {
	t.Helper()
	command := func(env ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerURL+"="+url, judging.EnvDir+"="+counter, judging.EnvLimit+"="+strconv.Itoa(budget))
		cmd.Env = append(cmd.Env, env...)
		return cmd
	}
	if kill != "" {
		killed = 1
		defer standing(t, command(workerKill+"="+kill))()
	}
	total = map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 6 - killed {
		wg.Go(func() {
			out, err := command().Output()
			var counts map[string]int
			if err == nil {
				err = json.Unmarshal(out, &counts)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("a process: %v\n%s", err, out)
			}
			for end, n := range counts {
				total[end] += n
			}
		})
	}
	wg.Wait()
	return total, killed
}

// standing starts a process that stops at a point, waits until it is there, and returns what kills it.
func standing(t *testing.T, cmd *exec.Cmd) (end func()) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "there\n" {
		t.Errorf("the process that was to stop said %q (%v)", line, err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestStoppedHolder: a process that was stopped while it held the counter delays the others until their deadline, and no longer.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
	counter := filepath.Join(t.TempDir(), "counter")
	if err := judging.Create(counter); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(counter)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	l := local(p)
	l.Timeout = 100 * time.Millisecond
	d := withBudget(t, l, judging.Shared(counter, 1))
	if d.Details["error_code"] != CodeTimeout || len(p.Requests()) != 0 {
		t.Errorf("%d requests, decision %+v", len(p.Requests()), d)
	}
}

func withBudget(t *testing.T, l LLM, b *judging.Budget) eval.Decision {
	t.Helper()
	raw, _ := json.Marshal(subject)
	d, err := l.Evaluate(judging.WithHost(t.Context(), &judging.Host{Budget: b}), eval.Context{Subject: trace.JSON(raw)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBudgetOfARetry(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Reply{Status: 500}))
	d := withBudget(t, local(p), judging.Local(1))
	if d.Details["error_code"] != CodeBudgetExhausted || d.Details["last_error_code"] != CodeServerError || d.Details["attempts"] != 1 || d.Details["budget"] != 1 || len(p.Requests()) != 1 {
		t.Errorf("%d requests, decision %+v", len(p.Requests()), d)
	}
}

// TestUnsentIsNotSpent: a request that found no connection takes nothing from the budget.
func TestUnsentIsNotSpent(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
	gone := providertest.New(t, nil)
	gone.HTTP.Close()
	b := judging.Local(1)
	for range 3 {
		if d := withBudget(t, local(gone), b); d.Details["error_code"] != CodeProvider {
			t.Fatalf("decision %+v", d)
		}
	}
	if d := withBudget(t, local(p), b); d.Status != eval.Passed {
		t.Errorf("decision %+v", d)
	}
	if d := withBudget(t, local(p), b); d.Details["error_code"] != CodeBudgetExhausted {
		t.Errorf("decision %+v", d)
	}
}

// TestBudgetWithoutCounter: with a limit that cannot be counted nothing is asked.
func TestBudgetWithoutCounter(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Chat(good)))
	gone := filepath.Join(t.TempDir(), "gone", "counter")
	d := withBudget(t, local(p), judging.Shared(gone, 5))
	if d.Details["error_code"] != CodeBudgetUnavailable || !strings.Contains(d.Message, "the budget allows 5") || len(p.Requests()) != 0 {
		t.Errorf("%d requests, decision %+v", len(p.Requests()), d)
	}
}

func ExampleLLM_Check() {
	j := LLM{Model: "judge-1", BaseURL: "https://judge.example.test/v1", APIKeyEnv: "JUDGE_KEY"}
	fmt.Println(j.Check())
	// Output:
	// judge: LLM.ResponseMode is not set: with a BaseURL of your own say judge.JSONSchema or judge.JSONText, whichever the endpoint supports
}
