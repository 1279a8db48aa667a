package store

import (
	"bytes"
	"context"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/trace"
)

// Tally counts what the executions of a run have, as Tally of [Reader] does. Open opens the events of an execution.
func (c *Catalog) Tally(ctx context.Context, runID string, open func(trace.ExecutionID) (*trace.Trace, error)) (map[trace.ExecutionID]Tally, error) {
	list, err := c.ofRun(ctx, &EventQuery{RunID: runID})
	if err != nil {
		return nil, err
	}
	out := make(map[trace.ExecutionID]Tally, len(list))
	for _, x := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t := Tally{Events: map[trace.Kind]int{}, Evaluations: x.evaluations}
		if err := x.tally(&t, open); err != nil {
			return nil, err
		}
		out[x.info.ID] = t
	}
	return out, nil
}

// countedExecution is an execution with the counts of its evaluations.
type countedExecution struct {
	*openExecution
	info        ExecutionInfo
	evaluations map[eval.Status]int
}

// ofRun lists the executions that a query is about, in order.
func (c *Catalog) ofRun(ctx context.Context, q *EventQuery) ([]countedExecution, error) {
	if err := c.rlock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var out []countedExecution
	for _, e := range c.executions {
		if q.RunID != "" && q.RunID != e.info.RunID || q.Execution != "" && q.Execution != e.info.ID {
			continue
		}
		x := countedExecution{openExecution: e, info: e.info, evaluations: map[eval.Status]int{}}
		for _, r := range c.evalsOf[e.info.ID] {
			if r.RunID == e.info.RunID {
				x.evaluations[r.Status]++
			}
		}
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b countedExecution) int { return a.info.Created.Compare(b.info.Created) })
	return out, nil
}

func (x *countedExecution) tally(t *Tally, open func(trace.ExecutionID) (*trace.Trace, error)) error {
	tr, err := open(x.info.ID)
	if err != nil {
		return err
	}
	var buf []byte
	for i := range tr.Len() {
		if buf, err = tr.Log().AppendEvent(buf[:0], i); err == nil {
			t.Events[kindOf(x.info.ID, buf)]++
		}
	}
	if x.info.Finished == nil {
		return nil
	}
	rec := x.info.aggregated()
	_, facts, _ := rec.Open()
	end, err := x.facts(facts, x.info, open)
	if err != nil {
		return err
	}
	t.Add(end)
	return nil
}

// Add adds what aggregation knows of a finished execution. It is for authors of stores.
func (t *Tally) Add(f *aggregate.Facts) {
	t.ToolCalls = eval.ToolCalls{Total: f.Calls, Successful: f.Succeeded, Failed: f.Failed}
	t.ProtocolErrors = f.ProtocolErrors
}

var kindMember = []byte(`,"kind":"`)

// kindOf finds the kind of an encoded event, which stands right behind its sequence.
func kindOf(id trace.ExecutionID, body []byte) trace.Kind {
	if head := body[:min(len(body), 48)]; bytes.HasPrefix(head, []byte(`{"seq":`)) {
		if i := bytes.Index(head, kindMember); i > 0 && bytes.IndexByte(head, ',') == i {
			rest := body[i+len(kindMember):]
			if n := bytes.IndexByte(rest, '"'); n >= 0 && bytes.IndexByte(rest[:n], '\\') < 0 {
				return trace.Kind(rest[:n])
			}
		}
	}
	ev, err := trace.DecodeEvent(id, body)
	if err != nil {
		return ""
	}
	return ev.Kind
}

// Events yields events, as Events of [Reader] does. Open opens the events of an execution.
func (c *Catalog) Events(ctx context.Context, q *EventQuery, open func(trace.ExecutionID) (*trace.Trace, error), yield func(*trace.Event) error) error {
	list, err := c.ofRun(ctx, q)
	if err != nil {
		return err
	}
	var buf []byte
	for _, x := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		tr, err := open(x.info.ID)
		if err != nil {
			return err
		}
		for i := range tr.Len() {
			if buf, err = tr.Log().AppendEvent(buf[:0], i); err != nil || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, kindOf(x.info.ID, buf)) {
				continue
			}
			if err := q.Yield(x.info.ID, buf, tr.Log(), yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// Yield decodes the event in body and yields it, if it is selected by Kinds and Method. Blobs come from log. It is for authors of stores.
func (q *EventQuery) Yield(id trace.ExecutionID, body []byte, log interface{ Blob(string) ([]byte, error) }, yield func(*trace.Event) error) error {
	ev, err := trace.DecodeEvent(id, body)
	if err != nil {
		return yield(&trace.Event{ExecutionID: id})
	}
	if len(q.Kinds) > 0 && !slices.Contains(q.Kinds, ev.Kind) || q.Method != "" && ev.Method != q.Method {
		return nil
	}
	if f := ev.Frame; f != nil && f.OutOfLine {
		f.Bytes, _ = log.Blob(f.SHA256) // nil when they are gone
	}
	return yield(&ev)
}
