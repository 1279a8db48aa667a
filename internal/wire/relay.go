package wire

// What a relay needs of this package: it reads the same frames as a transport does, and passes the bytes on.

// Lines cuts a stream into frames at 0x0A, as the transport of [NewStream] does.
type Lines struct{ s *splitter }

// NewLines returns a splitter whose frames keep max bytes at most; 0 is 64 MiB. What a frame has beyond that is handed to over as it is read: kept are
// the frame's first max bytes, more what follows them now. Both are valid during the call. A nil over drops it.
func NewLines(max int64, over func(kept, more []byte)) *Lines {
	l := &Lines{s: newSplitter(max, readBuffer)}
	l.s.over = over
	return l
}

// Space returns where the next bytes are to be read to. It is never empty.
func (l *Lines) Space() []byte { return l.s.space() }

// Filled says that n bytes were read into Space.
func (l *Lines) Filled(n int) { l.s.filled(n) }

// Next sets f to the next whole frame and reports whether there was one. Its bytes are valid until the next call; those of a frame of more than
// [OwnBytes] belong to the caller.
func (l *Lines) Next(f *Frame) bool { return l.s.next(f) }

// Rest sets f to what is left at the end of the stream, and reports whether anything is.
func (l *Lines) Rest(f *Frame) bool { return l.s.rest(f) }

// OwnBytes is the size over which a frame of [Lines] is in memory of its own, which is not used again.
const OwnBytes = keepBuffer

// Events cuts an event stream into its events, as the HTTP transport does.
type Events struct{ p sseParser }

// NewEvents returns a parser whose events keep max bytes at most; 0 is 64 MiB. over is that of [NewLines].
func NewEvents(max int64, over func(kept, more []byte)) *Events {
	if max <= 0 {
		max = defaultFrame
	}
	return &Events{sseParser{max: max, over: over}}
}

// Feed takes the next bytes and calls fn with each event that they complete: Raw, Body, Event, Dropped, Tail and Partial of the frame are set. It is
// valid during the call.
func (e *Events) Feed(b []byte, fn func(*Frame)) { e.p.feed(b, handing(fn)) }

// End calls fn with what is left when the stream is over, if anything is.
func (e *Events) End(fn func(*Frame)) { e.p.end(handing(fn)) }

func handing(fn func(*Frame)) func(*event) {
	return func(ev *event) {
		fn(&Frame{Raw: ev.raw, Body: ev.data, Event: ev.name, Dropped: ev.dropped, Tail: ev.tail, Partial: ev.partial})
	}
}
