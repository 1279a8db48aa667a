package m3

import (
	"fmt"
	"testing"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// TestWireAsks: which request a prompt can be about, and whether the agent passes on what it was given.
func TestWireAsks(t *testing.T) {
	t.Parallel()
	const (
		schema = `{"type":"object","properties":{"city":{"type":"string"},"unit":{"default":"kg"}}}`
		form   = `{"method":"elicitation/create","params":{"mode":"form","message":"Where to?","requestedSchema":` + schema + `}}`
	)
	up := func(s string) relay.Frame {
		return relay.Frame{Connection: "calc-1", Direction: trace.ClientToServer, Body: []byte(s)}
	}
	down := func(s string) relay.Frame {
		return relay.Frame{Connection: "calc-1", Direction: trace.ServerToClient, Body: []byte(s)}
	}
	call := func(id int, own, more string) relay.Frame {
		return up(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"book","_meta":{"k":%q}%s}}`, id, own, more))
	}
	round := func(id int, state string) relay.Frame {
		return down(fmt.Sprintf(`{"id":%d,"result":{"resultType":"input_required","requestState":%q,"inputRequests":{"address":%s}}}`, id, state, form))
	}
	legacy := down(`{"id":"q","method":"elicitation/create","params":{"message":"Where to?","requestedSchema":` + schema + `}}`)
	goesOn := func(answer string) relay.Frame {
		return call(3, "", `,"requestState":"s","inputResponses":{"address":`+answer+`}`)
	}
	for name, c := range map[string]struct {
		frames []relay.Frame
		prompt harness.Prompted
		fits   int
		given  bool // the prompt is answered: accept, Pune
		then   relay.Frame
		fault  string
		alone  bool
	}{
		"nothing":            {fits: 0},
		"one":                {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, fits: 1},
		"legacy":             {frames: []relay.Frame{call(1, "a", ""), legacy}, fits: 1},
		"two open":           {frames: []relay.Frame{call(1, "a", ""), call(2, "b", ""), round(1, "s"), round(2, "s2")}, fits: 2},
		"two, by the call":   {frames: []relay.Frame{call(1, "a", ""), call(2, "b", ""), round(1, "s"), round(2, "s2")}, prompt: harness.Prompted{CallID: "b"}, fits: 1},
		"another server":     {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, prompt: harness.Prompted{Server: "math"}, fits: 0},
		"other words":        {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, prompt: harness.Prompted{Message: "Which?"}, fits: 0},
		"another schema":     {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, prompt: harness.Prompted{Schema: trace.JSON(`{}`)}, fits: 0},
		"a URL":              {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, prompt: harness.Prompted{Mode: "url"}, fits: 0},
		"cancelled":          {frames: []relay.Frame{call(1, "a", ""), legacy, down(`{"method":"notifications/cancelled","params":{"requestId":"q"}}`)}, fits: 0},
		"refused":            {frames: []relay.Frame{{Connection: "calc-1", Denied: true, Body: call(1, "a", "").Body}, round(1, "s")}, fits: 0},
		"a batch":            {frames: []relay.Frame{up(`[` + string(call(1, "a", "").Body) + `]`), round(1, "s")}, fits: 1},
		"malformed":          {frames: []relay.Frame{up(`{"id":`), down(`[`)}, fits: 0},
		"passed on":          {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, fits: 1, given: true, then: goesOn(`{"action":"accept","content":{"city":"Pune"}}`)},
		"with a default":     {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, fits: 1, given: true, then: goesOn(`{"action":"accept","content":{"unit":"kg","city":"Pune"}}`)},
		"altered":            {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, fits: 1, given: true, then: goesOn(`{"action":"accept","content":{"city":"Delhi"}}`), fault: "elicitation_continuation_mismatch"},
		"added to":           {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, fits: 1, given: true, then: goesOn(`{"action":"accept","content":{"city":"Pune","x":1}}`), fault: "elicitation_continuation_mismatch"},
		"declined by itself": {frames: []relay.Frame{call(1, "a", ""), round(1, "s")}, fits: 1, then: goesOn(`{"action":"decline"}`), alone: true},
		"legacy, passed on":  {frames: []relay.Frame{call(1, "a", ""), legacy}, fits: 1, given: true, then: up(`{"id":"q","result":{"action":"accept","content":{"city":"Pune"}}}`)},
		"legacy, altered":    {frames: []relay.Frame{call(1, "a", ""), legacy}, fits: 1, given: true, then: up(`{"id":"q","result":{"action":"cancel"}}`), fault: "elicitation_continuation_mismatch"},
		"legacy, by itself":  {frames: []relay.Frame{call(1, "a", ""), legacy}, fits: 1, then: up(`{"id":"q","result":{"action":"decline"}}`), alone: true},
	} {
		fault := ""
		w := newWireAsks("k", func(e *harness.Error) { fault = e.Code })
		for i := range c.frames {
			w.frame("calc", &c.frames[i])
		}
		c.prompt.Message = orElse(c.prompt.Message, "Where to?")
		list := w.find(&c.prompt)
		if len(list) != c.fits {
			t.Errorf("%s: %d requests fit, want %d", name, len(list), c.fits)
			continue
		}
		if c.given {
			list[0].ask.answer, list[0].ask.given = elicit.Accept(elicit.Content{"city": "Pune"}), true
		}
		if c.then.Body != nil {
			w.frame("calc", &c.then)
			if n := len(w.find(&c.prompt)); n != 0 {
				t.Errorf("%s: %d requests are open afterwards", name, n)
			}
		}
		if fault != c.fault || (w.answeredAlone() != "") != c.alone {
			t.Errorf("%s: fault %q, alone %q", name, fault, w.answeredAlone())
		}
	}
}
