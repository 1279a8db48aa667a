package rpc

import (
	"errors"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// What a relay needs of this package: to read the envelope of what passes, as a connection does.

// Envelope is one JSON value taken apart as far as a JSON-RPC envelope goes. Its fields are parts of the text that was read; nil is absent. Of a
// member that stands twice the last one counts.
type Envelope struct {
	Raw, ID, Method, Params, Result, Error []byte
	Object                                 bool   // it is a JSON object
	Twice                                  string // a member of the envelope that stands more than once
	m                                      message
}

// Envelopes reads envelopes. It is used again, by one goroutine at a time, so that the usual message costs no memory.
type Envelopes struct {
	r     reader
	one   [1]Envelope
	batch []Envelope
}

// Read takes JSON text apart: one value, or the members of an array that has some; then batch is true. They are valid until the next call. The
// error says where the text stops being JSON.
func (r *Envelopes) Read(b []byte) (list []Envelope, batch bool, err error) {
	one, many, bad := r.r.read(b, false)
	switch {
	case bad != nil:
		return nil, false, errors.New(bad.Error())
	case many == nil:
		r.one[0] = envelopeOf(one)
		return r.one[:], false, nil
	}
	r.batch = r.batch[:0]
	for i := range many {
		r.batch = append(r.batch, envelopeOf(&many[i]))
	}
	return r.batch, true, nil
}

func envelopeOf(m *message) Envelope {
	return Envelope{Raw: m.raw, ID: m.id, Method: m.method, Params: m.params, Result: m.result, Error: m.errorObj, Object: m.object, Twice: m.twice, m: *m}
}

// Kind is the event kind of the message: [trace.KindMCPMalformed] when the value is no JSON-RPC message.
func (e *Envelope) Kind() trace.Kind {
	switch {
	case !e.m.isMessage(), e.Method == nil && !e.m.isAnswer():
		return trace.KindMCPMalformed
	case e.Method != nil && e.ID != nil:
		return trace.KindMCPRequest
	case e.Method != nil:
		return kindOfNotification(e.MethodName())
	case e.Error != nil:
		return trace.KindMCPError
	}
	return trace.KindMCPResponse
}

// MethodName is the method, unquoted; empty when there is none.
func (e *Envelope) MethodName() string {
	if e.Method == nil {
		return ""
	}
	return unquote(e.Method)
}

// SameID returns the id as m3 itself would write it: 1 for 1.0, "a" for "\u0061". It is empty when there is none.
func (e *Envelope) SameID() trace.RPCID {
	if e.ID == nil {
		return ""
	}
	return sameValue(e.ID)
}

// OtherID returns the id that a client which is careless about types would take for this one: "1" for 1 and 1 for "1"; empty when there is none.
func (e *Envelope) OtherID() trace.RPCID {
	if e.ID == nil {
		return ""
	}
	return otherType(e.ID)
}

// BodyKind is the event kind of a received body, or server-sent event, that is one JSON value or none: err is that of Read.
func BodyKind(f *wire.Frame, list []Envelope, batch bool, err error) trace.Kind {
	failed := f.HTTP != nil && f.HTTP.Status >= 300
	switch {
	case f.Framing == trace.FramingSSE && f.Partial, f.Dropped > 0:
		return trace.KindMCPMalformed
	case f.Partial, f.Framing == trace.FramingSSE && (len(f.Body) == 0 || f.Event != ""), err != nil && failed:
		return trace.KindHTTPExchange
	case err != nil:
		return trace.KindMCPMalformed
	case batch:
		return trace.KindMCPResponse
	case failed && !list[0].m.isMessage():
		return trace.KindHTTPExchange
	}
	return list[0].Kind()
}
