package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/providertest"
	"github.com/m3-go/m3/judge"
	"github.com/m3-go/m3/store/sqlite"
)

var judged = judge.Subject{Input: "What is 2 + 3?", Expected: "The answer is 5.", Actual: "It is 5."}

// localJudge is asked without a key.
func localJudge(p *providertest.Server) judge.LLM {
	return judge.LLM{Model: "m", BaseURL: p.URL, Auth: judge.AuthNone, ResponseMode: judge.JSONText}
}

func judgement(score string) providertest.Reply {
	return providertest.Chat(`{"score":` + score + `,"rationale":"because","abstain":false}`)
}

// TestJudgesThroughAKit: verdicts and failures are rows alike, in memory and in a file that is opened again.
func TestJudgesThroughAKit(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(judgement("0.9"), judgement("0.2"), providertest.Chat(`{"score":null,"rationale":"cannot say","abstain":true}`),
		providertest.Chat("nonsense"), providertest.Reply{Status: 400}, judgement("1")))
	path := filepath.Join(t.TempDir(), "x.sqlite")
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	kit := newKit(t, m3.Config{Store: db})
	client, _ := closed(t, kit, nil)
	opts := &m3.EvaluateOptions{Name: "answer.v1", Execution: client.ExecutionID()}
	var rows []eval.Result
	for _, want := range []struct {
		status eval.Status
		code   any
	}{{eval.Passed, nil}, {eval.Failed, nil}, {eval.Error, judge.CodeAbstained}, {eval.Error, judge.CodeJudgeMalformed}, {eval.Error, judge.CodeProvider}} {
		r, err := kit.JudgeResponse(t.Context(), localJudge(p), judged, opts)
		if err != nil || r.Status != want.status || r.Details["error_code"] != want.code || r.Kind != eval.KindJudge || r.SubjectKind != "response" || r.Evaluator != "answer.v1" {
			t.Errorf("%+v, %v; want %v", r, err, want)
		}
		rows = append(rows, r)
	}
	if r := rows[0]; *r.Score != 0.9 || r.Rationale != "because" || r.Provenance.Provider != "openai" || r.Provenance.ConfigDigest != localJudge(p).Digest() {
		t.Errorf("%+v", r)
	}
	if usage := rows[0].Details["usage"]; !cmp.Equal(usage, map[string]any{"prompt_tokens": 11.0, "completion_tokens": 7.0, "total_tokens": 18.0}) {
		t.Errorf("usage %v", usage)
	}
	if r := rows[2]; r.Rationale != "cannot say" || r.Score != nil || !strings.Contains(r.Message, "abstained") {
		t.Errorf("an abstention: %+v", r)
	}
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if diff := cmp.Diff(rows, stored(t, again, nil)); diff != "" {
		t.Errorf("rows (-returned +stored):\n%s", diff)
	}
}

// TestJudgesAtOnce: many callers of one judge get what one gets.
func TestJudgesAtOnce(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, func(r *providertest.Request) providertest.Reply {
		if strings.Contains(string(r.Body), "wrong") {
			return judgement("0.1")
		}
		return judgement("0.9")
	})
	kit := newKit(t, m3.Config{})
	j := localJudge(p)
	ask := func(actual string) string {
		r, err := kit.JudgeResponse(t.Context(), j, judge.Subject{Input: "i", Expected: "e", Actual: actual}, &m3.EvaluateOptions{Name: "answer.v1"})
		if err != nil {
			t.Error(err)
			return ""
		}
		return fmt.Sprint(r.Status, *r.Score, r.Rationale, r.SubjectDigest, r.Provenance.ConfigDigest)
	}
	want := map[string]string{"right": ask("right"), "wrong": ask("wrong")}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			actual := []string{"right", "wrong"}[i%2]
			if got := ask(actual); got != want[actual] {
				t.Errorf("%s: %s, want %s", actual, got, want[actual])
			}
		})
	}
	wg.Wait()
	if want["right"] == want["wrong"] || len(p.Requests()) != 42 {
		t.Errorf("%d requests; %v", len(p.Requests()), want)
	}
}

// TestRequiredJudge: a required judge that cannot judge blocks, after its row is stored.
func TestRequiredJudge(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	client, _ := closed(t, kit, nil)
	j := judge.LLM{Model: "m", BaseURL: "http://127.0.0.1:9", APIKeyEnv: "M3_TEST_NO_SUCH_KEY", ResponseMode: judge.JSONText}
	_, err := kit.JudgeResponse(t.Context(), j, judged, &m3.EvaluateOptions{Name: "answer.v1", Execution: client.ExecutionID(), Required: true})
	var required *eval.RequiredError
	if !errors.As(err, &required) || required.Result.Details["error_code"] != judge.CodeCredentialsMissing || !strings.Contains(err.Error(), "M3_TEST_NO_SUCH_KEY") {
		t.Errorf("error %v", err)
	}
	if rows := stored(t, kit.Store(), nil); len(rows) != 1 || rows[0].Status != eval.Error || !rows[0].Required {
		t.Errorf("rows %+v", rows)
	}
}

// TestJudgeAsEvaluator: the same judge under a registered name, for subjects that hold more.
func TestJudgeAsEvaluator(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(judgement("1")))
	kit := newKit(t, m3.Config{})
	client, _ := closed(t, kit, nil)
	register(t, kit, "judged.v1", localJudge(p).Evaluate)
	opts := &m3.EvaluateOptions{Execution: client.ExecutionID()}
	r, err := kit.Evaluate(t.Context(), map[string]any{"input": "i", "expected": "e", "actual": "a", "used_tools": []string{"canary"}}, "judged.v1", opts)
	if err != nil || r.Status != eval.Passed || r.Kind != eval.KindJudge {
		t.Errorf("%+v, %v", r, err)
	}
	if body := string(p.Requests()[0].Body); strings.Contains(body, "canary") {
		t.Errorf("more than the three texts was sent: %s", body)
	}
	r, err = kit.Evaluate(t.Context(), "a text", "judged.v1", opts)
	if err != nil || r.Status != eval.Error || r.Details["error_code"] != judge.CodeInputInvalid {
		t.Errorf("%+v, %v", r, err)
	}
	// What is wrong with its configuration is found when it is asked, and is a row, too.
	register(t, kit, "broken.v1", judge.LLM{}.Evaluate)
	r, err = kit.Evaluate(t.Context(), judged, "broken.v1", opts)
	if err != nil || r.Status != eval.Error || r.Details["error_code"] != "invalid_argument" || !strings.Contains(r.Message, "LLM.Model is empty") || r.Kind != eval.KindJudge {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestJudgesAreChecked: what cannot judge is refused before anything is asked or stored.
func TestJudgesAreChecked(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(judgement("1")))
	kit := newKit(t, m3.Config{})
	client, _ := closed(t, kit, nil)
	opts := &m3.EvaluateOptions{Name: "answer.v1", Execution: client.ExecutionID()}
	_, err := kit.JudgeResponse(t.Context(), judge.LLM{}, judged, opts)
	var bad *judge.ConfigError
	if !errors.As(err, &bad) || bad.Field != "Model" || !errors.Is(err, m3.ErrValidation) {
		t.Errorf("%v is no validation error of LLM.Model", err)
	}
	_, err = kit.JudgeResponse(t.Context(), (*judge.LLM)(nil), judged, opts)
	wantError[*m3.ValidationError](t, err, "invalid_argument", "nil *judge.LLM")
	for range 2 { // the same judge may be made anew
		if r, err := kit.JudgeResponse(t.Context(), localJudge(p), judged, opts); err != nil || r.Status != eval.Passed {
			t.Errorf("%+v, %v", r, err)
		}
	}
	other := localJudge(p)
	other.Threshold = new(0.5)
	_, err = kit.JudgeResponse(t.Context(), other, judged, opts)
	wantError[*m3.ValidationError](t, err, "invalid_argument", `"answer.v1" is the name of a judge with another configuration`)
	if rows := stored(t, kit.Store(), nil); len(rows) != 2 || len(p.Requests()) != 2 {
		t.Errorf("%d rows, %d requests", len(rows), len(p.Requests()))
	}
	_, err = m3.New(m3.Config{JudgeMaxRequests: new(-1)})
	wantError[*m3.ValidationError](t, err, "invalid_argument", "JudgeMaxRequests is -1")
}

// TestJudgeBudgetOfAKit: retries count, and what comes after the last request is a row with the reason.
func TestJudgeBudgetOfAKit(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Reply{Status: 500}, judgement("1"), judgement("1")))
	kit := newKit(t, m3.Config{JudgeMaxRequests: new(3)})
	client, _ := closed(t, kit, nil)
	register(t, kit, "judged.v1", localJudge(p).Evaluate)
	register(t, kit, "wrapped.v1", func(ctx context.Context, e eval.Context) (eval.Decision, error) {
		return localJudge(p).Evaluate(ctx, e)
	})
	var ends []any
	for _, name := range []string{"judged.v1", "wrapped.v1", "judged.v1", "wrapped.v1"} {
		r, err := kit.Evaluate(t.Context(), judged, name, &m3.EvaluateOptions{Execution: client.ExecutionID()})
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, r.Details["error_code"])
	}
	if diff := cmp.Diff([]any{nil, nil, judge.CodeBudgetExhausted, judge.CodeBudgetExhausted}, ends); diff != "" || len(p.Requests()) != 3 {
		t.Errorf("%d requests, ends (-want +got):\n%s", len(p.Requests()), diff)
	}
	another := newKit(t, m3.Config{JudgeMaxRequests: new(1)}) // counts for itself
	if r, err := another.JudgeResponse(t.Context(), localJudge(p), judged, &m3.EvaluateOptions{Name: "answer.v1"}); err != nil || r.Status != eval.Passed {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestJudgeKeyBecomesSecret: the kit hears of the key by the judge, and takes it out of everything from then on.
func TestJudgeKeyBecomesSecret(t *testing.T) {
	const key = "canary-4711-key"
	t.Setenv("M3_TEST_PLAINLY_NAMED", key)
	p := providertest.New(t, providertest.Sequence(providertest.Chat(`{"score":1,"rationale":"the key is `+key+` and Y2FuYXJ5LTQ3MTEta2V5","abstain":false}`)))
	var told []string
	kit := newKit(t, m3.Config{OnSecret: func(variable string) { told = append(told, variable) }})
	j := judge.LLM{Model: "m", BaseURL: p.URL, APIKeyEnv: "M3_TEST_PLAINLY_NAMED", ResponseMode: judge.JSONText}
	for range 2 {
		r, err := kit.JudgeResponse(t.Context(), j, judged, &m3.EvaluateOptions{Name: "answer.v1"})
		b, _ := json.Marshal(r)
		if err != nil || r.Status != eval.Passed || strings.Contains(string(b), key) || strings.Contains(string(b), "Y2FuYXJ5") {
			t.Errorf("%s, %v", b, err)
		}
	}
	if got := kit.Redact("it is " + key); strings.Contains(got, key) {
		t.Errorf("the kit does not know the key: %s", got)
	}
	if diff := cmp.Diff([]string{"M3_TEST_PLAINLY_NAMED"}, told); diff != "" {
		t.Errorf("OnSecret (-want +got):\n%s", diff)
	}
}

// TestJudgeOutOfTime: the caller's deadline ends the judge, and the row says so.
func TestJudgeOutOfTime(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, providertest.Sequence(providertest.Reply{Hang: true}))
	kit := newKit(t, m3.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, err := kit.JudgeResponse(ctx, localJudge(p), judged, &m3.EvaluateOptions{Name: "answer.v1"})
	if err != nil || r.Status != eval.Error || r.Details["error_code"] != judge.CodeTimeout || r.Details["attempts"] != 1.0 {
		t.Errorf("%+v, %v", r, err)
	}
}
