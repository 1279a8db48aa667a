package judging

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrExhausted says that the budget's requests are all spent.
var ErrExhausted = errors.New("the budget of judge requests is spent")

// Budget is a number of requests that may be made, and the counter of those that were. It may be within another: then a request is taken from both. A
// nil Budget allows everything. It may be used from several goroutines, and one with a shared counter from several processes.
type Budget struct {
	counter counter
	limit   int
	outer   *Budget
}

// counter counts what was spent and never counts down.
type counter interface {
	// spent is the count as it is now.
	spent() (int, error)
	// spend adds one, unless most are there already: that is ErrExhausted.
	spend(ctx context.Context, most int) error
}

// Local is a budget that is counted in memory.
func Local(limit int) *Budget { return &Budget{counter: &local{}, limit: limit} }

// Shared is a budget whose counter is a file that other processes use, too: see [Create].
func Shared(path string, limit int) *Budget { return &Budget{counter: file(path), limit: limit} }

// Within returns the budget within another, which may be nil.
func (b *Budget) Within(outer *Budget) *Budget {
	return &Budget{counter: b.counter, limit: b.limit, outer: outer}
}

// Check is an *[Error] when nothing is left, so that nothing needs to be begun. It takes nothing.
func (b *Budget) Check() error {
	if b == nil {
		return nil
	}
	n, err := b.counter.spent()
	if err == nil && n >= b.limit {
		err = ErrExhausted
	}
	if err != nil {
		return &Error{Limit: b.limit, Err: err}
	}
	return b.outer.Check()
}

// Spend takes one request. It is called at the last moment: on an open connection, just before the first byte of the request. So there is nothing
// that a process could hold and take with it when it dies. When the error is an *[Error] the request must not be made.
//
// The inner counter comes first: should the outer budget then be spent, one too many is counted where nothing can be had any more.
func (b *Budget) Spend(ctx context.Context) error {
	if b == nil {
		return nil
	}
	if err := b.counter.spend(ctx, b.limit); err != nil {
		return &Error{Limit: b.limit, Err: err}
	}
	return b.outer.Spend(ctx)
}

// Error says which budget did not let a request through, and why: [ErrExhausted], the end of the context, or what is wrong with the counter.
type Error struct {
	Limit int
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("a budget of %d judge requests: %v", e.Limit, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

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

func (l *local) spend(_ context.Context, most int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= most {
		return ErrExhausted
	}
	l.n++
	return nil
}
