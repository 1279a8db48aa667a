package report

import (
	"context"
	"encoding/json"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// observation is what one reading of a server's tools gave: the pages of tools/list, from the first to the one without a cursor, as they passed on the wire.
type observation struct {
	execution trace.ExecutionID
	Server    string             `json:"server"` // alias
	Conn      trace.ConnectionID `json:"connection_id"`
	Complete  bool               `json:"complete"`
	Reason    string             `json:"reason,omitempty"` // why it is not
	Tools     []json.RawMessage  `json:"tools"`
}

// observedTools reads what the executions of a query saw of their servers' tools, in the order in which it passed.
func observedTools(ctx context.Context, r store.Reader, q store.EventQuery) ([]*observation, error) {
	q.Method, q.Kinds = "tools/list", []trace.Kind{trace.KindMCPRequest, trace.KindMCPResponse, trace.KindMCPError}
	o := observer{at: map[trace.ConnectionID]*listing{}}
	err := r.Events(ctx, &q, func(ev *trace.Event) error {
		if ev.ExecutionID != o.execution {
			o.flush()
			o.execution = ev.ExecutionID
		}
		o.event(ev)
		return nil
	})
	o.flush()
	return o.seen, err
}

type observer struct {
	execution trace.ExecutionID
	at        map[trace.ConnectionID]*listing
	order     []*listing
	seen      []*observation
}

// listing is what one connection has going on.
type listing struct {
	asked map[trace.RPCID]*observation // by the id of the request
	next  map[string]*observation      // by the cursor that continues it
	all   []*observation
}

func (o *observer) event(ev *trace.Event) {
	l := o.at[ev.ConnectionID]
	if l == nil {
		l = &listing{asked: map[trace.RPCID]*observation{}, next: map[string]*observation{}}
		o.at[ev.ConnectionID] = l
		o.order = append(o.order, l)
	}
	if ev.Kind == trace.KindMCPRequest {
		l.request(ev)
		return
	}
	seen := l.asked[ev.RPCID]
	delete(l.asked, ev.RPCID)
	if seen == nil {
		return // an answer to nothing: a finding tells of it
	}
	if ev.Kind == trace.KindMCPError {
		seen.Reason = "the server answered with an error"
		return
	}
	l.page(ev, seen)
}

func (l *listing) request(ev *trace.Event) {
	var m struct {
		Params struct {
			Cursor *string `json:"cursor"`
		} `json:"params"`
	}
	if json.Unmarshal(messageOf(ev), &m) != nil {
		return
	}
	seen := &observation{execution: ev.ExecutionID, Server: ev.Server, Conn: ev.ConnectionID, Reason: "the answer did not come", Tools: []json.RawMessage{}}
	if c := m.Params.Cursor; c != nil {
		if before := l.next[*c]; before != nil {
			seen = before
			seen.Reason = "the answer did not come"
			delete(l.next, *c)
		} else { // a page from nowhere: its catalogue has no beginning
			seen.Reason = "it began with a cursor"
			l.all = append(l.all, seen)
			return
		}
	} else {
		l.all = append(l.all, seen)
	}
	l.asked[ev.RPCID] = seen
}

func (l *listing) page(ev *trace.Event, seen *observation) {
	var m struct {
		Result *struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor *string           `json:"nextCursor"`
		} `json:"result"`
	}
	if err := json.Unmarshal(messageOf(ev), &m); err != nil || m.Result == nil {
		seen.Reason = "an answer is no list of tools, or its bytes were not kept"
		return
	}
	seen.Tools = append(seen.Tools, m.Result.Tools...)
	if m.Result.NextCursor == nil {
		seen.Complete, seen.Reason = true, ""
		return
	}
	seen.Reason = "the next page was never asked for"
	l.next[*m.Result.NextCursor] = seen
}

func (o *observer) flush() {
	for _, l := range o.order {
		o.seen = append(o.seen, l.all...)
	}
	clear(o.at)
	o.order = nil
}

// messageOf is the JSON-RPC message of an event: of a frame, or of a batch's part.
func messageOf(ev *trace.Event) []byte {
	if ev.Frame != nil {
		return ev.Frame.Body()
	}
	return ev.Payload
}
