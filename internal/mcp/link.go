package mcp

import (
	"context"
	"sync/atomic"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// link is one connection to the server, from its first byte on: the server may speak before there is a session.
type link struct {
	cfg       *Config
	id        trace.ConnectionID
	conn      *rpc.Conn
	transport wire.Transport
	// settled is the version that both sides agreed on, empty until then.
	settled  atomic.Pointer[string]
	progress progress
	serving  serving
	turns    turns
	// listenings are the open subscriptions; logs says that some request asked for log messages.
	listenings listenings
	logs       atomic.Bool
}

// The optional powers of a transport. *wire.HTTP has them all; one that wraps it must pass them on.
type (
	protocolSetter interface{ SetProtocol(version string) }
	streamOpener   interface{ OpenStreamNow(context.Context) }
	aborter        interface{ Abort(id trace.RPCID) }
)

// dial opens a fresh connection and starts JSON-RPC on it.
func dial(ctx context.Context, cfg *Config) (*link, error) {
	l := &link{cfg: cfg}
	g := &gate{}
	id, t, err := cfg.Dial(ctx, g)
	if err != nil {
		g.pass(nil)
		return nil, err
	}
	l.id, l.transport = id, t
	l.conn = rpc.New(&rpc.Config{
		Tape: cfg.Tape, Server: cfg.Server, Connection: id,
		Request: l.request, Arrived: l.arrived, Notification: l.notification, Cancel: l.cancel,
	})
	l.conn.Start(t)
	g.pass(l.conn)
	return l, nil
}

// use sets the version that HTTP headers name from now on; "" is none, as in initialize.
func (l *link) use(protocol string) {
	if t, ok := l.transport.(protocolSetter); ok {
		t.SetProtocol(protocol)
	}
}

// settle is called when both sides have agreed on a version.
func (l *link) settle(protocol string) {
	l.use(protocol)
	l.conn.SetProtocol(protocol)
	l.settled.Store(&protocol)
}

// version is the settled version, "" while there is none.
func (l *link) version() string {
	if p := l.settled.Load(); p != nil {
		return *p
	}
	return ""
}

// modernHTTP reports whether a request is cancelled by ending its exchange.
func (l *link) modernHTTP() (aborter, bool) {
	a, ok := l.transport.(aborter)
	return a, ok && Modern(l.version())
}

// cancel tells the server that the answer to a request is no longer wanted. From 2026-07-28 on that is the end of the HTTP exchange; everywhere
// else it is a notification. The caller's time is up, so it gets little more.
func (l *link) cancel(id trace.RPCID) {
	if a, ok := l.modernHTTP(); ok {
		a.Abort(id)
		return
	}
	ctx, done := context.WithTimeout(context.Background(), cancelTimeout)
	defer done()
	params := append(append([]byte(`{"requestId":`), id...), `,"reason":"the caller no longer waits for the answer"}`...)
	_ = l.conn.Notify(ctx, "notifications/cancelled", params) // a failed write ends the connection, which tells more than this could
}
