package elicit

import (
	"github.com/m3-go/m3/trace"
)

// Action is what a response says.
type Action = trace.Action

// The actions.
const (
	ActionAccept  = trace.ActionAccept  // the input is given
	ActionDecline = trace.ActionDecline // the user said no
	ActionCancel  = trace.ActionCancel  // the user gave no answer
)

// Content is the input that an accepted form gives: a JSON object. The empty one is an answer, nil is none.
type Content map[string]any

// Meta is the _meta of a request or a response: a JSON object.
type Meta map[string]any

// ResponsePart is what [Plan.Accept] takes: a [Content], a [Meta].
type ResponsePart interface{ part(*Response) error }

// Response is the answer to one request. As JSON it is the object of the wire: action, content, _meta.
type Response struct {
	Action Action `json:"action"`
	// Content goes with ActionAccept only: what a form asks for. Nil, as for a URL, is left out; an empty one is sent.
	Content Content `json:"content,omitzero"`
	// Meta goes out as _meta; nil is left out.
	Meta Meta `json:"_meta,omitzero"`
}

// Accept is the response that accepts: with the content that a form asks for, with nil for a URL.
func Accept(content Content, meta ...Meta) Response { panic("todo") }

// Decline is the response that says no.
func Decline(meta ...Meta) Response { panic("todo") }

// Cancel is the response that gives no answer.
func Cancel(meta ...Meta) Response { panic("todo") }

// Validate says what is wrong with the response: an unknown action, content without accept, what is no JSON. It returns a [*PlanError].
func (r Response) Validate() error { panic("todo") }

// Encode returns the response as it goes out, after [Response.Validate].
func (r Response) Encode() (trace.JSON, error) { panic("todo") }

// UnmarshalJSON reads the object of the wire. Unknown members, a member twice, and what [Response.Validate] refuses are a [*PlanError].
func (r *Response) UnmarshalJSON(b []byte) error { panic("todo") }

func (c Content) part(r *Response) error { panic("todo") }

func (m Meta) part(r *Response) error { panic("todo") }
