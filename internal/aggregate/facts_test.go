package aggregate

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

func someFacts() []Facts {
	return []Facts{
		{},
		{Created: -1, Tie: 1<<64 - 1, Trial: "12", MatrixCase: "orders/1/trial-12"},
		{Created: time.Now().UnixNano(), Finished: true, Infrastructure: true, Outcome: trace.OutcomeTimedOut, Tool: "żółw", Duration: 1 << 40, Calls: 3, Succeeded: 1, Failed: 2,
			ProtocolErrors: 1, Latencies: []int64{0, 127, 128, 1 << 62}},
	}
}

func TestFactsAreReadBack(t *testing.T) {
	t.Parallel()
	var in Interner
	for _, want := range someFacts() {
		var got Facts
		if err := got.Decode(want.Append(nil), &in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// FuzzFacts: whatever the bytes are, they are facts that are written as the same bytes again, or an error.
func FuzzFacts(f *testing.F) {
	for _, v := range someFacts() {
		b := v.Append(nil)
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(append(b, 0))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again Facts
		if v.Decode(b, &Interner{}) != nil {
			return
		}
		if err := again.Decode(v.Append(nil), &Interner{}); err != nil || !cmp.Equal(v, again) || !bytes.Equal(v.Append(nil), again.Append(nil)) {
			t.Errorf("%x: %+v, then %+v, %v", b, v, again, err)
		}
	})
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ at, hour, day, week string }{
		{"2026-11-30T00:00:00Z", "2026-11-30T00:00Z", "2026-11-30", "2026-11-30"}, // a Monday
		{"2026-11-29T23:59:59.999999999Z", "2026-11-29T23:00Z", "2026-11-29", "2026-11-23"},
		{"2027-01-01T01:30:00+02:00", "2026-12-31T23:00Z", "2026-12-31", "2026-12-28"},
		{"1969-12-31T23:59:59Z", "1969-12-31T23:00Z", "1969-12-31", "1969-12-29"},
	} {
		at, err := time.Parse(time.RFC3339Nano, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		for label, want := range map[string]string{eval.LabelHour: tt.hour, eval.LabelDay: tt.day, eval.LabelWeek: tt.week} {
			e, err := New(eval.Query{GroupBy: []string{eval.LabelEvaluator, label}})
			if err != nil {
				t.Fatal(err)
			}
			e.Add(&Row{Labels: e.RowLabels(RowLabels{Evaluator: "a"}), Execution: None, Created: at.UnixNano()})
			if got := e.Report().Groups[0].Key[1]; got != want {
				t.Errorf("%s of %s is %s, want %s", label, tt.at, got, want)
			}
		}
	}
}

func TestMetadataAsText(t *testing.T) {
	t.Parallel()
	got := texts(map[string]any{"text": "a", "yes": true, "one": 1.0, "large": 123456789.0, "part": 0.25, "huge": 1e300, "null": nil})
	want := map[string]string{"text": "a", "yes": "true", "one": "1", "large": "123456789", "part": "0.25", "huge": "1e+300", "null": "null"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
