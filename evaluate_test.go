package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

// decides registers an evaluator that decides d.
func decides(t *testing.T, kit *m3.Kit, name string, d eval.Decision) {
	t.Helper()
	register(t, kit, name, func(context.Context, eval.Context) (eval.Decision, error) { return d, nil })
}

func register(t *testing.T, kit *m3.Kit, name string, f eval.Func) {
	t.Helper()
	if err := kit.RegisterEvaluator(name, f); err != nil {
		t.Fatal(err)
	}
}

// closed is a finished execution with one successful call, and its result.
func closed(t *testing.T, kit *m3.Kit, opts *m3.DirectOptions) (*m3.Client, *m3.ToolCallResult) {
	t.Helper()
	p := answers(map[string]string{"tools/call": `{"resultType":"complete","content":[{"type":"text","text":"5"}],"structuredContent":{"sum":5}}`})
	c := connect(t, kit, p.server(), opts)
	r, err := c.CallTool(t.Context(), "add", map[string]int{"a": 2, "b": 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, c)
	return c, r
}

func stored(t *testing.T, r store.Reader, q *store.EvaluationQuery) []eval.Result {
	t.Helper()
	rows, err := r.Evaluations(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// The five statuses, with score, rationale and metrics, are stored and read back, from memory and from a file that is opened again. The row that the caller
// gets is the one that is stored.
func TestEvaluateIsStored(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memory", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "db.sqlite")
			var st store.Store = memory.New(nil)
			if name == "sqlite" {
				st = openSQLite(t, path)
			}
			kit := newKit(t, m3.Config{Store: st, RunID: "r", Suite: "sums"})
			client, _ := closed(t, kit, &m3.DirectOptions{Case: "two and three"})
			var want []eval.Result
			for i, s := range eval.Statuses() {
				evaluator := fmt.Sprintf("sum.%s.v1", s)
				decides(t, kit, evaluator, eval.Decision{Status: s, Score: eval.Score(float64(i) / 3), Rationale: "because <of> it", Message: "m",
					Metrics: map[string]float64{"answer_ok": 1, "tool_ok": 0.25}, Details: map[string]any{"n": i},
					Provenance: &eval.Provenance{Kind: "rule", Provider: "me", Model: "none", RubricID: "q", RubricVersion: "3", ConfigDigest: "abc"}})
				r, err := kit.Evaluate(t.Context(), map[string]any{"answer": "5"}, evaluator,
					&m3.EvaluateOptions{Execution: client.ExecutionID(), Turn: trace.TurnID("t1"), Metadata: map[string]any{"harness_config": "direct", "n": 3}})
				if err != nil {
					t.Fatal(err)
				}
				if r.Status != s || *r.Score != float64(i)/3 || r.Metrics["tool_ok"] != 0.25 || r.Details["n"] != float64(i) || r.Metadata["n"] != 3.0 {
					t.Errorf("%+v", r)
				}
				if r.RunID != "r" || r.Suite != "sums" || r.Case != "two and three" || r.Turn != "t1" || r.Kind != eval.KindEvaluator || r.SubjectKind != "json" ||
					r.SubjectDigest != eval.Digest(trace.JSON(`{"answer":"5"}`)) || r.Duration <= 0 || time.Since(r.Created) > time.Minute || r.Required {
					t.Errorf("%+v", r)
				}
				want = append(want, r)
			}
			if diff := cmp.Diff(want, stored(t, st, &store.EvaluationQuery{Execution: client.ExecutionID()})); diff != "" {
				t.Errorf("stored (-returned +stored):\n%s", diff)
			}
			if diff := cmp.Diff(want, kit.EvaluationResults()); diff != "" {
				t.Errorf("EvaluationResults:\n%s", diff)
			}
			if name == "sqlite" {
				if err := errors.Join(kit.Close(), st.Close()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, stored(t, openSQLite(t, path), nil)); diff != "" {
					t.Errorf("after opening the file again:\n%s", diff)
				}
			}
		})
	}
}

// What an evaluator gets is redacted, canonical and its own: whatever it does to it changes nothing that is stored, nor what the next one gets.
func TestEvaluationContext(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{SensitiveKeys: []string{"pin"}})
	p := answers(map[string]string{"tools/call": `{"resultType":"complete","content":[{"type":"text","text":"` + secretValue + `"}]}`})
	client := connect(t, kit, m3.PipeServer{Name: "peer", Serve: p.server().Serve}, nil)
	if _, err := client.CallTool(t.Context(), "add", map[string]string{"pin": "1234-5678"}, nil); err != nil {
		t.Fatal(err)
	}
	finish(t, client)
	var got []eval.Context
	register(t, kit, "looks.v1", func(_ context.Context, e eval.Context) (eval.Decision, error) {
		v, err := e.View()
		if err != nil {
			return eval.Decision{}, err
		}
		for _, c := range v.ToolCalls().All() {
			if strings.Contains(fmt.Sprint(c.Arguments), "1234") {
				return eval.PassIf(false, "the view shows what is secret"), nil
			}
		}
		keep := e
		keep.Subject, keep.Artifacts, keep.Metadata = slices.Clone(e.Subject), map[string]trace.JSON{"a": slices.Clone(e.Artifacts["a"])}, map[string]any{"k": e.Metadata["k"]}
		got = append(got, keep)
		clear(e.Subject)
		clear(e.Artifacts["a"])
		e.Artifacts["b"], e.Metadata["k"], e.Execution = nil, "changed", "changed"
		return eval.PassIf(true, "pin=1234-5678"), nil
	})
	subject := map[string]any{"z": 1, "pin": "1234-5678", "a": []int{1}}
	artifacts := map[string]any{"a": map[string]string{"pin": "1234-5678"}}
	opts := &m3.EvaluateOptions{Execution: client.ExecutionID(), Case: "c", Goal: "g", Artifacts: artifacts, Metadata: map[string]any{"k": "v"}}
	var rows []eval.Result
	for range 2 {
		r, err := kit.Evaluate(t.Context(), subject, "looks.v1", opts)
		if err != nil || r.Status != eval.Passed {
			t.Fatalf("%+v, %v", r, err)
		}
		rows = append(rows, r)
	}
	if len(got) != 2 {
		t.Fatalf("the evaluator ran %d times", len(got))
	}
	for _, e := range got {
		if strings.Contains(string(e.Subject)+string(e.Artifacts["a"]), "1234") || !strings.HasPrefix(string(e.Subject), `{"a":[1],"pin":"`) || !strings.HasSuffix(string(e.Subject), `,"z":1}`) {
			t.Errorf("subject %s, artifact %s", e.Subject, e.Artifacts["a"])
		}
		if e.Execution != client.ExecutionID() || e.Case != "c" || e.Goal != "g" || e.SubjectKind != "json" || e.SubjectDigest != eval.Digest(e.Subject) || e.Metadata["k"] != "v" {
			t.Errorf("%+v", e)
		}
	}
	if rows[0].SubjectDigest != got[0].SubjectDigest || rows[0].Lineage() != rows[1].Lineage() || rows[0].Metadata["k"] != "v" {
		t.Errorf("rows %+v", rows)
	}
	if subject["pin"] != "1234-5678" || opts.Metadata["k"] != "v" || len(artifacts) != 1 {
		t.Error("what the caller passed was changed")
	}
	// What was handed out is the caller's.
	kit.EvaluationResults()[0].Metadata["k"] = "changed"
	if r := kit.EvaluationResults()[0]; r.Metadata["k"] != "v" {
		t.Error("EvaluationResults shares with the kit")
	}
}

// A known secret is taken out of everything that is kept.
func TestEvaluationsAreRedacted(t *testing.T) {
	kit := newKit(t, m3.Config{})
	server := fixture(t, "plain")
	server.Secrets = map[string]m3.SecretRef{"TOKEN": m3.EnvSecret(secretName)}
	client := connect(t, kit, server, nil)
	finish(t, client)
	decides(t, kit, "tells.v1", eval.Decision{Status: eval.Failed, Rationale: "it said " + secretValue, Message: secretValue, Details: map[string]any{"x": secretValue},
		Provenance: &eval.Provenance{Kind: "k", Model: secretValue}})
	r, err := kit.Evaluate(t.Context(), "the value is "+secretValue, "tells.v1", &m3.EvaluateOptions{Execution: client.ExecutionID(), Case: "of " + secretValue,
		Metadata: map[string]any{"k": secretValue}, Required: true})
	if err == nil || strings.Contains(err.Error(), secretValue) {
		t.Errorf("error %v", err)
	}
	rows := stored(t, kit.Store(), nil)
	b, jerr := json.Marshal([]any{r, rows, kit.EvaluationResults()})
	if jerr != nil || len(rows) != 1 || strings.Contains(string(b), secretValue) {
		t.Errorf("%s, %v", b, jerr)
	}
	if r.SubjectDigest == eval.Digest(trace.JSON(`"the value is `+secretValue+`"`)) {
		t.Error("the digest is that of the secret")
	}
}

// An evaluator that does not work is status error, with a text that says what happened and nothing of what the evaluator said. It is stored like every other.
func TestEvaluatorThatDoesNotWork(t *testing.T) {
	t.Parallel()
	const hidden = "hidden detail"
	deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 20*time.Millisecond)
	}
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	ok := func(change func(*eval.Decision)) eval.Func {
		return func(context.Context, eval.Context) (eval.Decision, error) {
			d := eval.PassIf(true, hidden)
			change(&d)
			return d, nil
		}
	}
	for name, tt := range map[string]struct {
		f    eval.Func
		want string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
	}{
		"error": {f: func(context.Context, eval.Context) (eval.Decision, error) {
			return eval.PassIf(true, ""), errors.New(hidden)
		},
			want: "the evaluator returned an error (*errors.errorString)"},
		"panic":     {f: func(context.Context, eval.Context) (eval.Decision, error) { panic(hidden) }, want: "the evaluator panicked (string)"},
		"nil panic": {f: func(context.Context, eval.Context) (eval.Decision, error) { panic(nil) }, want: "the evaluator panicked"},
		"goexit": {f: func(context.Context, eval.Context) (eval.Decision, error) {
			runtime.Goexit()
			return eval.Decision{}, nil
		},
			want: "the evaluator ended its goroutine"},
		"blocks": {f: func(context.Context, eval.Context) (eval.Decision, error) {
			<-release
			return eval.PassIf(true, ""), nil
		}, want: "did not return before its context ended", ctx: deadline},
		"honours ctx": {f: func(ctx context.Context, _ eval.Context) (eval.Decision, error) {
			<-ctx.Done()
			return eval.Decision{}, ctx.Err()
		}, want: "context ended", ctx: deadline},
		"no status":        {f: ok(func(d *eval.Decision) { d.Status = "" }), want: "no status"},
		"unknown status":   {f: ok(func(d *eval.Decision) { d.Status = hidden }), want: "unknown status"},
		"missing":          {f: ok(func(d *eval.Decision) { d.Status = eval.Missing }), want: "unknown status"},
		"score":            {f: ok(func(d *eval.Decision) { d.Score = eval.Score(math.NaN()) }), want: "not a finite number"},
		"metric":           {f: ok(func(d *eval.Decision) { d.Metrics = map[string]float64{hidden: math.Inf(1)} }), want: "not a finite number"},
		"too many metrics": {f: ok(func(d *eval.Decision) { d.Metrics = manyMetrics(1001) }), want: "1001 metrics, at most 1000"},
		"details":          {f: ok(func(d *eval.Decision) { d.Details = map[string]any{hidden: func() {}} }), want: "details that do not encode to JSON"},
		"large details":    {f: ok(func(d *eval.Decision) { d.Details = map[string]any{"a": strings.Repeat("x", 256<<10)} }), want: "details of 262"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := newKit(t, m3.Config{})
			client, _ := closed(t, kit, nil)
			register(t, kit, "broken.v1", tt.f)
			ctx := t.Context()
			if tt.ctx != nil {
				var cancel context.CancelFunc
				ctx, cancel = tt.ctx(ctx)
				defer cancel()
			}
			r, err := kit.Evaluate(ctx, "x", "broken.v1", &m3.EvaluateOptions{Execution: client.ExecutionID()})
			if err != nil || r.Status != eval.Error || !strings.Contains(r.Message, tt.want) || r.Rationale != "" || r.Score != nil || r.Metrics != nil {
				t.Errorf("%+v, %v; want the message %q", r, err, tt.want)
			}
			b, _ := json.Marshal(r)
			if strings.Contains(string(b), hidden) {
				t.Errorf("it says what the evaluator said: %s", b)
			}
			if diff := cmp.Diff([]eval.Result{r}, stored(t, kit.Store(), nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func manyMetrics(n int) map[string]float64 {
	m := map[string]float64{}
	for i := range n {
		m[fmt.Sprint(i)] = 1
	}
	return m
}

// Long texts are cut.
func TestEvaluationTextsAreBounded(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	decides(t, kit, "long.v1", eval.Decision{Status: eval.Passed, Rationale: strings.Repeat("ü", 4000), Message: "\xff"})
	r, err := kit.Evaluate(t.Context(), nil, "long.v1", nil)
	if err != nil || len(r.Rationale) > 4000 || !strings.HasSuffix(r.Rationale, "ü…") || r.Message != "\uFFFD" {
		t.Errorf("%d bytes, %q, %v", len(r.Rationale), r.Message, err)
	}
}

func TestRegisterEvaluator(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	f := func(context.Context, eval.Context) (eval.Decision, error) { return eval.PassIf(true, ""), nil }
	register(t, kit, "a.v1", f)
	for _, tt := range []struct {
		name string
		f    eval.Func
		want string
	}{
		{"", f, "blank"}, {" \t", f, "blank"}, {" a", f, "space"}, {"a\nb", f, "control character"}, {"\xff", f, "control character"}, {strings.Repeat("x", 257), f, "257 characters"},
		{"nil.v1", nil, "is nil"}, {"a.v1", f, "registered already"}, {eval.OutputHasText, f, "built-in"},
	} {
		wantError[*m3.ValidationError](t, kit.RegisterEvaluator(tt.name, tt.f), "invalid_argument", tt.want)
	}
	_, err := kit.Evaluate(t.Context(), "x", "b.v1", nil)
	wantError[*m3.UnsupportedError](t, err, "unsupported", `no evaluator "b.v1": register it`)
	if len(kit.EvaluationResults()) != 0 {
		t.Error("something was evaluated")
	}
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{kit.RegisterEvaluator("c.v1", f), second(kit.Evaluate(t.Context(), "x", "a.v1", nil))} {
		if !errors.Is(err, m3.ErrKitClosed) {
			t.Errorf("a closed kit: %v", err)
		}
	}
}

// The execution and the turn may be named in several places. They must agree, and an id that is nobody's is not taken.
func TestEvaluationIsTied(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	one, result := closed(t, kit, &m3.DirectOptions{Case: "one"})
	two, _ := closed(t, kit, nil)
	a, b := one.ExecutionID(), two.ExecutionID()
	view, err := one.View()
	if err != nil {
		t.Fatal(err)
	}
	traceA, err := one.FinalTrace()
	if err != nil {
		t.Fatal(err)
	}
	traceB, err := two.FinalTrace()
	if err != nil {
		t.Fatal(err)
	}
	decides(t, kit, "a.v1", eval.PassIf(true, ""))
	type object = map[string]any
	for name, tt := range map[string]struct {
		subject any
		opts    m3.EvaluateOptions
		id      trace.ExecutionID
		turn    trace.TurnID
		want    string // of the error
	}{
		"nowhere":                        {subject: "x"},
		"option":                         {subject: "x", opts: m3.EvaluateOptions{Execution: a, Turn: trace.TurnID("t")}, id: a, turn: "t"},
		"trace":                          {subject: "x", opts: m3.EvaluateOptions{Trace: traceA}, id: a},
		"client":                         {subject: one, id: a},
		"view":                           {subject: view, id: a},
		"pointer to a view":              {subject: &view, id: a},
		"trace as subject":               {subject: traceA, id: a},
		"result":                         {subject: result, id: a},
		"member":                         {subject: object{"execution_id": string(a), "turn_id": "t"}, id: a, turn: "t"},
		"member of a snapshot":           {subject: object{"snapshot": object{"execution_id": string(a)}}, id: a},
		"member of a trace":              {subject: object{"trace": object{"execution_id": string(a), "turn_id": "t"}}, id: a, turn: "t"},
		"artifact":                       {subject: "x", opts: m3.EvaluateOptions{Artifacts: object{"f": object{"execution_id": string(a)}}}, id: a},
		"everywhere":                     {subject: one, opts: m3.EvaluateOptions{Execution: a, Trace: traceA, Artifacts: object{"f": object{"execution_id": string(a)}}}, id: a},
		"no text":                        {subject: object{"execution_id": 7, "snapshot": "x"}},
		"option and trace":               {subject: "x", opts: m3.EvaluateOptions{Execution: a, Trace: traceB}, want: "EvaluateOptions.Execution names the execution"},
		"option and client":              {subject: one, opts: m3.EvaluateOptions{Execution: b}, want: "and the subject names"},
		"option and view":                {subject: view, opts: m3.EvaluateOptions{Execution: b}, want: "and the subject names"},
		"option and result":              {subject: result, opts: m3.EvaluateOptions{Execution: b}, want: "and the subject names"},
		"trace and member":               {subject: object{"execution_id": string(b)}, opts: m3.EvaluateOptions{Trace: traceA}, want: "the subject's execution_id names"},
		"two members":                    {subject: object{"execution_id": string(b), "snapshot": object{"execution_id": string(a)}}, want: "the subject's snapshot.execution_id"},
		"client and artifact":            {subject: one, opts: m3.EvaluateOptions{Artifacts: object{"f": object{"execution_id": string(b)}}}, want: "the artifact f's execution_id"},
		"two turns":                      {subject: object{"turn_id": "u"}, opts: m3.EvaluateOptions{Turn: trace.TurnID("t")}, want: "EvaluateOptions.Turn names the turn"},
		"nobody's id":                    {subject: "x", opts: m3.EvaluateOptions{Execution: "none"}, want: `execution "none" is not in the kit's store`},
		"nobody's id in the subject":     {subject: object{"execution_id": "none"}, want: `execution "none" is not in the kit's store`},
		"nil client":                     {subject: (*m3.Client)(nil), want: "the subject is a nil *m3.Client"},
		"nil view":                       {subject: (*trace.View)(nil), want: "the subject is a nil *trace.View"},
		"nil result":                     {subject: (*m3.ToolCallResult)(nil), want: "the subject is a nil"},
		"what is no JSON":                {subject: func() {}, want: "does not encode to JSON"},
		"raw bytes that are no JSON":     {subject: json.RawMessage("{"), want: "does not encode to JSON"},
		"too large":                      {subject: strings.Repeat("x", 16<<20), want: "at most 16777216 are allowed: pass only what is to be evaluated"},
		"an artifact that is no JSON":    {subject: "x", opts: m3.EvaluateOptions{Artifacts: object{"f": math.NaN()}}, want: `the artifact "f" does not encode`},
		"metadata that is no scalar":     {subject: "x", opts: m3.EvaluateOptions{Metadata: object{"k": []int{1}}}, want: `metadata "k"`},
		"another name in the options":    {subject: "x", opts: m3.EvaluateOptions{Name: "b.v1"}, want: `and "b.v1" by EvaluateOptions.Name`},
		"the same name in the options":   {subject: "x", opts: m3.EvaluateOptions{Name: "a.v1"}},
		"a view of an execution unknown": {subject: foreignView(t), id: "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := kit.Evaluate(t.Context(), tt.subject, "a.v1", &tt.opts)
			if tt.want != "" {
				e := wantError[*m3.ValidationError](t, err, "invalid_argument", tt.want)
				if !errors.Is(e, m3.ErrValidation) {
					t.Error("not ErrValidation")
				}
				return
			}
			if err != nil || r.Execution != tt.id || r.Turn != tt.turn || tt.id == a && r.Case != "one" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// foreignView is of an execution that no kit of the test knows.
func foreignView(t *testing.T) trace.View {
	t.Helper()
	a := &trace.Arena{}
	ev := trace.Event{ExecutionID: "elsewhere", Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Payload: trace.JSON(`{"outcome":"failed"}`)}
	a.Append(&ev)
	v, err := trace.New("elsewhere", a).View()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every sort of subject, as the built-in evaluators see it (E16).
func TestBuiltinEvaluators(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	client, ok := closed(t, kit, nil)
	p := answers(map[string]string{"tools/call": `{"resultType":"complete","content":[{"type":"text","text":" "}],"isError":true}`})
	open := connect(t, kit, p.server(), nil)
	failed, err := open.CallTool(t.Context(), "fail", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := client.View()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := kit.Trace(t.Context(), client.ExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	text := "some"
	for _, tt := range []struct {
		name                        string
		subject                     any
		kind                        string
		completed, succeeded, texts eval.Status
	}{
		{"client", client, "execution", eval.Passed, eval.NotRun, eval.NotRun},
		{"trace", tr, "execution", eval.Passed, eval.NotRun, eval.NotRun},
		{"view", view, "view", eval.Passed, eval.NotRun, eval.NotRun},
		{"open client", open, "execution", eval.Inconclusive, eval.NotRun, eval.NotRun},
		{"result", ok, "tool_call_result", eval.Passed, eval.Passed, eval.Passed},
		{"failed result", failed, "tool_call_result", eval.Inconclusive, eval.Failed, eval.Failed},
		{"a result made by hand", &m3.ToolCallResult{StructuredContent: trace.JSON(`{"sum":5}`)}, "tool_call_result", eval.Inconclusive, eval.Passed, eval.Failed},
		{"resource", &m3.ResourceReadResult{Contents: []m3.ResourceContents{{URI: "a", Text: &text}}}, "resource_read_result", eval.Inconclusive, eval.NotRun, eval.Passed},
		{"prompt", &m3.PromptResult{Messages: []m3.PromptMessage{{Role: "user", Content: m3.Content{Type: "text", Text: "t"}}}}, "prompt_result", eval.Inconclusive, eval.NotRun, eval.Passed},
		{"text", "x", "text", eval.Inconclusive, eval.NotRun, eval.Passed},
		{"nothing", nil, "json", eval.Inconclusive, eval.NotRun, eval.NotRun},
		{"foreign view", foreignView(t), "view", eval.Failed, eval.NotRun, eval.NotRun},
		{"response", eval.Response{Input: "i", Expected: "e", Actual: "a"}, "response", eval.Inconclusive, eval.NotRun, eval.NotRun},
	} {
		for name, want := range map[string]eval.Status{eval.ExecutionCompleted: tt.completed, eval.ToolCallSucceeded: tt.succeeded, eval.OutputHasText: tt.texts} {
			r, err := kit.Evaluate(t.Context(), tt.subject, name, nil)
			if err != nil || r.Status != want || r.SubjectKind != tt.kind {
				t.Errorf("%s of the %s: %s (%s %s), kind %s, %v; want %s, kind %s", name, tt.name, r.Status, r.Rationale, r.Message, r.SubjectKind, err, want, tt.kind)
			}
		}
	}
	// What the server left out is said in the subject, and the rest stands as it stood on the wire.
	r, _ := kit.Evaluate(t.Context(), ok, eval.ToolCallSucceeded, nil)
	if want := eval.Digest(trace.JSON(`{"content":[{"text":"5","type":"text"}],"isError":false,"resultType":"complete","structuredContent":{"sum":5}}`)); r.SubjectDigest != want {
		t.Errorf("digest %s, want %s", r.SubjectDigest, want)
	}
}

// Evaluations run when they are called and at no other time; a registration never runs its evaluator; and neither changes an execution (E14, E35, C4).
func TestEvaluationsChangeNothing(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	var runs atomic.Int64
	register(t, kit, "sum.v1", func(context.Context, eval.Context) (eval.Decision, error) {
		runs.Add(1)
		return eval.PassIf(false, "wrong"), nil
	})
	client, _ := closed(t, kit, &m3.DirectOptions{Evaluations: []eval.Registration{{Name: "sum.v1", Required: true}, {Name: "nobody.v1"}}})
	if n := runs.Load(); n != 0 || len(kit.EvaluationResults()) != 0 {
		t.Fatalf("the evaluator ran %d times by itself", n)
	}
	before := everything(t, kit, client.ExecutionID())
	if !strings.Contains(before, `"evaluations":[{"name":"sum.v1","required":true},{"name":"nobody.v1"}]`) {
		t.Errorf("the specification does not declare what was declared: %s", before)
	}
	var required *eval.RequiredError
	if _, err := kit.Evaluate(t.Context(), client, "sum.v1", nil); !errors.As(err, &required) {
		t.Errorf("an evaluation that the execution declares as required: %v", err)
	}
	register(t, kit, "panics.v1", func(context.Context, eval.Context) (eval.Decision, error) { panic("x") })
	if _, err := kit.Evaluate(t.Context(), client, "panics.v1", nil); err != nil {
		t.Error(err)
	}
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
	if after := everything(t, kit, client.ExecutionID()); after != before {
		t.Errorf("the execution has changed:\n%s\n%s", before, after)
	}
}

// everything that is stored of an execution itself.
func everything(t *testing.T, kit *m3.Kit, id trace.ExecutionID) string {
	t.Helper()
	info, err := kit.Store().Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := kit.Trace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	v, err := tr.View()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(struct {
		Info store.ExecutionInfo
		View trace.View
	}{info, v})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRegistrationsAreChecked(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	for want, list := range map[string][]eval.Registration{"blank": {{}}, `"a" is declared twice`: {{Name: "a"}, {Name: "a", Required: true}}, "control character": {{Name: "a\x00"}}} {
		_, err := kit.Direct(t.Context(), silent().server(), &m3.DirectOptions{Evaluations: list})
		wantError[*m3.ValidationError](t, err, "invalid_argument", want)
	}
}

// Required on a call fixes that lineage: stored first, then the error; a later advisory evaluation cannot erase it, also not by another kit; and it does not spread
// (E19, E21, E22).
func TestRequiredEvaluations(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	var gate eval.Gate
	kit := newKit(t, m3.Config{Store: st, Gate: &gate})
	client, _ := closed(t, kit, nil)
	id := client.ExecutionID()
	status := eval.Passed
	f := func(context.Context, eval.Context) (eval.Decision, error) {
		return eval.Decision{Status: status, Rationale: "why"}, nil
	}
	register(t, kit, "a.v1", f)
	evaluate := func(k *m3.Kit, subject any, s eval.Status, opts m3.EvaluateOptions) (eval.Result, error) {
		t.Helper()
		status = s
		return k.Evaluate(t.Context(), subject, "a.v1", &opts)
	}
	blocks := func(what string, r eval.Result, err error, n int) {
		t.Helper()
		var e *eval.RequiredError
		if !errors.As(err, &e) || e.Code() != "required_evaluation_failed" || e.Result.ID != r.ID || !r.Required {
			t.Fatalf("%s: %+v, %v", what, r, err)
		}
		rows := stored(t, st, &store.EvaluationQuery{Execution: id})
		if len(rows) != n || rows[n-1].ID != r.ID {
			t.Fatalf("%s: %d rows are stored, the last %+v; want %d", what, len(rows), rows[len(rows)-1], n)
		}
	}
	// Each of the four that are no pass.
	n := 0
	for _, s := range []eval.Status{eval.Failed, eval.Error, eval.Inconclusive, eval.NotRun} {
		n++
		r, err := evaluate(kit, string(s), s, m3.EvaluateOptions{Execution: id, Required: true})
		blocks(string(s), r, err, n)
	}
	// A pass is none, and the lineage stays required.
	if r, err := evaluate(kit, "x", eval.Passed, m3.EvaluateOptions{Execution: id, Required: true}); err != nil || !r.Required {
		t.Fatalf("a pass: %+v, %v", r, err)
	}
	r, err := evaluate(kit, "x", eval.Failed, m3.EvaluateOptions{Execution: id})
	blocks("an advisory one afterwards", r, err, n+2)
	// By another kit, which knows of it from the store alone.
	other := newKit(t, m3.Config{Store: st, Gate: &gate})
	register(t, other, "a.v1", f)
	r, err = evaluate(other, "x", eval.Inconclusive, m3.EvaluateOptions{Execution: id})
	blocks("an advisory one of another kit", r, err, n+3)
	// Another subject, turn, or evaluator is another lineage.
	for _, opts := range []m3.EvaluateOptions{{Execution: id, Turn: trace.TurnID("t")}, {}} {
		if r, err := evaluate(kit, "x", eval.Failed, opts); err != nil || r.Required {
			t.Errorf("it has spread to %+v: %+v, %v", opts, r, err)
		}
	}
	if r, err := evaluate(kit, "y", eval.Failed, m3.EvaluateOptions{Execution: id}); err != nil || r.Required {
		t.Errorf("it has spread to another subject: %+v, %v", r, err)
	}
	// The gate knows all of it: the four, and the last of the lineage.
	var got []string
	for _, b := range gate.Blocked() {
		got = append(got, string(b.Status))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"error", "failed", "inconclusive", "inconclusive", "not_run"}, got); diff != "" {
		t.Errorf("blocked:\n%s", diff)
	}
	// And the lineage may pass in the end.
	if _, err := evaluate(kit, "x", eval.Passed, m3.EvaluateOptions{Execution: id}); err != nil || len(gate.Blocked()) != 4 {
		t.Errorf("%v, %d blocked", err, len(gate.Blocked()))
	}
}

// An evaluator may take its time and use goroutines of its own.
func TestEvaluatorMayBlock(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	started, release := make(chan struct{}), make(chan struct{})
	register(t, kit, "slow.v1", func(ctx context.Context, _ eval.Context) (eval.Decision, error) {
		decided := make(chan eval.Decision)
		go func() {
			close(started)
			<-release
			decided <- eval.PassIf(true, "at last")
		}()
		select {
		case d := <-decided:
			return d, nil
		case <-ctx.Done():
			return eval.Decision{}, ctx.Err()
		}
	})
	done := make(chan eval.Result)
	go func() {
		r, err := kit.Evaluate(t.Context(), "x", "slow.v1", nil)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	<-started
	// Others go on meanwhile.
	if r, err := kit.Evaluate(t.Context(), "x", eval.OutputHasText, nil); err != nil || r.Status != eval.Passed {
		t.Errorf("%+v, %v", r, err)
	}
	close(release)
	if r := <-done; r.Status != eval.Passed || r.Rationale != "at last" {
		t.Errorf("%+v", r)
	}
}

// A detached evaluation is stored only when it is required.
func TestDetachedEvaluations(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{RunID: "r", Suite: "s", Case: "TestIt", TestID: "t1"})
	decides(t, kit, "a.v1", eval.PassIf(false, "no"))
	advisory, err := kit.Evaluate(t.Context(), "x", "a.v1", nil)
	if err != nil || advisory.Case != "TestIt" || advisory.Suite != "s" || advisory.TestID != "t1" {
		t.Fatalf("%+v, %v", advisory, err)
	}
	if rows := stored(t, kit.Store(), nil); len(rows) != 0 {
		t.Errorf("stored: %+v", rows)
	}
	required, err := kit.Evaluate(t.Context(), "x", "a.v1", &m3.EvaluateOptions{Required: true})
	var e *eval.RequiredError
	if !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]eval.Result{required}, stored(t, kit.Store(), nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]eval.Result{advisory, required}, kit.EvaluationResults()); diff != "" {
		t.Error(diff)
	}
	// The run is there, although nothing was executed.
	if run, err := kit.Store().Run(t.Context(), "r"); err != nil || run.Status != store.RunRunning {
		t.Errorf("%+v, %v", run, err)
	}
}

// A store that fails is an error, a required evaluation is an error all the same, and the gate hears of it.
func TestEvaluationThatCannotBeStored(t *testing.T) {
	t.Parallel()
	st := newFailingStore()
	var gate eval.Gate
	kit := newKit(t, m3.Config{Store: st, JoinRun: true, Gate: &gate})
	client, _ := closed(t, kit, nil)
	decides(t, kit, "a.v1", eval.PassIf(false, "no"))
	st.all.Store(true)
	defer st.all.Store(false)
	r, err := kit.Evaluate(t.Context(), client, "a.v1", &m3.EvaluateOptions{Required: true})
	var e *eval.RequiredError
	if !errors.Is(err, errDisk) || !errors.As(err, &e) || !strings.Contains(err.Error(), "could not be stored") || r.Status != eval.Failed {
		t.Errorf("%+v, %v", r, err)
	}
	if len(gate.Blocked()) != 1 {
		t.Errorf("blocked: %+v", gate.Blocked())
	}
}

// What was asked for with a context that has ended is kept too.
func TestEvaluateAfterTheEnd(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	client, _ := closed(t, kit, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	register(t, kit, "waits.v1", func(ctx context.Context, _ eval.Context) (eval.Decision, error) {
		<-ctx.Done()
		return eval.Decision{}, ctx.Err()
	})
	r, err := kit.Evaluate(ctx, client, "waits.v1", &m3.EvaluateOptions{Required: true})
	var e *eval.RequiredError
	if !errors.As(err, &e) || r.Status != eval.Error || len(stored(t, kit.Store(), &store.EvaluationQuery{Required: true})) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestConcurrentEvaluations(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	client, _ := closed(t, kit, nil)
	register(t, kit, "a.v1", func(_ context.Context, e eval.Context) (eval.Decision, error) {
		_, err := e.View()
		return eval.PassIf(string(e.Subject) != "3", ""), err
	})
	const workers, each = 8, 25
	var wg sync.WaitGroup
	var blocked atomic.Int64
	for range workers {
		wg.Go(func() {
			for i := range each {
				_, err := kit.Evaluate(t.Context(), i, "a.v1", &m3.EvaluateOptions{Execution: client.ExecutionID(), Required: i%2 == 1})
				var e *eval.RequiredError
				switch {
				case errors.As(err, &e):
					blocked.Add(1)
				case err != nil:
					t.Error(err)
				}
				_ = kit.EvaluationResults()
			}
		})
	}
	wg.Wait()
	rows := stored(t, kit.Store(), nil)
	if len(rows) != workers*each || blocked.Load() != workers {
		t.Errorf("%d rows, %d blocked", len(rows), blocked.Load())
	}
	for i := 1; i < len(rows); i++ {
		if !rows[i].Created.After(rows[i-1].Created) {
			t.Fatalf("rows %d and %d are of one time", i-1, i)
		}
	}
}

type scriptedJudge struct{ d eval.Decision }

func (j scriptedJudge) Evaluate(_ context.Context, e eval.Context) (eval.Decision, error) {
	if string(e.Subject) != `{"actual":"5","expected":"The answer is 5.","input":"2 + 3?"}` || e.SubjectKind != "response" {
		return eval.Decision{}, fmt.Errorf("subject %s", e.Subject)
	}
	return j.d, nil
}

func TestJudgeResponse(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	client, _ := closed(t, kit, nil)
	j := scriptedJudge{eval.Decision{Status: eval.Passed, Score: eval.Score(0.9), Provenance: &eval.Provenance{Kind: eval.ProvenanceJudge, Provider: "openai", Model: "m"}}}
	subject := eval.Response{Input: "2 + 3?", Expected: "The answer is 5.", Actual: "5"}
	for range 2 {
		r, err := kit.JudgeResponse(t.Context(), j, subject, &m3.EvaluateOptions{Name: "answer.v1", Execution: client.ExecutionID(), Required: true})
		if err != nil || r.Kind != eval.KindJudge || r.Status != eval.Passed || r.Provenance.Model != "m" || r.Evaluator != "answer.v1" || !r.Required {
			t.Errorf("%+v, %v", r, err)
		}
	}
	register(t, kit, "taken.v1", j.Evaluate)
	for want, opts := range map[string]*m3.EvaluateOptions{"Name is needed": nil, "is a registered evaluator": {Name: "taken.v1"}, "space": {Name: " x"}} {
		_, err := kit.JudgeResponse(t.Context(), j, subject, opts)
		wantError[*m3.ValidationError](t, err, "invalid_argument", want)
	}
	_, err := kit.JudgeResponse(t.Context(), nil, subject, &m3.EvaluateOptions{Name: "answer.v1"})
	wantError[*m3.ValidationError](t, err, "invalid_argument", "the judge is nil")
	if r, err := kit.Evaluate(t.Context(), subject, "taken.v1", nil); err != nil || r.Kind != eval.KindJudge {
		t.Errorf("a registered judge: %+v, %v", r, err)
	}
}
