package m3

import (
	"context"
	"iter"
	"sync"

	"github.com/m3-go/m3/trace"
)

// feed tells readers of an execution's events that there are more.
type feed struct {
	mu   sync.Mutex
	n    int64         // events so far
	over bool          // the last one was recorded, or none will be
	wake chan struct{} // closed at the next change; nil while nobody waits
}

func newFeed() *feed { return &feed{} }

// appended is told of every event, under the tape's lock.
func (f *feed) appended(seq int64, kind trace.Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n = seq + 1
	f.over = f.over || kind == trace.KindExecutionFinished
	f.rouse()
}

// end says that nothing more comes, also when the store never took the last event.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.rouse()
}

func (f *feed) rouse() {
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// now is how many events there are, whether that is all, and what is closed when that changes.
func (f *feed) now() (n int64, over bool, wake <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return f.n, f.over, f.wake
}

// fedSink is a sink that tells the feed.
type fedSink struct {
	*sink
	feed *feed
}

// AppendEvent is the sink's.
func (s *fedSink) AppendEvent(seq int64, kind trace.Kind, body []byte) error {
	err := s.sink.AppendEvent(seq, kind, body)
	if err == nil {
		s.feed.appended(seq, kind)
	}
	return err
}

// events yields what was recorded after that sequence, and then what is recorded, to the end.
func (x *execution) events(ctx context.Context, after int64) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		log, err := x.kit.log(x.id)
		if err != nil {
			yield(trace.Event{}, err)
			return
		}
		t := trace.New(x.id, log)
		for next := max(after+1, 0); ; {
			n, over, wake := x.feed.now()
			for ; next < n; next++ {
				ev, err := t.Event(int(next))
				if !yield(ev, err) || err != nil {
					return
				}
			}
			if over {
				return
			}
			select {
			case <-wake:
			case <-ctx.Done():
				yield(trace.Event{}, waitError(ctx, "read the events of "+x.agent.name))
				return
			}
		}
	}
}
