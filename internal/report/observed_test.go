package report

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/storetest"
)

// TestObservedTools: a catalogue is put together from the pages of one chain of cursors, and says when it has no end, or no beginning.
func TestObservedTools(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		pages [][2]string // params and result
		want  []string    // tools, then why it is incomplete
	}{
		{"one page", [][2]string{{"", `{"tools":[{"name":"a"},{"name":"b"}]}`}}, []string{"a b:"}},
		{"pages", [][2]string{{"", `{"tools":[{"name":"a"}],"nextCursor":"x"}`}, {`{"cursor":"x"}`, `{"tools":[{"name":"b"}],"nextCursor":"y"}`}, {`{"cursor":"y"}`, `{"tools":[{"name":"c"}]}`}}, []string{"a b c:"}},
		{"two readings at once", [][2]string{{"", `{"tools":[{"name":"a"}],"nextCursor":"x"}`}, {"", `{"tools":[{"name":"b"}],"nextCursor":"y"}`}, {`{"cursor":"y"}`, `{"tools":[]}`}, {`{"cursor":"x"}`, `{"tools":[{"name":"c"}]}`}}, []string{"a c:", "b:"}},
		{"no end", [][2]string{{"", `{"tools":[{"name":"a"}],"nextCursor":"x"}`}}, []string{"a: the next page was never asked for"}},
		{"no beginning", [][2]string{{`{"cursor":"x"}`, `{"tools":[{"name":"a"}]}`}}, []string{": it began with a cursor"}},
		{"no answer", [][2]string{{"", ""}}, []string{": the answer did not come"}},
		{"no list", [][2]string{{"", `[]`}}, []string{": an answer is no list of tools, or its bytes were not kept"}},
		{"an empty cursor is one", [][2]string{{"", `{"tools":[{"name":"a"}],"nextCursor":""}`}, {`{"cursor":""}`, `{"tools":[{"name":"b"}]}`}}, []string{"a b:"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tape := storetest.NewTape("r", "x")
			recs := slices.Concat([]store.Record{tape.Open()}, tape.Begin())
			for _, p := range tt.pages {
				recs = append(recs, tape.List(p[0], p[1])...)
			}
			st := memory.New(nil)
			if err := st.Append(t.Context(), append(recs, tape.End("completed", "")...)...); err != nil {
				t.Fatal(err)
			}
			seen, err := observedTools(t.Context(), st, store.EventQuery{RunID: "r"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range seen {
				var names []string
				for _, tool := range o.Tools {
					names = append(names, strings.Split(string(tool), `"`)[3])
				}
				if o.Complete != (o.Reason == "") {
					t.Errorf("complete %v, and the reason is %q", o.Complete, o.Reason)
				}
				got = append(got, strings.TrimSpace(strings.Join(names, " ")+": "+o.Reason))
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
