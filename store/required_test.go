package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// TestPending (E20): what is required and not there may still come while its execution or its test attempt goes on. A test that died has no end, and will
// not go on.
func TestPending(t *testing.T) {
	t.Parallel()
	now := time.Now()
	open, ended := &store.ExecutionInfo{}, &store.ExecutionInfo{Finished: &now}
	for _, tt := range []struct {
		name string
		x    *store.ExecutionInfo
		test *store.Test
		want bool
	}{
		{"an open execution", open, nil, true},
		{"an open execution of a test that ended", open, &store.Test{Status: store.TestPassed, Finished: &now}, true},
		{"an execution that ended, of a program", ended, nil, false},
		{"an execution that ended, of a test that runs", ended, &store.Test{Status: store.TestRunning}, true},
		{"and that ended", ended, &store.Test{Status: store.TestFailed, Finished: &now}, false},
		{"and that died", ended, &store.Test{Status: store.TestInterrupted}, false},
	} {
		if got := tt.x.Pending(tt.test); got != tt.want {
			t.Errorf("%s: pending %v", tt.name, got)
		}
	}
}

func TestDeclared(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string][]eval.Registration{
		``:                  nil,
		`null`:              nil,
		`{"kind":"direct"}`: nil,
		`{"evaluations":[{"name":"a.v1","required":true},{"name":"b.v1"}]}`: {{Name: "a.v1", Required: true}, {Name: "b.v1"}},
		`{"evaluations":"none"}`:              nil,
		`{"metadata":{"evaluations":"mine"}}`: nil,
	} {
		x := store.Execution{Spec: trace.JSON(spec)}
		if diff := cmp.Diff(want, x.Declared()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}
