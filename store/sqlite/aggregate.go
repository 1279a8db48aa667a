package sqlite

import (
	"context"

	"github.com/m3-go/m3/eval"
)

// Aggregate is that of [store.Reader].
func (s *Store) Aggregate(context.Context, eval.Query) (eval.Report, error) {
	return eval.Report{}, eval.ErrUnsupported
}
