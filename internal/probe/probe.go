package probe

import (
	"context"
	"fmt"
	"slices"

	"github.com/m3-go/m3/trace"
)

// Probe is one hostile act with its judgement.
type Probe struct {
	// Name is stable: lower case with hyphens.
	Name string
	// About says what a good server does.
	About string
	// Clause is the place in the specification that asks for it.
	Clause   string
	Severity trace.Severity
	// Case is the public report that the probe stands for, if there is one: an id such as B04.
	Case string

	scope scope
	run   func(ctx context.Context, b *bench) verdict
}

// scope says where a probe means something. The zero value is everywhere.
type scope uint8

const (
	legacyOnly scope = 1 << iota // the versions with initialize
	modernOnly                   // 2026-07-28 and later
	stdioOnly
	httpOnly
)

// State is what became of a probe.
type State string

// The states.
const (
	Clean   State = "clean"   // the server did what it should
	Fired   State = "fired"   // it did not
	Skipped State = "skipped" // the probe means nothing here; the message says why
)

// verdict is a probe's own judgement.
type verdict struct {
	state   State
	message string
}

var ok = verdict{state: Clean}

func fired(format string, args ...any) verdict {
	return verdict{Fired, fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) verdict {
	return verdict{Skipped, fmt.Sprintf(format, args...)}
}

// All is the whole set, in the order in which it runs. It is made anew each time.
func All() []*Probe {
	return slices.Concat(lifecycleProbes(), modernProbes(), envelopeProbes(), idProbes(), framingProbes(), notificationProbes(), listProbes(), toolProbes(), featureProbes(), httpProbes(), sessionProbes())
}

// applies says why the probe cannot run here; empty when it can.
func (p *Probe) applies(b *bench) string {
	switch {
	case p.scope&legacyOnly != 0 && b.modern:
		return "only before 2026-07-28, and the server speaks " + b.version
	case p.scope&modernOnly != 0 && !b.modern:
		return "only from 2026-07-28 on, and the server speaks " + b.version
	case p.scope&stdioOnly != 0 && b.http:
		return "only over stdio"
	case p.scope&httpOnly != 0 && !b.http:
		return "only over HTTP"
	}
	return ""
}
