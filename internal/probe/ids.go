package probe

import (
	"context"
	"strings"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const clauseID = "basic: responses carry the id of their request"

// withID sends a proper request under an id of the probe's choice.
func (b *bench) withID(ctx context.Context, id string) *reply {
	raw, err := b.conn(ctx)
	if err != nil {
		return &reply{err: err}
	}
	own, frame := raw.Request(b.lists(), "")
	return b.poke(ctx, raw, &m3.RawFrame{Body: []byte(strings.Replace(string(frame), `"id":`+own, `"id":`+id, 1))}, id)
}

// echoes is the run of a probe that wants its id back as it is.
func echoes(id string) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		r := b.withID(ctx, id)
		if r.answer(id) != nil {
			return r.served(id)
		}
		if m := r.any(); m != nil && m.ID != nil {
			return fired("the id %s came back as %s", id, m.ID)
		}
		return r.served(id)
	}
}

func idProbes() []*Probe {
	return []*Probe{
		{Name: "text-id", About: "a request with a string as id is served, and the id comes back as that string", Clause: clauseID, Severity: trace.SeverityError, Case: "B04", run: echoes(`"m3-text-id"`)},
		{Name: "number-id", About: "a request with a number as id is served, and the id comes back as that number", Clause: clauseID, Severity: trace.SeverityError, Case: "B01", run: echoes(`4711`)},
		{Name: "digits-id", About: "the string \"1\" as id comes back as a string", Clause: clauseID, Severity: trace.SeverityError, Case: "B02", run: echoes(`"4712"`)},
		{Name: "zero-id", About: "0 is an id", Clause: clauseID, Severity: trace.SeverityError, run: echoes(`0`)},
		{Name: "negative-id", About: "a negative number is an id", Clause: clauseID, Severity: trace.SeverityWarning, run: echoes(`-3`)},
		{Name: "empty-id", About: "the empty string is an id", Clause: clauseID, Severity: trace.SeverityWarning, run: echoes(`""`)},
		{Name: "big-id", About: "an integer over 2^53 comes back exactly", Clause: clauseID, Severity: trace.SeverityWarning, run: echoes(`9007199254740993`)},
		{Name: "unicode-id", About: "an id with text of any script comes back as it is", Clause: clauseID, Severity: trace.SeverityError, run: echoes(`"天気-🌦"`)},
		{Name: "null-id", About: "a request with a null id is not carried out", Clause: clauseRequests + ": the id must not be null", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				r := b.withID(ctx, `null`)
				if m := r.result(); m != nil {
					return fired("it was carried out: %s", m)
				}
				return ok
			}},
		{Name: "fraction-id", About: "a fraction as id comes back as it is, or is refused", Clause: clauseRequests + ": the id is a string or an integer", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				r := b.withID(ctx, `1.5`)
				if m := r.result(); m != nil && string(m.ID) != "1.5" {
					return fired("the id 1.5 came back as %s", m.ID)
				}
				return r.answered()
			}},
		{Name: "object-id", About: "an object as id is refused", Clause: clauseRequests + ": the id is a string or an integer", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				return b.withID(ctx, `{"a":1}`).refused()
			}},
		{Name: "twin-ids", About: "the ids 5 and \"5\" are two requests", Clause: clauseID, Severity: trace.SeverityError, Case: "B05", run: runTwins, scope: stdioOnly},
	}
}

// runTwins has two requests in flight whose ids differ in type only.
func runTwins(ctx context.Context, b *bench) verdict {
	raw, err := b.conn(ctx)
	if err != nil {
		return fired("%v", err)
	}
	own, frame := raw.Request(b.lists(), "")
	text := string(frame)
	pair := strings.Replace(text, own, `5`, 1) + "\n" + strings.Replace(text, own, `"5"`, 1)
	r := b.poke(ctx, raw, &m3.RawFrame{Body: []byte(pair)}, `"5"`)
	if r.answer(`5`) == nil || r.answer(`"5"`) == nil {
		return fired("two requests with the ids 5 and \"5\" were not both answered: %s", r.saw())
	}
	return ok
}
