package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// Problem is one message that is not as it must be.
type Problem struct {
	Direction trace.Direction
	Server    string
	Protocol  string
	// Definition is the schema's definition, or empty for a rule of the prose.
	Definition string
	Text       string
	Message    string // its beginning
}

func (p Problem) String() string {
	by := "prose"
	if p.Definition != "" {
		by = p.Definition
	}
	return fmt.Sprintf("%s (%s, %s): %s\n    %s", p.Server, cmp.Or(p.Protocol, "no version yet"), by, p.Text, p.Message)
}

// Use is how often messages were checked by a definition.
type Use struct {
	Direction  trace.Direction
	Protocol   string
	Definition string
	Messages   int
	Refused    int // messages that the definition does not accept
	Mutants    int // mutated copies of the first message
	Caught     int // of them, those that it does not accept
}

type useKey struct {
	dir      trace.Direction
	protocol string
	def      string
}

// Checker checks messages as they pass. It may be used from several goroutines.
type Checker struct {
	schemas  *Schemas
	received bool

	mu       sync.Mutex
	conns    map[connKey]*conn
	uses     map[useKey]*Use
	problems []Problem
}

type connKey struct {
	owner any
	id    trace.ConnectionID
}

// New returns a checker of what m3 sends. With received it also checks what servers send.
func New(s *Schemas, received bool) *Checker {
	return &Checker{schemas: s, received: received, conns: map[connKey]*conn{}, uses: map[useKey]*Use{}}
}

// Event takes one event of an execution; owner tells executions apart. Events without a frame, and traffic of other protocols, are left alone.
func (c *Checker) Event(owner any, ev *trace.Event) {
	f := ev.Frame
	if f == nil || ev.Source.Source != "mcp" || f.Dropped > 0 || f.Partial {
		return
	}
	switch ev.Kind {
	case trace.KindMCPRequest, trace.KindMCPResponse, trace.KindMCPError, trace.KindMCPNotification, trace.KindMCPProgress, trace.KindMCPCancelRequested:
	default: // noise, HTTP answers without a message, a request that a redirect sent again
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schemas.mu.Lock()
	defer c.schemas.mu.Unlock()
	key := connKey{owner, ev.ConnectionID}
	k := c.conns[key]
	if k == nil {
		k = newConn(c, ev.Server)
		c.conns[key] = k
	}
	if f.Direction == trace.ClientToServer {
		k.sent(f)
	} else {
		k.got(f)
	}
}

// Problems are what was found, in order.
func (c *Checker) Problems() []Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.problems)
}

// Uses lists the definitions that were used, sorted.
func (c *Checker) Uses() []Use {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Use, 0, len(c.uses))
	for _, u := range c.uses {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b Use) int {
		return cmp.Or(strings.Compare(string(a.Direction), string(b.Direction)), strings.Compare(b.Protocol, a.Protocol), strings.Compare(a.Definition, b.Definition))
	})
	return list
}

// maxShown bounds how much of a message a problem shows.
const maxShown = 400

func (c *Checker) problem(dir trace.Direction, server, protocol, def string, raw []byte, format string, args ...any) {
	shown := string(raw[:min(len(raw), maxShown)])
	c.problems = append(c.problems, Problem{dir, server, protocol, def, fmt.Sprintf(format, args...), strings.TrimSpace(shown)})
}

// check validates a value by a definition. The first message of each definition is mutated too.
func (c *Checker) check(dir trace.Direction, server, protocol, def string, value map[string]any, raw []byte) {
	v := c.schemas.versions[protocol]
	if v == nil || def == "" {
		return
	}
	key := useKey{dir, protocol, def}
	u := c.uses[key]
	first := u == nil
	if first {
		u = &Use{Direction: dir, Protocol: protocol, Definition: def}
		c.uses[key] = u
	}
	u.Messages++
	if err := v.validate(def, value); err != nil {
		u.Refused++
		c.problem(dir, server, protocol, def, raw, "%v", err)
		if first {
			delete(c.uses, key) // a good message is needed to make mutants of
			defer func() { c.uses[key] = u }()
		}
		return
	}
	if u.Mutants == 0 {
		c.mutate(u, v, server, value, raw)
	}
}

// mutate shows that the definition refuses what is wrong.
func (c *Checker) mutate(u *Use, v *version, server string, value map[string]any, raw []byte) {
	for _, m := range mutants(value) {
		u.Mutants++
		if v.validate(u.Definition, m.value) != nil {
			u.Caught++
		} else if m.must && !(m.what == "another method" && strings.HasPrefix(u.Definition, "JSONRPC")) { // an envelope allows any
			c.problem(u.Direction, server, u.Protocol, u.Definition, raw, "the definition accepts a mutant: %s", m.what)
		}
	}
}

// known reports whether there is a schema of the version.
func known(protocol string) bool { return mcp.Known(protocol) }
