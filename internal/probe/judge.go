package probe

import (
	"encoding/json"

	"github.com/m3-go/m3"
)

// The judgements that many probes share.

// refused judges what came for something that must not be carried out: an error is right, and over HTTP an error status.
func (r *reply) refused() verdict {
	m := r.result()
	switch {
	case m != nil && !toolError(m):
		return fired("it was carried out: %s", m)
	case r.status >= 500:
		return fired("the server failed: %s", r.saw())
	case m != nil, r.any() != nil, r.status >= 400:
		return ok
	case r.status != 0:
		return fired("HTTP %d, and no error", r.status)
	}
	return fired("no answer")
}

// refusedWith is refused, with the code that the error must have.
func (r *reply) refusedWith(code int64) verdict {
	v := r.refused()
	if v.state != Clean {
		return v
	}
	m := r.any()
	if m == nil {
		return fired("refused without a JSON-RPC error: %s", r.saw())
	}
	if got, isInt := m.Code(); !isInt || got != code {
		return fired("the error should have the code %d: %s", code, m)
	}
	return ok
}

// served judges what came for a proper request, however oddly it was written.
func (r *reply) served(id string) verdict {
	m := r.answer(id)
	switch {
	case m != nil && m.Result != nil:
		return ok
	case m != nil:
		return fired("it was refused: %s", m)
	case r.any() != nil:
		return fired("it was refused, or answered under another id: %s", r.any())
	}
	return fired("no answer to it: %s", r.saw())
}

// answered judges what came for something that may be refused or served, but not met with silence or a crash.
func (r *reply) answered() verdict {
	switch {
	case r.status >= 500 && r.any() == nil:
		return fired("the server failed: %s", r.saw())
	case r.any() != nil, r.status >= 400:
		return ok
	case r.status != 0:
		return fired("HTTP %d, and no answer", r.status)
	}
	return fired("no answer")
}

// unanswered judges what came for a notification: nothing may.
func (r *reply) unanswered() verdict {
	switch m := r.any(); {
	case m != nil && r.status < 400:
		return fired("it was answered: %s", m)
	case r.status >= 500:
		return fired("the server failed: %s", r.saw())
	case r.err != nil && r.status == 0:
		return fired("the server is gone after it: %s", firstLine(r.err))
	}
	return ok
}

// toolError reports whether a result is a tool's own failure.
func toolError(m *m3.RawMessage) bool {
	var res struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(m.Result, &res) == nil && res.IsError
}

// lists is a method that the server serves without arguments: what many probes bend.
func (b *bench) lists() string {
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if b.has(kind) {
			return kind + "/list"
		}
	}
	if b.modern {
		return "server/discover"
	}
	return "ping"
}
