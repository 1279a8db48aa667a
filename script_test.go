package m3_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/m3-go/m3"
)

// A script answers in order. What is left over, or asked for beyond it, is an error when the client closes, and of the call where the call can know.
func TestSamplingScript(t *testing.T) {
	t.Parallel()
	motto := question{"motto", "sampling/createMessage", poem}
	one := func(text string) m3.SamplingResult { return m3.SamplingResult{Text: text} }
	for _, tc := range []struct {
		name   string
		script []m3.SamplingResult
		asks   int
		texts  []string
		call   string // what the call's error says; "" is none
		close  string
	}{
		{"used up", []m3.SamplingResult{one("first"), one("second")}, 2, []string{"first", "second"}, "", ""},
		{"one left over", []m3.SamplingResult{one("first"), one("second"), one("third")}, 2, []string{"first", "second"}, "", "2 of the 3 completions"},
		{"none asked", []m3.SamplingResult{one("first")}, 0, nil, "", "0 of the 1 completions"},
		{"exceeded", []m3.SamplingResult{one("first")}, 2, []string{"first"}, "the server asked for 2 completions, and DirectOptions.SamplingScript has 1", "asked for 2 completions"},
		{"empty, and none asked", []m3.SamplingResult{}, 0, nil, "", ""},
		{"empty", []m3.SamplingResult{}, 1, nil, "asked for 1 completions", "asked for 1 completions"},
	} {
		for _, protocol := range []string{newest, legacy5} {
			t.Run(tc.name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				var rounds [][]question
				for range tc.asks {
					rounds = append(rounds, round(motto))
				}
				a := newAsker(rounds...)
				kit, err := m3.New(m3.Config{})
				if err != nil {
					t.Fatal(err)
				}
				client, err := kit.Direct(t.Context(), a.server(), &m3.DirectOptions{Protocol: protocol, SamplingScript: tc.script})
				if err != nil {
					t.Fatal(err)
				}
				r, err := client.CallTool(t.Context(), "book", nil, nil)
				if tc.call != "" && protocol == newest {
					e := wantError[*m3.Error](t, err, "sampling_script", tc.call)
					if !errors.Is(err, m3.ErrSamplingScript) || e.Details["scripted"] != len(tc.script) {
						t.Errorf("%v", e.Details)
					}
				} else if err != nil || r.IsError != (tc.call != "") {
					t.Fatalf("%+v, %v", r, err)
				} else if tc.call == "" {
					at := 0
					for _, text := range tc.texts {
						i := strings.Index(r.Text()[at:], text)
						if i < 0 {
							t.Fatalf("%q is not in its place in %s", text, r.Text())
						}
						at += i
					}
				}
				err = client.Close()
				if (err != nil) != (tc.close != "") || err != nil && (!errors.Is(err, m3.ErrSamplingScript) || !strings.Contains(err.Error(), tc.close)) {
					t.Errorf("Close: %v, want %q", err, tc.close)
				}
				if err := kit.Close(); err != nil && tc.close == "" {
					t.Errorf("the kit: %v", err)
				}
			})
		}
	}
	_, err := newKit(t, m3.Config{}).Direct(t.Context(), newAsker().server(), &m3.DirectOptions{Sampling: answerPoem, SamplingScript: []m3.SamplingResult{}})
	wantError[*m3.ValidationError](t, err, "invalid_argument", "use one")
}
