package evidence

import (
	"sync/atomic"

	"github.com/m3-go/m3/trace"
)

// watcher is what Watch set; nil in every program but this module's own tests.
var watcher atomic.Pointer[func(owner *Tape, ev *trace.Event)]

// Watch lets fn hear of every event of every tape of this process as it is recorded, before anything is redacted. It is for the tests of this
// module, which check each message that m3 sends. fn may be called from several goroutines and must keep nothing of the event. stop ends it; there is
// one watcher at a time.
func Watch(fn func(owner *Tape, ev *trace.Event)) (stop func()) {
	watcher.Store(&fn)
	return func() { watcher.CompareAndSwap(&fn, nil) }
}
