package relay

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/trace"
)

// Config says what a relay is for. Tape is required.
type Config struct {
	// Tape is where everything is recorded.
	Tape *evidence.Tape
	// Server is the server's name in the execution: Event.Server of every event.
	Server string
	// Allow reports whether a tool, in the server's own words, may be used; nil: all may. It is enforced on the answers to tools/list, which are
	// filtered, and on tools/call. It is called from several goroutines and must not change its mind.
	Allow func(tool string) bool
	// Scope says where a request belongs that passes now; its answer belongs there too, whenever it comes. It must not block. Nil: nowhere.
	Scope func() (trace.SessionID, trace.TurnID)
	// Observe is called with each frame after it was recorded, in the order of the wire, one at a time. While the store keeps up that is before the
	// frame is forwarded. A frame that found the queue full is not observed: see [Relay.Lost]. It must not block.
	Observe func(f *Frame)
	// Note, if set, is what m3 knows of the agent's answer to a request of the server, as the payload of its event; nil is nothing. It is called before the answer is recorded, and must not
	// block.
	Note func(conn trace.ConnectionID, id trace.RPCID) []byte
	// Connection names the next connection, uniquely in the execution. Nil: "<server>-1" and so on.
	Connection func() trace.ConnectionID
	// Buffer is how much may wait to be recorded, in bytes; what comes when it is full is forwarded without being recorded. 0: 64 MiB.
	Buffer int64
	// MaxFrame is the cap on one recorded frame, in bytes. The rest of a longer one is forwarded and counted; under a restriction an agent's frame
	// over the cap is refused. 0: 64 MiB.
	MaxFrame int64
}

// Frame is what passed, as [Config.Observe] sees it: one message, a batch, or something that is neither. Its bytes are valid during the call.
type Frame struct {
	Connection trace.ConnectionID
	// Sequence is the event that holds the frame; -1 when the store did not take it.
	Sequence  int64
	Direction trace.Direction
	// Body is the frame without its terminator, unredacted: of a server-sent event its data.
	Body []byte
	// Method is that of a request or notification, and of an answer that of its request. Empty for a batch.
	Method string
	// ID is the request's id, as it stands on the wire. Empty for a batch.
	ID trace.RPCID
	// Denied: the frame, or a part of it when it is a batch, was not forwarded.
	Denied bool
	// Filtered: the frame is an answer to tools/list as the agent gets it. The answer as the server sent it came before.
	Filtered bool
}

// Connection is one connection of an agent. Times are zero while it has not happened.
type Connection struct {
	ID        trace.ConnectionID
	Transport string // "stdio", "streamable_http"
	Opened    time.Time
	Closed    time.Time
	// Initialized is when the answer to initialize or server/discover was forwarded, Protocol the agreed version, Client and ClientVersion what the agent calls itself.
	Initialized           time.Time
	Protocol              string
	Client, ClientVersion string
	// Listed is when the first answer to tools/list was forwarded.
	Listed time.Time
	// Calls counts the tools/call requests that reached the server, Denied what was refused.
	Calls, Denied int
	// Err is why the connection ended, other than by one side's orderly end.
	Err error
}

const (
	defaultBuffer = 64 << 20
	defaultFrame  = 64 << 20
	closeBound    = 5 * time.Second // what Close waits for a store that stands still
)

// Relay records and restricts what passes between an agent and one server. It may be used from several goroutines.
type Relay struct {
	cfg    Config
	policy atomic.Pointer[policy] // nil: no restriction
	queue  *queue

	listed     chan struct{}
	listedOnce sync.Once

	mu     sync.Mutex
	conns  []*conn
	closed bool
	life   context.Context
	end    context.CancelFunc
	active sync.WaitGroup // streams, and HTTP requests on their way
}

// New returns a relay. Close it.
func New(cfg *Config) *Relay {
	r := &Relay{cfg: *cfg, listed: make(chan struct{})}
	if r.cfg.Buffer <= 0 {
		r.cfg.Buffer = defaultBuffer
	}
	if r.cfg.MaxFrame <= 0 {
		r.cfg.MaxFrame = defaultFrame
	}
	r.Restrict(r.cfg.Allow)
	r.life, r.end = context.WithCancel(context.Background())
	r.queue = newQueue(&r.cfg)
	return r
}

// Restrict replaces Config.Allow for all that passes from now on; nil is no restriction. What an agent has listed before it keeps, and may not call.
func (r *Relay) Restrict(allow func(tool string) bool) {
	if allow == nil {
		r.policy.Store(nil)
		return
	}
	r.policy.Store(&policy{allow: allow})
}

// ErrClosed is returned by what is asked of a closed relay.
var ErrClosed = errors.New("relay: closed")

// Listed is closed when an answer to tools/list has been forwarded to an agent.
func (r *Relay) Listed() <-chan struct{} { return r.listed }

// Drain waits until everything that passed before the call has been recorded and observed, or given up. It returns the context's error.
func (r *Relay) Drain(ctx context.Context) error { return r.queue.drain(ctx) }

// Lost is the number of events that found the queue full and were not recorded.
func (r *Relay) Lost() int64 { return r.queue.lost() }

// Connections returns the connections in the order in which they were opened.
func (r *Relay) Connections() []Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Connection, len(r.conns))
	for i, c := range r.conns {
		out[i] = c.snapshot()
	}
	return out
}

// Close ends all connections and waits until what passed is recorded, for 5 s at most: then the store stands still, and the error says so.
// It is idempotent.
func (r *Relay) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	conns := r.conns
	r.mu.Unlock()
	r.end()
	r.active.Wait()
	if first {
		for _, c := range conns {
			c.close(nil)
		}
	}
	return r.queue.close(closeBound)
}

// open makes a connection; an empty id is a new one.
func (r *Relay) open(id trace.ConnectionID, transport string) (*conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if id == "" {
		id = r.name()
	}
	c := newConn(r, id, transport)
	r.conns = append(r.conns, c)
	return c, nil
}

func (r *Relay) name() trace.ConnectionID {
	if r.cfg.Connection != nil {
		return r.cfg.Connection()
	}
	return trace.ConnectionID(r.cfg.Server + "-" + strconv.Itoa(len(r.conns)+1))
}

// enter registers something that Close waits for.
func (r *Relay) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.active.Add(1)
	return true
}

func (r *Relay) servedList() { r.listedOnce.Do(func() { close(r.listed) }) }

func (r *Relay) scope() place {
	if r.cfg.Scope == nil {
		return place{}
	}
	var p place
	p.session, p.turn = r.cfg.Scope()
	return p
}

// place is where a message belongs.
type place struct {
	session trace.SessionID
	turn    trace.TurnID
}
