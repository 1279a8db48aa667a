package expect

// T is what expect needs of a *testing.T.
type T interface {
	Helper()
	Name() string
	Errorf(format string, args ...any)
	FailNow()
}

// Expectation is a subject about which something is expected. Its methods are the matchers; each may be called any number of
// times, from several goroutines.
type Expectation struct {
	t       T
	subject subject
	stop    bool
	negated bool
	attempt *attempt // of Eventually: what its matchers find is collected, not reported
}

// That begins an expectation about a subject: what that may be is said at the top of the package. A matcher that does not hold is reported with
// t.Errorf; the test goes on.
func That(t T, subject any) *Expectation {
	return &Expectation{t: t, subject: resolve(t, subject)}
}

// Require is [That], but a matcher that does not hold ends the test, with t.FailNow.
func Require(t T, subject any) *Expectation {
	return &Expectation{t: t, subject: resolve(t, subject), stop: true}
}

// Not turns the matchers of the expectation that it returns over: they hold when what they say is not so. What cannot be told cannot be told
// either way, and fails both ways.
func (e *Expectation) Not() *Expectation {
	n := *e
	n.negated = !n.negated
	return &n
}
