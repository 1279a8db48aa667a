package evidence

import (
	"slices"

	"github.com/m3-go/m3/trace"
)

// mark stands in the place of a secret. It needs no escaping in JSON, in a URL's user info or in a header.
const mark = "[REDACTED]"

// quotedMark stands in the place of a whole JSON value that is no string.
const quotedMark = `"` + mark + `"`

// span is a range of bytes that is to be replaced.
type span struct {
	start, end int
	quoted     bool // a whole JSON value: the replacement needs quotes
}

func (s span) replacement() string {
	if s.quoted {
		return quotedMark
	}
	return mark
}

// normalize sorts spans and joins those that overlap. It works in place.
func normalize(spans []span) []span {
	byStart := func(a, b span) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	}
	if !slices.IsSortedFunc(spans, byStart) {
		slices.SortFunc(spans, byStart)
	}
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.start < out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			out[n-1].quoted = out[n-1].quoted || s.quoted
			continue
		}
		out = append(out, s)
	}
	return out
}

// replace returns b with the spans replaced, and what was done. The spans are normalized and not empty.
func replace(b []byte, spans []span) ([]byte, []trace.Redaction) {
	size := len(b)
	for _, s := range spans {
		size += len(s.replacement()) - (s.end - s.start)
	}
	out := make([]byte, 0, size)
	reds := make([]trace.Redaction, 0, len(spans))
	at := 0
	for _, s := range spans {
		out = append(out, b[at:s.start]...)
		reds = append(reds, trace.Redaction{
			Offset: int64(len(out)), Length: int64(len(s.replacement())),
			OriginalOffset: int64(s.start), OriginalLength: int64(s.end - s.start),
		})
		out = append(out, s.replacement()...)
		at = s.end
	}
	return append(out, b[at:]...), reds
}
