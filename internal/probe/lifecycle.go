package probe

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const (
	clauseNegotiation = "basic/lifecycle: version negotiation"
	clauseInit        = "basic/lifecycle: initialization"
)

var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// offer asks initialize in a version, on a connection of its own, once a run. The answer is nil when none came.
func (b *bench) offer(ctx context.Context, version string) *m3.RawMessage {
	if m, asked := b.offers[version]; asked {
		return m
	}
	raw, err := b.own(ctx)
	if err != nil {
		return nil
	}
	ctx, cancel := b.starting(ctx)
	defer cancel()
	m, _ := raw.Initialize(ctx, version) // an error answer comes with its message
	b.offers[version] = m
	return m
}

func offered(m *m3.RawMessage) string {
	var v struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = m.Result.Decode(&v) // what cannot be read is no version
	return v.ProtocolVersion
}

func lifecycleProbes() []*Probe {
	return []*Probe{
		{Name: "echoes-any-version", About: "a version that nobody knows is not agreed to", Clause: clauseNegotiation, Severity: trace.SeverityError, Case: "C01", scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				m := b.offer(ctx, "9999-01-01")
				switch {
				case m == nil:
					return skip("there was no answer: see unknown-version-offer")
				case m.Error == nil && !slices.Contains(legacyVersions, offered(m)):
					return fired("asked for 9999-01-01, the server answered %q", offered(m))
				}
				return ok
			}},
		{Name: "unknown-version-offer", About: "a version that the server does not know is answered with one that it knows, not with an error", Clause: clauseNegotiation, Severity: trace.SeverityError, Case: "C04", scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				switch m := b.offer(ctx, "9999-01-01"); {
				case m == nil:
					return fired("no answer to initialize in 9999-01-01")
				case m.Error != nil:
					return fired("an error instead of an offer: %s", m)
				}
				return ok
			}},
		{Name: "oldest-version", About: "a client that speaks only 2024-11-05 can connect", Clause: clauseNegotiation + " (should support older versions)", Severity: trace.SeverityWarning, Case: "C02", scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				switch m := b.offer(ctx, "2024-11-05"); {
				case m == nil || m.Error != nil:
					return fired("initialize in 2024-11-05 failed")
				case offered(m) != "2024-11-05":
					return fired("asked for 2024-11-05, the server answered %q: older clients cannot connect", offered(m))
				}
				return ok
			}},
		{Name: "initialize-incomplete", About: "the result of initialize has protocolVersion, capabilities and serverInfo with name and version", Clause: "schema: InitializeResult", Severity: trace.SeverityError, Case: "B10", scope: legacyOnly,
			run: func(_ context.Context, b *bench) verdict { return completeInit(b.init.Raw) }},
		{Name: "initialize-without-params", About: "initialize without params is refused", Clause: clauseInit, Severity: trace.SeverityWarning, scope: legacyOnly,
			run: first(`{"jsonrpc":"2.0","id":"bare","method":"initialize"}`, `"bare"`, (*reply).refused)},
		{Name: "initialize-wrong-types", About: "initialize with params of the wrong types is refused", Clause: clauseInit, Severity: trace.SeverityWarning, scope: legacyOnly,
			run: first(`{"jsonrpc":"2.0","id":"typed","method":"initialize","params":{"protocolVersion":5,"capabilities":[],"clientInfo":"m3"}}`, `"typed"`, (*reply).refused)},
		{Name: "initialize-unknown-members", About: "capabilities and client info that the server does not know are ignored", Clause: clauseInit, Severity: trace.SeverityError, scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				f := `{"jsonrpc":"2.0","id":"odd","method":"initialize","params":{"protocolVersion":"` + b.version + `","capabilities":{"experimental":{"m3":{"a":1}},"x-m3":{}},"clientInfo":{"name":"m3","version":"1","x-m3":[1]},"x-m3":null}}`
				return first(f, `"odd"`, func(r *reply) verdict { return r.served(`"odd"`) })(ctx, b)
			}},
		{Name: "early-request", About: "a request before initialize does not keep the connection from being initialized", Clause: clauseInit, Severity: trace.SeverityError, scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				return b.handshakeAfter(ctx, `{"jsonrpc":"2.0","id":"early","method":"tools/list"}`)
			}},
		{Name: "early-notification", About: "notifications/initialized before initialize does not keep the connection from being initialized", Clause: clauseInit, Severity: trace.SeverityError, scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				return b.handshakeAfter(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}},
		{Name: "early-garbage", About: "garbage before initialize does not keep the connection from being initialized", Clause: clauseInit, Severity: trace.SeverityError, scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict { return b.handshakeAfter(ctx, `GET / HTTP/1.1`) }},
		{Name: "discover-probe", About: "server/discover, which a newer client asks first, is answered, and initialize still works", Clause: "2026-07-28, basic/lifecycle: era detection", Severity: trace.SeverityWarning, Case: "C10", scope: legacyOnly,
			run: runDiscover},
		{Name: "ping-before-initialized", About: "a ping between the answer to initialize and notifications/initialized is answered", Clause: clauseInit + ": pings are allowed", Severity: trace.SeverityWarning, Case: "C07", scope: legacyOnly,
			run: between("ping", "")},
		{Name: "set-level-before-initialized", About: "logging/setLevel before notifications/initialized does not break the handshake", Clause: clauseInit, Severity: trace.SeverityError, Case: "C07", scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				if !b.has("logging") {
					return skip("the server declares no logging")
				}
				return between("logging/setLevel", `{"level":"info"}`)(ctx, b)
			}},
		{Name: "second-initialize", About: "a second initialize is answered", Clause: clauseInit + ": the first interaction", Severity: trace.SeverityWarning, scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				raw, err := b.own(ctx)
				if err == nil {
					err = b.greet(ctx, raw)
				}
				if err != nil {
					return fired("%v", err)
				}
				id, frame := raw.Request("initialize", `{"protocolVersion":"`+b.version+`","capabilities":{},"clientInfo":{"name":"m3","version":"1"}}`)
				return b.poke(ctx, raw, &m3.RawFrame{Body: frame}, id).answered()
			}},
		{Name: "undeclared-feature", About: "the methods of a capability that is not declared do not exist (-32601)", Clause: "basic/lifecycle: capability negotiation", Severity: trace.SeverityWarning,
			run: runUndeclared},
	}
}

// completeInit looks at the result of the good client's own handshake.
func completeInit(raw trace.JSON) verdict {
	var m struct {
		ProtocolVersion string           `json:"protocolVersion"`
		Capabilities    *json.RawMessage `json:"capabilities"`
		ServerInfo      *struct {
			Name    *string `json:"name"`
			Version *string `json:"version"`
		} `json:"serverInfo"`
	}
	if err := raw.Decode(&m); err != nil {
		return fired("a member has the wrong type: %v", err)
	}
	var missing []string
	note := func(absent bool, name string) {
		if absent {
			missing = append(missing, name)
		}
	}
	note(m.ProtocolVersion == "", "protocolVersion")
	note(m.Capabilities == nil || (*m.Capabilities)[0] != '{', "capabilities")
	note(m.ServerInfo == nil, "serverInfo")
	note(m.ServerInfo != nil && m.ServerInfo.Name == nil, "serverInfo.name")
	note(m.ServerInfo != nil && m.ServerInfo.Version == nil, "serverInfo.version")
	if missing != nil {
		return fired("it lacks %s", strings.Join(missing, ", "))
	}
	return ok
}

// first is the run of a probe whose frame is the first on a fresh connection.
func first(frame, id string, judge func(*reply) verdict) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		raw, err := b.own(ctx)
		if err != nil {
			return fired("%v", err)
		}
		return judge(b.post1(ctx, raw, frame, id))
	}
}

// post1 sends a first frame. No ping follows it: before initialize a server need not answer one.
func (b *bench) post1(ctx context.Context, raw *m3.Raw, frame, id string) *reply {
	ctx, cancel := b.starting(ctx)
	defer cancel()
	f := &m3.RawFrame{Body: []byte(frame)}
	if b.http {
		return b.post(ctx, raw, f, id)
	}
	r := &reply{}
	if r.err = raw.SendFrame(ctx, f); r.err != nil {
		return r
	}
	m, err := raw.Expect(ctx, "an answer", func(m *m3.RawMessage) bool { return m.Result != nil || m.Error != nil })
	if r.err = err; err == nil {
		r.messages = append(r.messages, m)
	}
	return r
}

// handshakeAfter sends a frame on a fresh connection, whatever comes of it, and wants a whole handshake and an answered list then.
func (b *bench) handshakeAfter(ctx context.Context, frame string) verdict {
	raw, err := b.own(ctx)
	if err != nil {
		return fired("%v", err)
	}
	_ = raw.Send(ctx, []byte(frame)) // refused or not: what follows tells
	return b.completes(ctx, raw)
}

// completes performs the handshake and lists.
func (b *bench) completes(ctx context.Context, raw *m3.Raw) verdict {
	if err := b.greet(ctx, raw); err != nil {
		return fired("the handshake fails after it: %s", firstLine(err))
	}
	return b.lives(ctx, raw)
}

// greet performs the handshake of a connection of the probe's own.
func (b *bench) greet(ctx context.Context, raw *m3.Raw) error {
	ctx, cancel := b.starting(ctx)
	defer cancel()
	_, err := raw.Handshake(ctx, b.version)
	return err
}

func (b *bench) lives(ctx context.Context, raw *m3.Raw) verdict {
	ctx, cancel := b.starting(ctx)
	defer cancel()
	id, frame := raw.Request(b.lists(), "")
	if err := raw.Send(ctx, frame); err != nil {
		return fired("%s is not taken after it: %s", b.lists(), firstLine(err))
	}
	if _, err := raw.ExpectResult(ctx, id); err != nil {
		return fired("%s fails after it: %s", b.lists(), firstLine(err))
	}
	return ok
}

// runDiscover plays a client of 2026-07-28 that falls back.
func runDiscover(ctx context.Context, b *bench) verdict {
	raw, err := b.own(ctx)
	if err != nil {
		return fired("%v", err)
	}
	const frame = `{"jsonrpc":"2.0","id":"era","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"m3","version":"1"}}}}`
	switch r := b.post1(ctx, raw, frame, `"era"`); {
	case r.result() != nil:
		return ok // it speaks the newer era too, and the connection may be settled on it
	case r.any() == nil && r.status == 0:
		return fired("server/discover is met with silence: newer clients lose their time here (%s)", r.saw())
	}
	return b.completes(ctx, raw)
}

// between is the run of a probe that sends a request before notifications/initialized.
func between(method, params string) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		raw, err := b.own(ctx)
		if err != nil {
			return fired("%v", err)
		}
		bounded, cancel := b.starting(ctx)
		defer cancel()
		if _, err := raw.Initialize(bounded, b.version); err != nil {
			return fired("%s", firstLine(err))
		}
		raw.SetProtocol(b.version)
		id, frame := raw.Request(method, params)
		r := b.post1(ctx, raw, string(frame), id)
		if method == "ping" {
			if v := r.served(id); v.state != Clean {
				return v
			}
		}
		if err := raw.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			return fired("%s", firstLine(err))
		}
		return b.lives(ctx, raw)
	}
}

func runUndeclared(ctx context.Context, b *bench) verdict {
	tried := false
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if b.has(kind) {
			continue
		}
		tried = true
		r, _ := b.ask(ctx, kind+"/list", "")
		if v := r.refusedWith(-32601); v.state == Fired {
			return fired("%s is not declared; %s/list: %s", kind, kind, v.message)
		}
	}
	if !tried {
		return skip("the server declares tools, prompts and resources")
	}
	return ok
}
