package elicit

import (
	"errors"

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
func Accept(content Content, meta ...Meta) Response {
	return Response{Action: ActionAccept, Content: copyMap(content), Meta: merge(meta)}
}

// Decline is the response that says no.
func Decline(meta ...Meta) Response { return Response{Action: ActionDecline, Meta: merge(meta)} }

// Cancel is the response that gives no answer.
func Cancel(meta ...Meta) Response { return Response{Action: ActionCancel, Meta: merge(meta)} }

// merge copies what was given into one; nil when nothing was.
func merge(all []Meta) Meta {
	var out Meta
	for _, meta := range all {
		if meta != nil && out == nil {
			out = Meta{}
		}
		for name, v := range meta {
			out[name] = copyOf(v)
		}
	}
	return out
}

// Validate says what is wrong with the response: an unknown action, content without accept, what is no JSON. It returns a [*PlanError].
func (r Response) Validate() error {
	_, err := r.clean()
	return err.at("response").orNil()
}

// Encode returns the response as it goes out, after [Response.Validate]: members sorted, numbers as they are.
func (r Response) Encode() (trace.JSON, error) {
	c, err := r.clean()
	if err != nil {
		return nil, err.at("response")
	}
	return exact(c.tree()), nil
}

// clean is a valid response that shares nothing with the caller's.
func (r Response) clean() (Response, *PlanError) {
	switch {
	case r.Action != ActionAccept && r.Action != ActionDecline && r.Action != ActionCancel:
		return r, failure("bad_action", "the action "+quote(string(r.Action))+" is none of accept, decline, cancel")
	case r.Content != nil && r.Action != ActionAccept:
		return r, failure("unwanted_content", "content goes with accept only, not with "+string(r.Action))
	}
	var err error
	if r.Content != nil {
		if r.Content, err = cleanObject(r.Content); err != nil {
			return r, failure("bad_content", "the content "+err.Error())
		}
	}
	if r.Meta != nil {
		if r.Meta, err = cleanObject(r.Meta); err != nil {
			return r, failure("bad_meta", "the _meta "+err.Error())
		}
	}
	return r, nil
}

// copy shares nothing with r.
func (r Response) copy() Response {
	r.Content, r.Meta = copyMap(r.Content), copyMap(r.Meta)
	return r
}

// tree is a clean response as a JSON value.
func (r Response) tree() map[string]any {
	t := map[string]any{"action": string(r.Action)}
	if r.Content != nil {
		t["content"] = map[string]any(r.Content)
	}
	if r.Meta != nil {
		t["_meta"] = map[string]any(r.Meta)
	}
	return t
}

// UnmarshalJSON reads the object of the wire. Unknown members, a member twice, and what [Response.Validate] refuses are a [*PlanError].
func (r *Response) UnmarshalJSON(b []byte) error {
	out, err := responseFrom(decode(b))
	if err != nil {
		return err.at("response")
	}
	*r = out
	return nil
}

func responseFrom(m *members) (Response, *PlanError) {
	r := Response{Action: Action(m.required("action")), Content: m.object("content"), Meta: m.object("_meta")}
	if err := m.done(); err != nil {
		return Response{}, err
	}
	return r.clean()
}

func (c Content) part(r *Response) error {
	switch {
	case c == nil:
		return errNil
	case r.Content != nil:
		return errTwice
	}
	r.Content = c
	return nil
}

func (m Meta) part(r *Response) error {
	r.Meta = merge([]Meta{r.Meta, m})
	return nil
}

var errTwice = errors.New("is given twice")
