package mcp

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

const (
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	clauseListen     = "basic/patterns/subscriptions"

	methodAcknowledged = "notifications/subscriptions/acknowledged"
	methodUpdated      = "notifications/resources/updated"
)

// wants reports whether the filter asks for the notification. Of an updated resource the exact URI is not compared: a server may tell of a
// part of what was subscribed to.
func (f *Filter) wants(method string) bool {
	switch method {
	case "notifications/tools/list_changed":
		return f.ToolsListChanged
	case "notifications/prompts/list_changed":
		return f.PromptsListChanged
	case "notifications/resources/list_changed":
		return f.ResourcesListChanged
	case methodUpdated:
		return len(f.ResourceSubscriptions) > 0
	}
	return false
}

// isChange reports whether the notification is one that only subscriptions carry.
func isChange(method string) bool {
	all := Filter{true, true, true, []string{""}}
	return method == methodAcknowledged || all.wants(method)
}

// within reports whether everything in f is in the wider filter too.
func (f *Filter) within(wide *Filter) bool {
	outside := func(uri string) bool { return !slices.Contains(wide.ResourceSubscriptions, uri) }
	return (!f.ToolsListChanged || wide.ToolsListChanged) && (!f.PromptsListChanged || wide.PromptsListChanged) &&
		(!f.ResourcesListChanged || wide.ResourcesListChanged) && !slices.ContainsFunc(f.ResourceSubscriptions, outside)
}

// listenings are the open subscriptions of a connection.
type listenings struct {
	mu   sync.Mutex
	open []*Listening
	past []trace.RPCID // the last that have ended
}

const maxPast = 64

func (l *listenings) add(g *Listening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, g)
}

func (l *listenings) remove(g *Listening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(o *Listening) bool { return o == g })
	if len(l.past) == maxPast {
		l.past = l.past[1:]
	}
	l.past = append(l.past, g.id)
}

// byTag finds the subscription that a tag means, and whether the tag has another JSON type than the request's id.
func (l *listenings) byTag(tag trace.RPCID) (g *Listening, otherType, past bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.open {
		if g.id == tag {
			return g, false, false
		}
	}
	for _, g := range l.open {
		if text([]byte(g.id)) == text([]byte(tag)) {
			return g, true, false
		}
	}
	return nil, false, slices.Contains(l.past, tag)
}

// only returns the one subscription that is open and asked for the method; nil when there is any doubt.
func (l *listenings) only(method string) *Listening {
	l.mu.Lock()
	defer l.mu.Unlock()
	var one *Listening
	for _, g := range l.open {
		if method != methodAcknowledged && !g.want.wants(method) {
			continue
		}
		if one != nil {
			return nil
		}
		one = g
	}
	return one
}

func subscriptionTag(params []byte) []byte { return member(member(params, "_meta"), metaSubscription) }

// change takes a notification of 2026-07-28 that may belong to a subscription, on the reader.
func (l *link) change(n *rpc.Notification) {
	if !Modern(l.version()) {
		return
	}
	if n.Method == "notifications/cancelled" {
		l.serverCancelled(n)
		return
	}
	tag := subscriptionTag(n.Params)
	switch {
	case tag == nil && !isChange(n.Method):
	case !isChange(n.Method):
		l.at(n).find("subscription-misplaced", trace.SeverityError, "the server sent "+n.Method+" with the tag of a subscription; only changes belong to one")
	default:
		if g := l.subscription(n, tag); g != nil {
			g.receive(n)
		}
	}
}

// spot is a message of a subscription that something is wrong with.
type spot struct {
	link     *link
	sequence int64
	id       trace.RPCID
}

func (l *link) at(n *rpc.Notification) spot { return spot{link: l, sequence: n.Sequence} }

func (s spot) find(code string, sev trace.Severity, msg string) {
	s.link.find(trace.Finding{Code: code, Severity: sev, Message: msg, Sequence: s.sequence, Offset: -1, RPCID: s.id, Clause: clauseListen})
}

// subscription finds the subscription of a change and names what is wrong with its tag.
func (l *link) subscription(n *rpc.Notification, tag []byte) *Listening {
	if tag == nil {
		g := l.listenings.only(n.Method)
		taken := ""
		if g != nil {
			taken = "; it was taken for the only one that is open, " + string(g.id)
		}
		l.at(n).find("subscription-untagged", trace.SeverityError, n.Method+" names no subscription"+taken)
		return g
	}
	g, otherType, past := l.listenings.byTag(trace.RPCID(tag))
	switch {
	case otherType:
		l.at(n).find("subscription-id-type", trace.SeverityError, "the subscription "+string(g.id)+" is named "+shorten(string(tag))+": its id changed its JSON type")
	case g == nil && !past: // a change that was under way when its subscription ended is nobody's fault
		l.at(n).find("subscription-unknown", trace.SeverityError, n.Method+" names the subscription "+shorten(string(tag))+", which was never opened")
	}
	return g
}

// serverCancelled takes the server's notifications/cancelled: it may end a subscription by it, and nothing else.
func (l *link) serverCancelled(n *rpc.Notification) {
	id := trace.RPCID(member(n.Params, "requestId"))
	g, otherType, past := l.listenings.byTag(id)
	switch {
	case otherType:
		l.at(n).find("subscription-id-type", trace.SeverityError, "the server cancels the subscription "+string(g.id)+" as "+shorten(string(id))+": its id changed its JSON type")
	case g == nil && !past:
		l.at(n).find("server-cancelled", trace.SeverityError, "the server sent notifications/cancelled for "+shorten(string(id))+"; it may only end subscriptions by it")
	}
	if g != nil {
		g.tornDown()
	}
}

// receive takes one notification of the subscription.
func (g *Listening) receive(n *rpc.Notification) {
	if n.Method == methodAcknowledged {
		g.acknowledged(n)
		return
	}
	g.mu.Lock()
	acked, agreed := g.acked, g.agreed
	g.mu.Unlock()
	switch {
	case !acked:
		g.link.at(n).find("subscription-not-acknowledged", trace.SeverityError, "the server sent "+n.Method+" on the subscription "+string(g.id)+" before it acknowledged it")
	case !agreed.wants(n.Method):
		g.link.at(n).find("subscription-not-requested", trace.SeverityError, "the server sent "+n.Method+" on the subscription "+string(g.id)+", which does not ask for it")
	}
	c := Change{Method: n.Method, Params: append(trace.JSON(nil), n.Params...), Sequence: n.Sequence}
	c.URI, _ = textMember(n.Params, "uri")
	g.put(c)
}

func (g *Listening) acknowledged(n *rpc.Notification) {
	var agreed Filter
	raw := member(n.Params, "notifications")
	if raw == nil || json.Unmarshal(raw, &agreed) != nil {
		g.link.at(n).find("subscription-ack-invalid", trace.SeverityError, "the acknowledgement of the subscription "+string(g.id)+" does not say what was agreed to")
		agreed = g.want
	} else if !agreed.within(&g.want) {
		g.link.at(n).find("subscription-ack-invalid", trace.SeverityError, "the acknowledgement of the subscription "+string(g.id)+" agrees to more than was asked for")
	}
	g.mu.Lock()
	twice := g.acked
	if !twice {
		g.acked, g.agreed = true, agreed
	}
	g.mu.Unlock()
	if twice {
		g.link.at(n).find("subscription-ack-twice", trace.SeverityError, "the subscription "+string(g.id)+" was acknowledged twice")
		return
	}
	close(g.ack)
}
