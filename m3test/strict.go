package m3test

import (
	"errors"

	"github.com/m3-go/m3"
)

// strict fails the test for what its DirectOptions.Strict makes a failure, whenever it came and whoever closed the client.
func (a *attempt) strict(e *m3.FindingsError) { a.fail(e.Error()) }

// unmet fails the test for a script of a model and an agent's requests that did not fit.
func (a *attempt) unmet(err error) { a.fail("m3: " + err.Error()) }

// unreported is what of an error of Close was not told by strict yet.
func unreported(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range many.Unwrap() {
			rest = append(rest, unreported(e))
		}
		return errors.Join(rest...)
	}
	if _, told := err.(*m3.FindingsError); told {
		return nil
	}
	return err
}
