package m3test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/store"
)

// checkKey is what a check is among those of its attempt, but for how many equal ones came before it: its case, which is the test's name, the matcher, and
// what that was pointed at. A line of code is no part of it.
type checkKey struct{ test, matcher, selector string }

// checked keeps a check of the test as an evaluation: in the recording, else in the memory of the attempt, where it can be read as long as its
// executions. A store that the test gave to a kit is for executions, and gets none.
func (a *attempt) checked(c *expect.Check) {
	if c.Message != "" {
		a.reason(c.Message)
	}
	key := checkKey{caseOf(c.Test), c.Matcher, c.Selector}
	a.mu.Lock()
	if a.checks == nil {
		a.checks = map[checkKey]int{}
	}
	a.checks[key]++
	ordinal := a.checks[key]
	a.mu.Unlock()
	if err := a.store.Append(context.Background(), &store.Evaluation{Result: a.evaluation(c, key, ordinal)}); err != nil && !a.p.interrupted() {
		a.unrecorded.Do(func() { a.t.Errorf("m3: a check could not be recorded: %v", err) })
	}
}

// evaluation is the row of a check. What tells it from others of its execution is the check's identity, so that is what its subject's digest is made of.
func (a *attempt) evaluation(c *expect.Check, key checkKey, ordinal int) eval.Result {
	key.test = a.redact(key.test)
	sum := sha256.Sum256([]byte(strings.Join([]string{key.test, key.matcher, key.selector, strconv.Itoa(ordinal)}, "\x00")))
	return eval.Result{ID: newEvaluationID(), RunID: a.record.RunID, TestID: a.record.ID, Execution: c.Execution, Turn: c.Turn, Suite: a.record.Suite, Case: key.test,
		Evaluator: key.matcher, Kind: eval.KindCheck, SubjectKind: c.SubjectKind, SubjectDigest: hex.EncodeToString(sum[:]), Status: c.Status, Message: c.Message,
		Created: c.Began.Round(0).UTC(), Duration: c.Duration.Round(time.Nanosecond),
		Check: &eval.Check{Matcher: key.matcher, Selector: key.selector, Ordinal: ordinal, Arguments: c.Arguments}}
}

// caseOf is the case of a test: its name. Cells of a matrix, when there are any, are no part of it.
func caseOf(test string) string { return test }

// newEvaluationID orders by time, so that rows made at the same moment keep their order.
func newEvaluationID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system's randomness failed: nothing sensible can go on
		panic("m3test: no randomness: " + err.Error())
	}
	return id.String()
}
