package m3

import (
	"fmt"

	"github.com/m3-go/m3/harness"
)

// reachable refuses a server that the agent has no way to.
func reachable(a *Agent, b *Binding, can *harness.Capabilities) error {
	feature := map[string]any{"feature": "server_transport", "harness": a.kind, "server": b.Alias}
	stream, legacy := true, false
	switch s := b.Server.(type) {
	case HTTPServer:
		stream, legacy = false, s.Transport == LegacySSE
	case HandlerServer:
		stream, legacy = false, s.Transport == LegacySSE
	}
	switch {
	case bridged(b.Server, can):
	case legacy:
		return &UnsupportedError{Message: fmt.Sprintf("server %s: HTTP+SSE of 2024-11-05 is offered only to agents that start servers over stdio, which %s does not: leave Transport empty", b.Alias, a.name), Details: feature}
	case stream && !can.StdioServers:
		return &UnsupportedError{Message: fmt.Sprintf("%s reaches servers over HTTP only, and %s speaks on a stream", a.name, b.Alias), Details: feature}
	case !stream && !can.HTTPServers:
		return &UnsupportedError{Message: fmt.Sprintf("%s reaches servers over stdio only, and %s speaks HTTP", a.name, b.Alias), Details: feature}
	}
	return nil
}
