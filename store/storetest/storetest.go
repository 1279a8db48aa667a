// Package storetest is the suite that every store passes. A store author calls [Run] from a test:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *storetest.Subject {
//			return &storetest.Subject{Store: mystore.New()}
//		})
//	}
package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Subject is one fresh, empty store with what the suite may do to it.
type Subject struct {
	Store store.Store
	// Reopen closes the store and opens what it has left. Nil: the store leaves nothing.
	Reopen func(t *testing.T) store.Reader
	// Second opens one more writer, as a second process would. What both wrote is found by Reopen. Nil: there can be one only.
	Second func(t *testing.T) store.Recorder
}

// Run runs the suite. Fresh is called for each test.
func Run(t *testing.T, fresh func(t *testing.T) *Subject) {
	tests := []struct {
		name string
		run  func(t *testing.T, s *Subject)
	}{
		{"runs", testRuns},
		{"a run of two processes", testRunMerge},
		{"suites", testSuites},
		{"suites of two writers", testTwoWriters},
		{"tests", testTests},
		{"items", testItems},
		{"executions", testExecutions},
		{"execution queries", testQueries},
		{"specs are kept unchanged", testSpec},
		{"evaluations", testEvaluations},
		{"lineages", testLineages},
		{"tallies", testTallies},
		{"selected events", testSelectedEvents},
		{"required evaluations", testBlocked},
		{"aggregation", testAggregate},
		{"rules of aggregation", testAggregateRules},
		{"aggregated trials", testAggregateTrials},
		{"aggregation meanwhile", testAggregateMeanwhile},
		{"queries that are refused", testAggregateRefused},
		{"payloads", testPayloads},
		{"open executions", testOpen},
		{"one append", testOneAppend},
		{"records that cannot be kept", testRefused},
		{"a missing event", testGap},
		{"append keeps no memory", testNoMemory},
		{"evidence", testEvidence},
		{"evidence that is not there", testNoEvidence},
		{"equal to the memory store", testEqual},
		{"concurrency", testConcurrency},
		{"cancelled context", testContext},
		{"closed", testClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			t.Cleanup(func() {
				if err := s.Store.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			tt.run(t, s)
		})
	}
}

// reading runs check on the store itself and on what it left.
func (s *Subject) reading(t *testing.T, check func(t *testing.T, r store.Reader)) {
	t.Helper()
	t.Run("open", func(t *testing.T) { check(t, s.Store) })
	if s.Reopen == nil {
		return
	}
	r := s.Reopen(t)
	t.Run("reopened", func(t *testing.T) { check(t, r) })
}

func appendAll(t *testing.T, r store.Recorder, recs ...store.Record) {
	t.Helper()
	for _, rec := range recs {
		if err := r.Append(context.Background(), rec); err != nil {
			t.Fatalf("Append(%s): %v", rec.Type(), err)
		}
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// diff compares what was read with what is wanted. None and empty are one.
func diff(t *testing.T, what string, got, want any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return // cmp takes seconds for megabytes
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		if len(d) > 4000 {
			d = d[:4000] + "…"
		}
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// checkTrace compares a stored trace with the events that were recorded.
func checkTrace(t *testing.T, r store.Reader, tape *Tape) {
	t.Helper()
	tr := must[*trace.Trace](t)(r.Trace(context.Background(), tape.ID))
	if tr.Len() != len(tape.Events) {
		t.Errorf("%s: Len is %d, want %d", tape.ID, tr.Len(), len(tape.Events))
	}
	i := 0
	for ev, err := range tr.All() {
		if err != nil {
			t.Fatalf("%s: event %d: %v", tape.ID, i, err)
		}
		diff(t, string(tape.ID), ev, tape.Events[i])
		i++
	}
}
