package rpc

import (
	"fmt"

	"github.com/m3-go/m3/trace"
)

// claim is what was found for the id of an answer.
type claim struct {
	k      *call // the call that it is for
	exact  bool  // it is a proper answer to it as far as the id goes; k was taken
	code   Code  // else, or besides: what is wrong with the id
	reason string
}

// answer takes a result or an error, or what was meant to be one.
func (c *Conn) answer(in *arrival) {
	m := in.m
	cl := c.claim(in)
	ev := trace.Event{Kind: trace.KindMCPResponse, Phase: c.phase(), RPCID: trace.RPCID(m.id)}
	if m.errorObj != nil && m.result == nil {
		ev.Kind = trace.KindMCPError
	}
	if cl.k != nil {
		ev.Method, ev.Phase, ev.Own = cl.k.Method, cl.k.phase, cl.k.own
	}
	c.put(in, ev)
	id := trace.RPCID(m.id)
	if cl.k != nil {
		id = cl.k.id
	}
	if cl.code != "" {
		c.find(cl.code, in.at(id), "%s: %s", cl.reason, quote(m.raw))
	}
	resp, problem := c.outcome(in, id)
	switch {
	case cl.k == nil:
		c.remarkOn(in.f, "an answer came with %s: %s", cl.reason, quote(m.raw))
	case problem == "" && cl.exact:
		cl.k.resp = Response{ID: cl.k.id, Result: resp.Result, Error: resp.Error, Sent: cl.k.seq(), Received: in.seq, HTTP: in.f.HTTP}
		cl.k.succeed()
	default:
		if problem == "" {
			problem = cl.reason
		}
		e := &CallError{Kind: KindProtocol, Reason: problem, HTTP: in.f.HTTP, Sequence: in.seq}
		if resp.Error != nil {
			e.Reason += "; it says " + resp.Error.String()
		}
		if cl.exact {
			c.fail(cl.k, e)
		} else {
			c.failNow(cl.k, e)
		}
	}
}

// claim finds the call that an answer is for. A proper answer takes it, so that nothing else can end it.
func (c *Conn) claim(in *arrival) claim {
	id := in.m.id
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.pending[trace.RPCID(id)]; k != nil && id != nil {
		return c.claimed(k, claim{})
	}
	if c.rawAnswer(in) {
		return claim{}
	}
	switch kindOfID(id) {
	case idAbsent, idNull:
		return c.claimNoID(in)
	case idOther:
		return claim{code: BadID, reason: "an id that is neither a string nor an integer"}
	}
	if same := sameValue(id); c.pending[same] != nil {
		return c.claimed(c.pending[same], claim{code: IDRewritten, reason: fmt.Sprintf("the id %s came back as %s", same, id)})
	}
	if other := otherType(id); other != "" && c.pending[other] != nil {
		return claim{k: c.pending[other], code: IDTypeChanged, reason: fmt.Sprintf("the answer changes the type of the id: %s came back as %s", other, id)}
	}
	return c.claimUnknown(trace.RPCID(id))
}

// claimed takes the call.
func (c *Conn) claimed(k *call, cl claim) claim {
	delete(c.pending, k.id)
	c.finished(k.id, k.custom, false)
	cl.k, cl.exact = k, true
	return cl
}

// claimUnknown says what an answer is that no call waits for.
func (c *Conn) claimUnknown(id trace.RPCID) claim {
	made, gaveUp := c.issued(id)
	switch {
	case gaveUp:
		delete(c.givenUp, id)
		return claim{code: LateResponse, reason: fmt.Sprintf("an answer to request %s, whose call has ended", id)}
	case made:
		return claim{code: DuplicateResponse, reason: fmt.Sprintf("another answer to request %s", id)}
	}
	return claim{code: UnknownID, reason: "the unknown id " + quote([]byte(id))}
}

// claimNoID finds the call of an answer without an id. An HTTP exchange tells it: there an error with a null id is a proper answer, and so is one
// without an id since 2026-07-28, which may be what the first exchange is about to find out. On a stream it can only be told when a single
// call waits.
func (c *Conn) claimNoID(in *arrival) claim {
	cl := claim{code: NullID, reason: "the answer's id is null"}
	if in.m.id == nil {
		cl.code, cl.reason = BadID, "the answer has no id"
	}
	switch {
	case in.f.For != "":
		k := c.pending[in.f.For]
		if k != nil && in.m.errorObj != nil {
			if in.m.id == nil {
				cl.code = ""
			}
			return c.claimed(k, cl)
		}
		cl.k = k
	case shared(in.f) && len(c.pending) == 1:
		for _, cl.k = range c.pending {
		}
	}
	return cl
}

// outcome reads the answer's result or error. problem is why it is no proper answer; resp has what can be read nevertheless.
func (c *Conn) outcome(in *arrival, id trace.RPCID) (resp Response, problem string) {
	m := in.m
	problem = c.envelope(in, id)
	note := func(code Code, text string) {
		c.find(code, in.at(id), "%s: %s", text, quote(m.raw))
		if problem == "" {
			problem = text
		}
	}
	if m.method != nil {
		note(MixedMessage, "the answer has a method as well")
	}
	switch {
	case m.result != nil && m.errorObj != nil:
		note(ResultAndError, "the answer has both a result and an error")
	case m.result != nil:
		resp.Result = append(make(trace.JSON, 0, len(m.result)), m.result...)
		if m.result[0] != '{' {
			c.find(BadResult, in.at(id), "the result is no object: %s", quote(m.result))
		}
	case m.errorObj != nil:
		var wrong string
		if resp.Error, wrong = parseError(m.errorObj); wrong != "" {
			c.find(BadErrorObject, in.at(id), "the error object is wrong: %s", wrong)
			if resp.Error == nil && problem == "" {
				problem = "the answer's error is wrong: " + wrong
			}
		}
	default:
		note(NoResultOrError, "the answer has neither a result nor an error")
	}
	return resp, problem
}
