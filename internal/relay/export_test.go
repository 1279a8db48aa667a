package relay

import (
	"bytes"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// Judge returns what of a line of the agent a relay with this restriction forwards; nil is nothing.
func Judge(allow func(string) bool) func(line []byte) []byte {
	p := &policy{allow: allow}
	return func(line []byte) []byte {
		var rd rpc.Envelopes
		list, batch, err := rd.Read(line)
		v := p.frame(&wire.Frame{Framing: trace.FramingLine, Raw: line, Body: line}, list, batch, err, nil)
		switch {
		case !v.any():
			return line
		case v.whole != nil || !batch:
			return nil
		}
		rest, _, _ := v.rest(list)
		return bytes.Clone(rest)
	}
}

// InEvent is inEvent.
func InEvent(raw, data []byte) []byte { return inEvent(raw, data) }

// Abandon ends an agent's connections as the end of the test process does: the shim hears nothing.
func Abandon(a *Agent) {
	a.drop()
	<-a.gone
}
