package eval

import (
	"errors"
	"time"
)

// ErrUnsupported is returned where a store cannot aggregate.
var ErrUnsupported = errors.New("eval: this store cannot aggregate")

// Labels select rows: a row is selected when, for each label, it has one of the values. A label needs at least one value.
type Labels map[string][]string

// Query asks for the aggregate of evaluations. The evaluator must be filtered by exactly one value, or be among GroupBy.
type Query struct {
	// Filters select rows by label.
	Filters Labels
	// GroupBy makes a group for each combination of the labels' values; at most one of them is a bucket of time.
	GroupBy []string
	// From and To bound when the executions were created: From ≤ created < To. Zero does not bound.
	From, To time.Time
	// Limit bounds the groups of one answer: 1 to 1000; 0 is 200. Offset leaves out groups before it.
	Limit, Offset int
}
