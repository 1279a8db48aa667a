package judging

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrExhausted says that the budget's requests are all spent.
var ErrExhausted = errors.New("the budget of judge requests is spent")

// Budget is a number of requests that may be made, and the counter of those that were. Several budgets may share a counter: each
// then compares what all have spent with its own limit. A nil Budget allows everything. It may be used from several goroutines, and one with
// a shared counter from several processes.
type Budget struct {
	counter counter
	limit   *int // nil: no limit, and only counted
}

// counter counts what was spent and never counts down.
type counter interface {
	// spent is the count as it is now.
	spent() (int, error)
	// spend adds one, unless most (nil: any number) are there already: that is ErrExhausted.
	spend(ctx context.Context, most *int) error
}

// Local is a budget of this process's own. A nil limit allows everything.
func Local(limit *int) *Budget { return &Budget{counter: &local{}, limit: limit} }

// Shared is a budget whose counter is a file that other processes use, too: see [Create]. A nil limit allows everything.
func Shared(path string, limit *int) *Budget { return &Budget{counter: file(path), limit: limit} }

// Within returns a budget with the same counter and the tighter of the two limits. Of a nil budget it is a local one.
func (b *Budget) Within(limit *int) *Budget {
	switch {
	case b == nil:
		return Local(limit)
	case limit == nil, b.limit != nil && *b.limit <= *limit:
		return b
	}
	return &Budget{counter: b.counter, limit: limit}
}

// Limit is the number of requests that may be made; false when there is no limit.
func (b *Budget) Limit() (int, bool) {
	if b == nil || b.limit == nil {
		return 0, false
	}
	return *b.limit, true
}

// Check is [ErrExhausted] when nothing is left, so that nothing needs to be begun. It takes nothing.
func (b *Budget) Check() error {
	if b == nil || b.limit == nil {
		return nil
	}
	n, err := b.counter.spent()
	if err == nil && n >= *b.limit {
		err = ErrExhausted
	}
	return err
}

// Spend takes one request. It is called at the last moment: on an open connection, just before the first byte of the request. So
// there is nothing that a process could hold and take with it when it dies. The error is [ErrExhausted], or says why the counter cannot be
// used; then the request must not be made, unless there is no limit, where the counter is only a courtesy to others.
func (b *Budget) Spend(ctx context.Context) error {
	if b == nil {
		return nil
	}
	err := b.counter.spend(ctx, b.limit)
	if b.limit == nil {
		return nil
	}
	if err != nil && !errors.Is(err, ErrExhausted) {
		return fmt.Errorf("the counter of judge requests cannot be used: %w", err)
	}
	return err
}

// local is a counter in memory.
type local struct {
	mu sync.Mutex
	n  int
}

func (l *local) spent() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n, nil
}

func (l *local) spend(_ context.Context, most *int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most != nil && l.n >= *most {
		return ErrExhausted
	}
	l.n++
	return nil
}
