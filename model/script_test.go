package model_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/trace"
)

// full is a script with everything in it.
func full() model.Script {
	return model.Script{
		model.Call("calc:add", map[string]int{"a": 2}).Named("adds").When(model.Text("add"), model.Text("2"), model.OffersOnly()),
		everything().When(model.Result("a"), model.System("b"), model.Absent("c"), model.Offers("calc:add", "Read"), model.Lacks("calc:sub")),
		model.CallRaw("calc_secret", nil).After(time.Second).Pace(20 * time.Millisecond).Times(3),
		model.Calls(model.Use{Raw: "add", Namespace: "mcp__calc", ArgsText: "{", ID: "x"}).NoUsage(),
		model.Say("").Stop(model.Refusal).Usage(model.Usage{}),
		model.Say("so far").Fault(model.Failure{Kind: model.FailError, Type: "t", Code: "c", Message: "m", RetryAfter: time.Millisecond}),
		model.Fault(model.Failure{Status: 429}),
		model.Empty().For(model.RoleTitle),
		model.Fault(model.Failure{Kind: model.FailHang}).Forever(),
	}
}

// TestJSON: a script is the same after a way through JSON, and its JSON is this.
func TestJSON(t *testing.T) {
	t.Parallel()
	b, err := json.MarshalIndent(full(), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "script.json", string(b)+"\n")
	again, err := model.ParseScript(b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := json.MarshalIndent(again, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(b), string(c)); diff != "" {
		t.Errorf("after a way through JSON:\n%s", diff)
	}
	if script, err := model.ParseScript([]byte("[]")); err != nil || len(script) != 0 {
		t.Errorf("no steps: %v, %v", script, err)
	}
}

// TestStepsAreValues: a step that is refined leaves the one it was made of as it is.
func TestStepsAreValues(t *testing.T) {
	t.Parallel()
	base := model.Call("calc:add", nil).When(model.Text("a"))
	one, two := base.Call("calc:sub", nil).When(model.Text("b")), base.Call("calc:mul", nil).When(model.Text("c"))
	for _, tc := range []struct {
		step model.Step
		want string
	}{
		{base, `{"when":{"text":["a"]},"call":"calc:add"}`},
		{one, `{"when":{"text":["a","b"]},"calls":[{"tool":"calc:add"},{"tool":"calc:sub"}]}`},
		{two, `{"when":{"text":["a","c"]},"calls":[{"tool":"calc:add"},{"tool":"calc:mul"}]}`},
	} {
		if got := text(tc.step); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// TestValidate names the step, the place and the fix.
func TestValidate(t *testing.T) {
	t.Parallel()
	fine := model.Say("fine")
	for _, tc := range []struct {
		name string
		step model.Step
		want string
	}{
		{"nothing", model.Step{}, "step 2: it answers nothing: it needs say, call, calls, empty or fault"},
		{"reasoning alone", model.Think("hm"), "step 2, think: reasoning alone is no answer: add say, call or a fault"},
		{"empty and more", model.Empty().Say("x"), "step 2, empty: an empty answer has nothing else in it"},
		{"no server", model.Call("add", nil), `step 2, calls[0].tool: "add" is not of the form server:tool; a name as the agent offers it is a raw one`},
		{"no tool", model.Call("calc:", nil), `step 2, calls[0].tool: "calc:" is not of the form server:tool; a name as the agent offers it is a raw one`},
		{"neither", model.Calls(model.Use{}), "step 2, calls[0]: a call has either a tool or a raw name"},
		{"both", model.Calls(model.Use{Tool: "a:b", Raw: "c"}), "step 2, calls[0]: a call has either a tool or a raw name"},
		{"namespace", model.Calls(model.Use{Tool: "a:b", Namespace: "c"}), "step 2, calls[0].namespace: a namespace goes with a raw name"},
		{"args and text", model.Calls(model.Use{Tool: "a:b", Args: 1, ArgsText: "1"}), "step 2, calls[0].args_text: a call has either args or args_text"},
		{"args of a list", model.Call("a:b", []int{1}), "step 2, calls[0].args: arguments are an object, not [1]"},
		{"args that are none", model.Call("a:b", map[string]float64{"x": math.NaN()}), "step 2, calls[0].args: json: unsupported value: NaN"},
		{"same id", model.Calls(model.Use{Tool: "a:b", ID: "1"}, model.Use{Tool: "a:b", ID: "1"}), `step 2, calls[1].id: the id "1" is used twice in one answer`},
		{"stop", fine.Stop("tired"), `step 2, stop: there is no reason "tired"; use max_tokens or refusal, or leave it out`},
		{"role", fine.For("cook"), `step 2, for: there is no role "cook"; the roles are turn, title, summary, guardian, classifier`},
		{"times", fine.Times(0), "step 2, times: a step answers once at least"},
		{"after", fine.After(-1), "step 2, after: a wait is not negative"},
		{"pace", fine.Pace(-1), "step 2, pace: a wait is not negative"},
		{"negative usage", fine.Usage(model.Usage{Input: -1}), "step 2, usage: a number of tokens is not negative"},
		{"cache", fine.Usage(model.Usage{Input: 1, CacheRead: 1, CacheWrite: 1}), "step 2, usage: input counts cached tokens too, so it is not less than cache_read and cache_write together (1 < 1 + 1)"},
		{"reasoning", fine.Usage(model.Usage{Output: 1, Reasoning: 2}), "step 2, usage: output counts reasoning too, so it is not less than it (1 < 2)"},
		{"status", model.Fault(model.Failure{Status: 200}), "step 2, fault.status: an HTTP error is 400 to 599, not 200"},
		{"no status", model.Fault(model.Failure{}), "step 2, fault.status: an HTTP error is 400 to 599, not 0"},
		{"status of a cut", model.Fault(model.Failure{Kind: model.FailCut, Status: 500}), "step 2, fault.status: a fault of kind cut has no status"},
		{"kind", model.Fault(model.Failure{Kind: "bored"}), `step 2, fault.kind: there is no kind "bored"; use status, error, cut, hang or malformed`},
		{"retry", model.Fault(model.Failure{Status: 429, RetryAfter: -1}), "step 2, fault.retry_after: a wait is not negative"},
		{"status and text", fine.Fault(model.Failure{Status: 500}), "step 2, fault: an HTTP error says nothing besides: use kind error, cut, hang or malformed after text"},
		{"fault and stop", model.Fault(model.Failure{Kind: model.FailCut}).Stop(model.MaxTokens), "step 2, stop: an answer that fails has no reason to stop"},
		{"condition of nothing", fine.When(model.Text("")), "step 2, when.text: it names nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := model.Script{fine, tc.step}.Validate()
			var se *model.ScriptError
			if !errors.As(err, &se) || !errors.Is(err, trace.ErrValidation) || err.Error() != "model: "+tc.want {
				t.Errorf("error %v, want model: %s", err, tc.want)
			}
		})
	}
	if err := full().Validate(); err != nil {
		t.Error(err)
	}
	unreachable := model.Script{fine.Forever(), model.Say("title").For(model.RoleTitle), fine}
	if err := unreachable.Validate(); err == nil || err.Error() != "model: step 3: it is never reached, because step 1 answers for ever" {
		t.Errorf("after a step for ever: %v", err)
	}
	if err := make(model.Script, 10_001).Validate(); err == nil || !strings.Contains(err.Error(), "10000 is the limit") {
		t.Errorf("a long script: %v", err)
	}
}

// TestParseErrors: what is wrong with a text, and where.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "model: script: it is not a list of steps: the text ends too early"},
		{"an object", `{"say":"x"}`, "model: script: it is not a list of steps: an object does not belong there"},
		{"cut off", `[{"say":"x"}`, "model: script: it is not a list of steps: the text ends too early"},
		{"two values", `[] []`, "model: script: it is not a list of steps: something follows the value"},
		{"unknown member", `[{"say":"x"},{"sya":"x"}]`, `model: step 2: there is no member "sya"`},
		{"unknown member within", `[{"when":{"txt":"x"},"say":"x"}]`, `model: step 1: there is no member "txt"`},
		{"twice", `[{"say":"x","say":"y"}]`, `model: script: it is not a list of steps: the member "say" is there twice`},
		{"wrong type", `[{"say":7}]`, "model: step 1: say: a number does not belong there"},
		{"duration", `[{"say":"x","after":5}]`, `model: step 1: a duration is text such as "250ms", not 5`},
		{"no duration", `[{"say":"x","after":"soon"}]`, `model: step 1: a duration is text such as "250ms", not "soon"`},
		{"times", `[{"say":"x","times":0}]`, `model: step 1: times is a number from 1 on, or "forever", not 0`},
		{"condition", `[{"say":"x","when":{"text":7}}]`, "model: step 1: a condition is a text or a list of texts, not 7"},
		{"usage", `[{"say":"x","usage":"much"}]`, `model: step 1, usage: it is "none" or an object: a string does not belong there`},
		{"usage member", `[{"say":"x","usage":{"in":1}}]`, `model: step 1, usage: it is "none" or an object: there is no member "in"`},
		{"two ways to call", `[{"call":"a:b","calls":[]}]`, "model: step 1, call: a step has one of call, call_raw and calls"},
		{"args alone", `[{"say":"x","args":{}}]`, "model: step 1, args: args go with call or call_raw"},
		{"invalid", `[{"say":"x"},{"think":"x"}]`, "model: step 2, think: reasoning alone is no answer: add say, call or a fault"},
		{"deep", `[{"call":"a:b","args":` + strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300) + `}]`, "model: script: it is not a list of steps: it nests deeper than 200"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script, err := model.ParseScript([]byte(tc.text))
			if err == nil || err.Error() != tc.want || script != nil || !errors.Is(err, trace.ErrValidation) {
				t.Errorf("error\n%v, want\n%s", err, tc.want)
			}
		})
	}
}
