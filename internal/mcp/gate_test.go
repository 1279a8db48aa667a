package mcp

import (
	"io"
	"slices"
	"testing"

	"github.com/m3-go/m3/internal/wire"
)

// listener notes what it is told.
type listener struct{ heard []string }

func (l *listener) Sent(f *wire.Frame)             { l.heard = append(l.heard, "sent "+string(f.Raw)) }
func (l *listener) Received(f *wire.Frame)         { l.heard = append(l.heard, "received "+string(f.Raw)) }
func (l *listener) ExchangeEnded(x *wire.Exchange) { l.heard = append(l.heard, "ended "+string(x.For)) }
func (l *listener) Closed(err error)               { l.heard = append(l.heard, "closed "+err.Error()) }

func TestGateKeepsOrderAndBytes(t *testing.T) {
	t.Parallel()
	g, l := &gate{}, &listener{}
	frame := &wire.Frame{Raw: []byte("a")}
	g.Received(frame)
	frame.Raw[0] = 'b' // the transport uses its buffer again
	g.Sent(frame)
	x := &wire.Exchange{For: "1"}
	g.ExchangeEnded(x)
	x.For = "2"
	g.pass(l)
	g.Received(frame)
	g.Sent(frame)
	g.ExchangeEnded(x)
	g.Closed(io.EOF)
	want := []string{"received a", "sent b", "ended 1", "received b", "sent b", "ended 2", "closed EOF"}
	if !slices.Equal(l.heard, want) {
		t.Errorf("heard %q, want %q", l.heard, want)
	}
}

func TestGateDropsAfterFailedDial(t *testing.T) {
	t.Parallel()
	g := &gate{}
	g.Closed(io.EOF)
	g.pass(nil)
	g.Received(&wire.Frame{}) // must not wait for anybody
}
