package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

// ServerOption says which server is asked about: [OnServer].
type ServerOption interface{ serverOption(*common) }

// fact is what the evidence says of one server.
type fact struct {
	server string
	value  string
	o      outcome // of not having it
}

// ProtocolVersion expects that the version was negotiated: with every server, or with the one that [OnServer] names.
func (e *Expectation) ProtocolVersion(version string, opts ...ServerOption) bool {
	e.t.Helper()
	return e.onFacts("protocol_version", "ProtocolVersion", version, opts, func(view *trace.View) (facts []fact) {
		for _, i := range view.Initializations().All() {
			v, o := observed(i.ProtocolVersion, "protocol version")
			facts = append(facts, fact{i.ServerBinding, v, o})
		}
		return facts
	})
}

// Transport expects the kind of transport, stdio, streamable_http, sse or pipe: of every server, or of the one that [OnServer] names.
func (e *Expectation) Transport(kind string, opts ...ServerOption) bool {
	e.t.Helper()
	return e.onFacts("transport", "Transport", kind, opts, func(view *trace.View) (facts []fact) {
		for _, t := range view.Transports().All() {
			if t.Phase == "disconnected" {
				continue
			}
			f := fact{t.ServerBinding, t.Transport, held}
			if t.Transport == "" {
				f.o = cannotTell("the kind of the transport is not in the evidence")
			}
			facts = append(facts, f)
		}
		return facts
	})
}

func newServerCheck(matcher, title, name string, opts []ServerOption) (*check, *common) {
	spec := &common{}
	for _, opt := range opts {
		if opt == nil {
			spec.wrong("an option is nil")
			continue
		}
		opt.serverOption(spec)
	}
	if spec.turn != "" {
		spec.wrong("%s: what a server is does not depend on turns: leave InTurn out", name)
	}
	return &check{matcher: matcher, title: title, selector: spec.server, misuse: spec.misuse, args: spec.args}, spec
}

// onFacts expects that the fact is known of the servers that are asked about, and is the same for all of them.
func (e *Expectation) onFacts(matcher, name, want string, opts []ServerOption, read func(*trace.View) []fact) bool {
	e.t.Helper()
	what := strings.ReplaceAll(matcher, "_", " ")
	c, spec := newServerCheck(matcher, what+" "+quoted(want), name, opts)
	if want == "" && c.misuse == "" {
		c.misuse = name + ": the expected value is empty"
	}
	c.args.add("expected", want)
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView(name)
		if view == nil {
			return o
		}
		if view, o = spec.narrow(view); view == nil {
			return o
		}
		return s.judgeFacts(what, want, spec.server, read(view), lost(view))
	})
}

func (s *subject) judgeFacts(what, want, server string, facts []fact, lost string) outcome {
	facts = slices.DeleteFunc(facts, func(f fact) bool { return server != "" && f.server != server })
	result := s.holds("the %s is %s", what, want)
	var values []string
	for _, f := range facts {
		switch {
		case f.o.verdict == unknown && result.verdict == met:
			result = f.o
		case f.o.verdict == unmet:
			result = f.o
		case f.o.verdict == met && f.value != want:
			values = append(values, fmt.Sprintf("%s: %s", f.server, s.shown(f.value)))
		}
	}
	switch {
	case len(facts) == 0 && lost != "":
		return cannotTell("no " + what + " is in the evidence, and " + lost)
	case len(facts) == 0:
		return differs("no %s is in the evidence: was a server connected?", what)
	case len(values) > 0:
		return differs("%s (-want +got):\n- %s\n+ %s", what, want, strings.Join(values, "\n+ "))
	default:
		return result
	}
}

// Capability expects that the server declared a capability, by the names on the way to it with dots between them: Capability("tools"),
// Capability("resources.subscribe"). What is false or null is not declared. Every server is asked, or the one that [OnServer] names.
func (e *Expectation) Capability(name string, opts ...ServerOption) bool {
	e.t.Helper()
	c, spec := newServerCheck("capability", "capability "+quoted(name), "Capability", opts)
	c.selector = spec.selector(name)
	if name == "" && c.misuse == "" {
		c.misuse = "Capability: the name is empty"
	}
	c.args.add("name", name)
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("Capability")
		if view == nil {
			return o
		}
		if view, o = spec.narrow(view); view == nil {
			return o
		}
		var facts []fact
		for _, i := range view.Initializations().All() {
			if spec.server != "" && i.ServerBinding != spec.server {
				continue
			}
			value, o := observed(i.Capabilities, "capabilities")
			if o.verdict == met {
				value, o = s.declared(value, name)
			}
			facts = append(facts, fact{i.ServerBinding, string(value), o})
		}
		return s.judgeCapability(facts, lost(view))
	})
}

func (s *subject) judgeCapability(facts []fact, lost string) outcome {
	switch {
	case len(facts) == 0 && lost != "":
		return cannotTell("no capabilities are in the evidence, and " + lost)
	case len(facts) == 0:
		return differs("no capabilities are in the evidence: was a server connected?")
	}
	result := s.holds("it is declared: %s", s.shown(facts[0].value))
	for _, f := range facts {
		if f.o.verdict == unmet || f.o.verdict == unknown && result.verdict == met {
			result = outcome{f.o.verdict, f.server + ": " + f.o.reason}
		}
	}
	return result
}

// declared follows a name into the capabilities. Names of extensions have dots of their own: the longest that is there is taken.
func (s *subject) declared(capabilities trace.JSON, name string) (trace.JSON, outcome) {
	v, rest := capabilities, name
	for rest != "" {
		var object map[string]trace.JSON
		if err := v.Decode(&object); err != nil {
			object = nil
		}
		key := longest(object, rest)
		next := object[key]
		if key == "" || string(next) == "false" || string(next) == "null" {
			return nil, differs("capability (-want +got):\n- %s\n+ %s", name, s.shown(string(capabilities)))
		}
		v, rest = next, strings.TrimPrefix(strings.TrimPrefix(rest, key), ".")
	}
	return v, held
}

// longest finds the longest beginning of path, up to a dot, that is a member; empty when none is.
func longest(object map[string]trace.JSON, path string) string {
	for key := path; key != ""; key = key[:max(0, strings.LastIndexByte(key, '.'))] {
		if _, ok := object[key]; ok {
			return key
		}
	}
	return ""
}
