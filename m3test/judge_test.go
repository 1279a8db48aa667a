package m3test

import (
	"os"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/judging"
	"github.com/m3-go/m3/internal/providertest"
	"github.com/m3-go/m3/judge"
)

// TestJudgeSettings: the run's budget is taken out of the environment, and the workers of go test -fuzz have it nevertheless.
func TestJudgeSettings(t *testing.T) {
	args := os.Args
	t.Cleanup(func() {
		os.Args = args
		os.Unsetenv(envWorker)
		judging.Adopt(std.settings.judge)
	})
	t.Setenv(judging.EnvLimit, "7")
	t.Setenv(judging.EnvDir, t.TempDir())
	dir := os.Getenv(judging.EnvDir)
	os.Args = []string{args[0], "-test.fuzz=FuzzX"}
	if s := takeSettings(); s.judge != (judging.Settings{Limit: "7", Dir: dir}) {
		t.Errorf("settings %+v", s.judge)
	}
	for _, name := range []string{judging.EnvLimit, judging.EnvDir} {
		if _, ok := os.LookupEnv(name); ok {
			t.Errorf("%s is still in the environment", name)
		}
	}
	os.Args = []string{args[0], "-test.fuzzworker"}
	if s := takeSettings(); s.judge != (judging.Settings{Limit: "7", Dir: dir}) {
		t.Errorf("settings of a worker %+v", s.judge)
	}
	run, err := judging.Process()
	if err != nil || run.Budget == nil {
		t.Errorf("the worker's run %+v, %v", run, err)
	}
}

// TestBadJudgeLimit: a limit that is no number fails every test that wants a kit, and says which variable it is.
func TestBadJudgeLimit(t *testing.T) {
	t.Cleanup(func() { judging.Adopt(std.settings.judge) })
	judging.Adopt(judging.Settings{Limit: "many"})
	_, err := newProcess(settings{}).attempt(t, "")
	if err == nil || !strings.Contains(err.Error(), `M3_JUDGE_MAX_REQUESTS: "many" is not a number of requests: write a whole number`) {
		t.Errorf("error %v", err)
	}
}

// TestJudgeLimitOfAKit: a test's kit passes its limit on.
func TestJudgeLimitOfAKit(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Chat(`{"score":1,"rationale":"","abstain":false}`)))
	kit := NewKit(t, &KitOptions{JudgeMaxRequests: new(0)})
	j := judge.LLM{Model: "m", BaseURL: p.URL, Auth: judge.AuthNone, ResponseMode: judge.JSONText}
	r, err := kit.JudgeResponse(t.Context(), j, judge.Subject{Input: "i", Expected: "e", Actual: "a"}, &m3.EvaluateOptions{Name: "answer.v1"})
	if err != nil || r.Status != eval.Error || r.Details["error_code"] != judge.CodeBudgetExhausted || len(p.Requests()) != 0 {
		t.Errorf("%d requests, %+v, %v", len(p.Requests()), r, err)
	}
}
