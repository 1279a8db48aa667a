// Package runner is where a test runner's glue leaves what kits without a store of their own get: m3test, which stands below the root package,
// sets it, and m3.New asks for it.
package runner

import (
	"sync/atomic"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
)

// Defaults are what a kit gets that names nothing itself.
type Defaults struct {
	Store store.Store // where the process records; the kit does not close it; nil when it does not
	RunID string      // the run that the process recorded there
	Suite string
	// OnSecret is told of each variable that a secret was resolved from, as m3.Config.OnSecret.
	OnSecret func(variable string)
	// Gate is told of what is required, as m3.Config.Gate.
	Gate *eval.Gate
}

// source is the one place in m3 that a process shares between its kits: what is recorded is decided for a process, not for a kit.
var source atomic.Pointer[func() (*Defaults, error)]

// Provide makes f what [Get] asks. F returns nil while nothing is recorded. It may be called from several goroutines. Nil provides nothing.
func Provide(f func() (*Defaults, error)) {
	if f == nil {
		source.Store(nil)
		return
	}
	source.Store(&f)
}

// Get returns what a kit without a store gets; nil is nothing, and the kit keeps its executions in memory.
func Get() (*Defaults, error) {
	if f := source.Load(); f != nil {
		return (*f)()
	}
	return nil, nil
}
