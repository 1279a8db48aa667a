package model_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// TestStatusFaults: an HTTP error has the form, type and code of the real provider's.
func TestStatusFaults(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][3]string{ // type and code of OpenAI, type of Anthropic
		400: {"invalid_request_error", "<nil>", "invalid_request_error"}, 401: {"invalid_request_error", "invalid_api_key", "authentication_error"},
		404: {"invalid_request_error", "model_not_found", "not_found_error"}, 429: {"requests", "rate_limit_exceeded", "rate_limit_error"},
		500: {"server_error", "server_error", "api_error"}, 503: {"server_error", "server_is_overloaded", "api_error"}, 529: {"server_error", "server_error", "overloaded_error"},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			eachDialect(t, func(t *testing.T, d harness.Dialect) {
				r := open(t, d, model.Script{model.Fault(model.Failure{Status: status, RetryAfter: 1500 * time.Millisecond}).Times(2)})
				for _, stream := range []bool{true, false} {
					got := r.ask(hello(d, stream))
					if got.status != status || got.header.Get("Retry-After") != "2" || got.header.Get("Retry-After-Ms") != "1500" || got.header.Get("Content-Type") != "application/json" {
						t.Errorf("answer %d %v", got.status, got.header)
					}
					if d == harness.AnthropicMessages {
						wantAt(t, got.body, "error", "type")
						wantAt(t, got.body, want[2], "error", "type")
						continue
					}
					wantAt(t, got.body, want[0], "error", "type")
					wantAt(t, got.body, want[1], "error", "code")
				}
				if x := r.last(); x.Status != status || !strings.HasPrefix(x.Error, "scripted fault: status ") || !strings.Contains(string(x.Response), "error") || x.Role != model.RoleTurn {
					t.Errorf("recorded %+v", x)
				}
				r.followed()
			})
		})
	}
}

// TestOwnError: a script's own type, code and message stand in place of the usual ones.
func TestOwnError(t *testing.T) {
	t.Parallel()
	f := model.Failure{Type: "insufficient", Code: "insufficient_quota", Message: "You have no money."}
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		withStatus, inStream := f, f
		withStatus.Status, inStream.Kind = 429, model.FailError
		r := open(t, d, model.Script{model.Fault(withStatus), model.Say("so far").Fault(inStream), model.Fault(inStream)})
		wantAt(t, r.ask(hello(d, true)).body, "You have no money.", "error", "message")
		streamed := r.ask(hello(d, true))
		all := events(t, streamed.body)
		last := all[len(all)-1]
		if streamed.status != http.StatusOK || !strings.Contains(last.data, "You have no money.") || !strings.Contains(streamed.body, "so ") {
			t.Errorf("stream %d %s", streamed.status, streamed.body)
		}
		if name := map[harness.Dialect]string{harness.OpenAIResponses: "response.failed", harness.AnthropicMessages: "error"}[d]; last.name != name {
			t.Errorf("the error is the event %q, want %q", last.name, name)
		}
		if x := r.last(); x.Error != "scripted fault: error" || !strings.Contains(string(x.Response), "so far") {
			t.Errorf("recorded %q %s", x.Error, x.Response)
		}
		whole := r.ask(hello(d, false))
		if whole.status != http.StatusInternalServerError {
			t.Errorf("without a stream the status is %d", whole.status)
		}
		wantAt(t, whole.body, "You have no money.", "error", "message")
		r.followed()
	})
}

// TestCut: the connection ends in the middle of the text, and no end of the answer comes.
func TestCut(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		r := open(t, d, model.Script{model.Say("partial text").Fault(model.Failure{Kind: model.FailCut}).Times(2), model.Fault(model.Failure{Kind: model.FailCut})})
		got := r.ask(hello(d, true))
		if got.status != http.StatusOK || got.err == nil || !strings.Contains(got.body, "partial ") {
			t.Errorf("answer %d, error %v, %s", got.status, got.err, got.body)
		}
		for _, end := range []string{"[DONE]", "finish_reason\":\"stop", "message_stop", "content_block_stop", "response.completed", "output_item.done", "output_text.done"} {
			if strings.Contains(got.body, end) {
				t.Errorf("a cut stream has %s", end)
			}
		}
		x := r.last()
		if x.Error != "scripted fault: cut" || !strings.Contains(string(x.Response), "partial text") || strings.Contains(string(x.Response), "completed") || strings.Contains(string(x.Response), "end_turn") {
			t.Errorf("recorded %q %s", x.Error, x.Response)
		}
		if whole := r.ask(hello(d, false)); whole.err == nil {
			t.Errorf("without a stream: %d %s", whole.status, whole.body)
		}
		if bare := r.ask(hello(d, true)); bare.err == nil {
			t.Errorf("cut before anything: %d %s", bare.status, bare.body)
		}
		r.followed()
	})
}

// TestMalformed: one chunk is not JSON.
func TestMalformed(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		r := open(t, d, model.Script{model.Say("partial text").Fault(model.Failure{Kind: model.FailMalformed}).Times(2)})
		got := r.ask(hello(d, true))
		all := strings.Split(strings.TrimSpace(got.body), "\n")
		last := strings.TrimPrefix(all[len(all)-1], "data: ")
		if got.err != nil || !strings.HasPrefix(last, `{"`) || strings.HasSuffix(last, "}") {
			t.Errorf("error %v, last line %q", got.err, last)
		}
		if whole := r.ask(hello(d, false)); whole.err != nil || whole.status != http.StatusOK || strings.HasSuffix(whole.body, "}") || whole.body == "" {
			t.Errorf("without a stream: %v %d %q", whole.err, whole.status, whole.body)
		}
		r.followed()
	})
}

// TestHang: the answer stops until the agent gives up, or until the execution ends.
func TestHang(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		hang := model.Failure{Kind: model.FailHang}
		r := open(t, d, model.Script{model.Fault(hang), model.Say("partial text").Fault(hang).Times(2), model.Say("fine")})
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		if got := r.doIn(ctx, http.MethodPost, paths[d], hello(d, true)); got.err == nil || got.status != 0 {
			t.Errorf("before anything: %d %v", got.status, got.err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		if got := r.doIn(ctx, http.MethodPost, paths[d], hello(d, true)); got.err == nil || got.status != http.StatusOK || !strings.Contains(got.body, "partial ") {
			t.Errorf("after text: %d %v %s", got.status, got.err, got.body)
		}
		done := make(chan reply)
		go func() { done <- r.doIn(context.Background(), http.MethodPost, paths[d], hello(d, false)) }()
		r.waitFor(2)                       // the first two have ended
		time.Sleep(400 * time.Millisecond) // the third is on its way
		problems := r.finish()
		if got := <-done; got.err == nil {
			t.Errorf("at the end of the execution: %d %s", got.status, got.body)
		}
		if len(problems) != 1 || problems[0].Step != 3 {
			t.Errorf("problems %v", problems)
		}
		all := r.recorded()
		if len(all) != 3 || all[0].Error != "scripted fault: hang" || !strings.Contains(string(all[1].Response), "partial text") {
			t.Errorf("recorded %d exchanges", len(all))
		}
	})
}

// TestAgentGoes: an agent that does not wait for its answer is recorded as that, and is no failure of the script.
func TestAgentGoes(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		r := open(t, d, model.Script{model.Say("never").After(time.Hour), model.Say("one two three").Pace(time.Hour)})
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			if got := r.doIn(ctx, http.MethodPost, paths[d], hello(d, true)); got.err == nil {
				t.Errorf("answer %d %s", got.status, got.body)
			}
			cancel()
		}
		r.waitFor(2)
		r.followed()
		all := r.recorded()
		if len(all) != 2 {
			t.Fatalf("%d exchanges", len(all))
		}
		for _, x := range all {
			if x.Error != "the agent closed the connection before the answer was complete" {
				t.Errorf("recorded %q", x.Error)
			}
		}
	})
}

// TestWaits: After and Pace take the time that they say.
func TestWaits(t *testing.T) {
	t.Parallel()
	r := open(t, harness.OpenAIChat, model.Script{model.Say("one two three").After(30 * time.Millisecond).Pace(20 * time.Millisecond)})
	r.ask(hello(harness.OpenAIChat, true))
	r.followed()
	if x := r.last(); x.Elapsed < 90*time.Millisecond || x.Error != "" || !strings.Contains(string(x.Response), "one two three") {
		t.Errorf("recorded %v %q %s", x.Elapsed, x.Error, x.Response)
	}
}

// TestClosed: a provider that is finished answers nobody.
func TestClosed(t *testing.T) {
	t.Parallel()
	r := open(t, harness.OpenAIChat, model.Script{})
	r.followed()
	if got := r.ask(hello(harness.OpenAIChat, true)); got.err == nil {
		t.Errorf("after Finish: %d", got.status)
	}
	if len(r.recorded()) != 0 {
		t.Error("something was recorded after Finish")
	}
}
