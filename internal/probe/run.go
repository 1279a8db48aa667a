package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// Options configure [Run]. The zero value probes everything that is safe.
type Options struct {
	// Only names the probes to run; empty runs all.
	Only []string
	// CallTools allows valid calls of tools that are not annotated readOnlyHint, and invalid ones of those annotated destructive.
	CallTools bool
	// Protocol pins the version; empty takes the newest that both speak.
	Protocol string
	// Patience is how long an answer may take. 0: 3 s. Start bounds a start of the server. 0: 30 s.
	Patience, Start time.Duration
	// Done, if set, is told of each result as it comes.
	Done func(Result)
}

// Result is what became of one probe.
type Result struct {
	Name     string         `json:"name"`
	Severity trace.Severity `json:"severity"`
	Clause   string         `json:"clause"`
	Case     string         `json:"case,omitempty"`
	About    string         `json:"about"`
	State    State          `json:"state"`
	// Message says what was seen, or why the probe was skipped.
	Message string `json:"message,omitempty"`
	// Died says that the server stopped answering after the probe; that is an error whatever the probe's severity.
	Died bool `json:"died,omitempty"`
}

// Effective is the severity that counts: a server that died is an error.
func (r *Result) Effective() trace.Severity {
	if r.Died {
		return trace.SeverityError
	}
	return r.Severity
}

// Alive is the answer to the last question of a run.
type Alive struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// Report is the result of a run.
type Report struct {
	Server        string   `json:"server"`
	ServerVersion string   `json:"server_version"`
	Protocol      string   `json:"protocol"`
	Transport     string   `json:"transport"`
	Tools         int      `json:"tools"`
	Results       []Result `json:"results"`
	Alive         Alive    `json:"alive"`
	// Executions are the traces of the connections, in order.
	Executions []trace.ExecutionID `json:"executions"`
}

// Count counts the results in a state and, for those that fired, of a severity (empty: any).
func (r *Report) Count(s State, sev trace.Severity) int {
	n := 0
	for i := range r.Results {
		if x := &r.Results[i]; x.State == s && (sev == "" || x.Effective() == sev) {
			n++
		}
	}
	return n
}

// Failed reports whether an error was found, or the server did not survive.
func (r *Report) Failed() bool { return !r.Alive.OK || r.Count(Fired, trace.SeverityError) > 0 }

// FiredNames are the names of the probes that fired, sorted.
func (r *Report) FiredNames() []string {
	var names []string
	for i := range r.Results {
		if r.Results[i].State == Fired {
			names = append(names, r.Results[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// UnknownProbeError names a probe that does not exist.
type UnknownProbeError struct{ Name string }

// Error names it.
func (e *UnknownProbeError) Error() string {
	return fmt.Sprintf("there is no probe %q: m3 probe --list names them", e.Name)
}

// Run probes a server with connections of the kit. The error is about connecting or about the options; what the server does wrong is in the report, and the run goes
// on after it. It always ends with the question whether the server is still alive.
func Run(ctx context.Context, kit *m3.Kit, server m3.Server, opts *Options) (*Report, error) {
	b := &bench{kit: kit, server: server, offers: map[string]*m3.RawMessage{}, calls: map[string]*toolCall{}, seen: map[*m3.Raw]int64{}}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Patience == 0 {
		b.opts.Patience = 3 * time.Second
	}
	probes, err := choose(b.opts.Only)
	if err != nil {
		return nil, err
	}
	if err := b.meet(ctx); err != nil {
		return nil, err
	}
	defer b.drop()
	rep := &Report{Server: b.init.ServerName, ServerVersion: b.init.ServerVersion, Protocol: b.version, Transport: b.transport(), Tools: len(b.tools)}
	for _, p := range probes {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		res := b.try(ctx, p)
		rep.Results = append(rep.Results, res)
		if b.opts.Done != nil {
			b.opts.Done(res)
		}
	}
	rep.Alive = b.last(ctx)
	rep.Executions = b.used
	return rep, ctx.Err()
}

// choose picks the probes by name.
func choose(only []string) ([]*Probe, error) {
	all := All()
	if len(only) == 0 {
		return all, nil
	}
	for _, name := range only {
		if !slices.ContainsFunc(all, func(p *Probe) bool { return p.Name == name }) {
			return nil, &UnknownProbeError{name}
		}
	}
	return slices.DeleteFunc(all, func(p *Probe) bool { return !slices.Contains(only, p.Name) }), nil
}

// meet connects as a good client does, and learns what there is.
func (b *bench) meet(ctx context.Context) error {
	began := time.Now()
	c, err := b.kit.Direct(ctx, b.server, &m3.DirectOptions{Protocol: b.opts.Protocol, StartTimeout: b.opts.Start})
	if err != nil {
		return err
	}
	b.startup = time.Since(began)
	b.used = append(b.used, c.ExecutionID())
	b.init = c.Initialization()
	b.version = b.init.ProtocolVersion
	b.modern = b.version >= "2026-07-28"
	switch s := b.server.(type) {
	case m3.HTTPServer:
		b.http, b.loopback = true, loopbackURL(s.URL)
	case m3.HandlerServer:
		b.http, b.loopback = true, true
	}
	_ = b.init.Capabilities.Decode(&b.caps) // what is no object declares nothing
	if b.has("tools") {
		b.tools, _ = c.ListAllTools(ctx, nil) // a list that cannot be read is the list probes' matter
	}
	if b.has("prompts") {
		b.prompts, _ = c.ListAllPrompts(ctx, nil)
	}
	return c.Close()
}

func loopbackURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}

// has reports whether the server declares the capability.
func (b *bench) has(capability string) bool {
	v, ok := b.caps[capability]
	return ok && string(v) != "null"
}

func (b *bench) sub(capability, member string) bool {
	var v map[string]json.RawMessage
	return json.Unmarshal(b.caps[capability], &v) == nil && string(v[member]) == "true"
}

func (b *bench) transport() string {
	if b.http {
		return "http"
	}
	return "stdio"
}

// try runs one probe, and asks afterwards whether the server lives.
func (b *bench) try(ctx context.Context, p *Probe) Result {
	res := Result{Name: p.Name, Severity: p.Severity, Clause: p.Clause, Case: p.Case, About: p.About, State: Skipped}
	if res.Message = p.applies(b); res.Message != "" {
		return res
	}
	if _, err := b.conn(ctx); err != nil {
		res.State, res.Died, res.Message = Fired, true, "the server cannot be connected to any more: "+err.Error()
		return res
	}
	v := p.run(ctx, b)
	b.tidy()
	res.State, res.Message = v.state, v.message
	if err := b.alive(ctx); err != nil && ctx.Err() == nil {
		b.drop()
		res.State, res.Died = Fired, true
		res.Message = strings.TrimPrefix(res.Message+"; ", "; ") + "afterwards the server was gone: " + firstLine(err)
	}
	return res
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(s, "m3: ")
}

// last asks the last question: on the connection that saw everything, and as a good client on a new one.
func (b *bench) last(ctx context.Context) Alive {
	if err := b.alive(ctx); err != nil {
		return Alive{Message: "the connection that was probed is dead: " + firstLine(err)}
	}
	c, err := b.kit.Direct(ctx, b.server, &m3.DirectOptions{Protocol: b.opts.Protocol, StartTimeout: b.opts.Start})
	if err != nil {
		return Alive{Message: "a new client cannot connect: " + firstLine(err)}
	}
	b.used = append(b.used, c.ExecutionID())
	var now []m3.ToolInfo
	if b.has("tools") {
		now, err = c.ListAllTools(ctx, nil)
	}
	switch err = errors.Join(err, c.Close()); {
	case err != nil && len(b.tools) > 0:
		return Alive{Message: "a new client cannot list the tools: " + firstLine(err)}
	case len(now) != len(b.tools):
		return Alive{Message: fmt.Sprintf("a new client finds %d tools; there were %d", len(now), len(b.tools))}
	}
	return Alive{OK: true, Message: fmt.Sprintf("yes: it answers on the probed connection, and a new client finds its %d tools", len(now))}
}
