package m3

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// wireAsks is what servers ask for during a turn that has a plan, as it passed between the agent and them. An agent's own prompt says little: which request it is about is found here,
// when there is only one that it can be about.
type wireAsks struct {
	joinKey string
	fault   func(*harness.Error) // fails the turn; it is called from the relay and must not block

	mu     sync.Mutex
	calls  map[wireID]*wireCall
	rounds []*wireRound
	alone  string // of what the agent answered by itself: the first
}

// wireID is a request by its connection and its id as it stands on the wire.
type wireID struct {
	conn trace.ConnectionID
	id   trace.RPCID
}

// wireCall is an operation of the agent that waits for its answer.
type wireCall struct {
	id     trace.RPCID
	server string
	kind   trace.OperationKind
	name   string
	callID string // the agent's own id, where it puts one into _meta
}

// wireRound is what a server asks for at once: an input_required result, or, before 2026-07-28, one request of its own, or the URLs of an error.
type wireRound struct {
	server string
	id     wireID // of the server's own request; without an id it is no such request
	call   *wireCall
	keyed  bool
	state  trace.JSON // as it stood on the wire; nil when absent
	asks   []*wireAsk
	played bool // the plan was asked
	over   bool
	number int // of the rounds that the plan answered, from 1
}

// wireAsk is one request for input.
type wireAsk struct {
	request elicit.Request
	schema  trace.JSON
	key     string // the plan's, where the wire has none
	answer  elicit.Response
	given   bool
}

// wireMessage is a message of JSON-RPC as far as it matters here.
type wireMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code json.RawMessage `json:"code"`
		Data struct {
			URLs []trace.JSON `json:"elicitations"`
		} `json:"data"`
	} `json:"error"`
}

func newWireAsks(joinKey string, fault func(*harness.Error)) *wireAsks {
	return &wireAsks{joinKey: joinKey, fault: fault, calls: map[wireID]*wireCall{}}
}

// frame takes what passed, in the order of the wire.
func (w *wireAsks) frame(server string, f *relay.Frame) {
	if f.Denied || f.Filtered {
		return
	}
	list := []json.RawMessage{f.Body}
	if body := bytes.TrimSpace(f.Body); len(body) > 0 && body[0] == '[' && json.Unmarshal(body, &list) != nil {
		return
	}
	for _, raw := range list {
		var m wireMessage
		if json.Unmarshal(raw, &m) != nil {
			continue // the relay has it as malformed
		}
		at := wireID{f.Connection, trace.RPCID(bytes.TrimSpace(m.ID))}
		if f.Direction == trace.ClientToServer {
			w.fromAgent(server, at, &m)
		} else {
			w.fromServer(server, at, &m)
		}
	}
}

// operations are those during which a server may ask.
var operations = map[string]trace.OperationKind{"tools/call": trace.OperationTool, "prompts/get": trace.OperationPrompt, "resources/read": trace.OperationResource}

func (w *wireAsks) fromAgent(server string, at wireID, m *wireMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind, operation := operations[m.Method]
	switch {
	case operation && m.ID != nil:
		var p struct {
			Name      string                     `json:"name"`
			URI       string                     `json:"uri"`
			Meta      map[string]json.RawMessage `json:"_meta"`
			State     trace.JSON                 `json:"requestState"`
			Responses map[string]json.RawMessage `json:"inputResponses"`
		}
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		c := &wireCall{id: at.id, server: server, kind: kind, name: p.Name}
		if kind == trace.OperationResource {
			c.name = p.URI
		}
		if w.joinKey != "" {
			_ = json.Unmarshal(p.Meta[w.joinKey], &c.callID) // another type is no id
		}
		w.calls[at] = c
		w.goesOn(c, p.State, p.Responses)
	case m.Method == "" && m.ID != nil:
		w.answered(at, trace.JSON(m.Result))
	}
}

func (w *wireAsks) fromServer(server string, at wireID, m *wireMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m.Method == methodElicit && m.ID != nil:
		r := &wireRound{server: server, id: at, call: w.onlyCall(at.conn)}
		if r.ask("", trace.JSON(m.Params), false) {
			w.rounds = append(w.rounds, r)
		}
	case m.Method == "notifications/cancelled":
		var p struct {
			ID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			w.end(wireID{at.conn, trace.RPCID(bytes.TrimSpace(p.ID))})
		}
	case m.Method == "" && m.ID != nil:
		w.returned(server, at, m)
	}
}

// returned takes the answer to an operation: it may ask for input.
func (w *wireAsks) returned(server string, at wireID, m *wireMessage) {
	c := w.calls[at]
	if c == nil {
		return
	}
	delete(w.calls, at)
	r := &wireRound{server: server, call: c}
	switch {
	case m.Error != nil && string(m.Error.Code) == "-32042":
		for _, url := range m.Error.Data.URLs {
			r.ask("", url, false)
		}
	case m.Result != nil && mcp.ResultType(trace.JSON(m.Result)) == mcp.ResultInputRequired:
		var wire struct {
			State    trace.JSON      `json:"requestState"`
			Requests json.RawMessage `json:"inputRequests"`
		}
		if json.Unmarshal(m.Result, &wire) != nil || len(wire.Requests) == 0 || wire.Requests[0] != '{' {
			return
		}
		r.keyed, r.state = true, wire.State
		for key, raw := range members(wire.Requests) {
			var one wireMessage
			if json.Unmarshal(raw, &one) == nil && one.Method == methodElicit {
				r.ask(key, trace.JSON(one.Params), true)
			}
		}
	}
	if len(r.asks) > 0 {
		w.rounds = append(w.rounds, r)
	}
}

// ask adds a request; one that is none nobody can be asked about.
func (r *wireRound) ask(key string, params trace.JSON, modern bool) bool {
	from := askedFrom{server: r.server, modern: modern}
	if r.call != nil {
		from.kind, from.name = r.call.kind, r.call.name
	}
	name := key
	if !modern {
		name = unknownKey
	}
	request, schema, err := from.read(name, params)
	if err != nil {
		return false
	}
	r.asks = append(r.asks, &wireAsk{request: request, schema: schema, key: key})
	return true
}

// onlyCall is the only operation of a connection that waits; nil when there are none or several.
func (w *wireAsks) onlyCall(conn trace.ConnectionID) (only *wireCall) {
	for id, c := range w.calls {
		if id.conn != conn {
			continue
		}
		if only != nil {
			return nil
		}
		only = c
	}
	return only
}

// end closes the server's own request, which is answered or not wanted any more.
func (w *wireAsks) end(at wireID) *wireRound {
	for _, r := range w.rounds {
		if r.id == at && !r.keyed && at.id != "" && !r.over {
			r.over = true
			return r
		}
	}
	return nil
}

// answered checks the agent's answer to a request of the server's own.
func (w *wireAsks) answered(at wireID, result trace.JSON) {
	r := w.end(at)
	if r == nil {
		return
	}
	if !r.asks[0].given {
		w.byItself(r)
		return
	}
	if result != nil && !r.asks[0].is(result) {
		w.altered(r, r.asks[0])
	}
}

// goesOn closes the round that a call is the continuation of, and checks what is sent in it.
func (w *wireAsks) goesOn(c *wireCall, state trace.JSON, responses map[string]json.RawMessage) {
	var fits []*wireRound
	for _, r := range w.rounds {
		if r.over || r.id.id != "" || r.server != c.server || r.call.kind != c.kind || r.call.name != c.name {
			continue
		}
		if !r.keyed { // the call is made again after its URLs
			r.over = true
			return
		}
		if (responses != nil || state != nil) && bytes.Equal(r.state, state) {
			fits = append(fits, r)
		}
	}
	if len(fits) == 0 {
		return
	}
	r := fits[0]
	for _, other := range fits[1:] { // equal calls at once: it goes on with the one whose answers it has
		if wrong, _ := r.wrong(responses); wrong != nil {
			r = other
		}
	}
	r.over = true
	wrong, own := r.wrong(responses)
	switch {
	case own:
		w.byItself(r)
	case wrong != nil:
		w.altered(r, wrong)
	}
}

// wrong is the first request whose answer is not the plan's; own says that the agent did not ask at all.
func (r *wireRound) wrong(responses map[string]json.RawMessage) (wrong *wireAsk, own bool) {
	for _, a := range r.asks {
		if !a.given {
			return a, true
		}
		if !a.is(trace.JSON(responses[a.request.Key()])) {
			return a, false
		}
	}
	return nil, false
}

func (w *wireAsks) byItself(r *wireRound) {
	if w.alone == "" {
		w.alone = "the agent answered what server " + r.server + " asked for (" + strconv.Quote(firstLine(messageOf(r.asks[0].request))) + ") without asking the test"
	}
}

func (w *wireAsks) altered(r *wireRound, a *wireAsk) {
	w.fault(&harness.Error{Blame: harness.BlameAgent, Code: "elicitation_continuation_mismatch",
		Message: "the answer that it sent to server " + r.server + " is not the one that it was given for " + strconv.Quote(firstLine(messageOf(a.request)))})
}

// answeredAlone is what the agent answered without asking; empty when there is nothing.
func (w *wireAsks) answeredAlone() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alone
}

func messageOf(r elicit.Request) string {
	switch q := r.(type) {
	case *elicit.FormRequest:
		return q.Message
	case *elicit.URLRequest:
		return q.Message
	}
	return ""
}

// is reports whether what was sent is the plan's answer. Members that a client adds from the schema's defaults are the agent's right.
func (a *wireAsk) is(sent trace.JSON) bool {
	var got struct {
		Action  elicit.Action              `json:"action"`
		Content map[string]json.RawMessage `json:"content"`
	}
	if json.Unmarshal(sent, &got) != nil || got.Action != a.answer.Action {
		return false
	}
	if got.Action != elicit.ActionAccept {
		return true
	}
	for name, value := range a.answer.Content {
		b, err := json.Marshal(value)
		if err != nil || !equalJSON(b, got.Content[name]) {
			return false
		}
		delete(got.Content, name)
	}
	var schema struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(a.schema, &schema) // it was read before
	for name, value := range got.Content {
		if !equalJSON(value, schema.Properties[name].Default) {
			return false
		}
	}
	return true
}

// equalJSON compares canonical forms. What is none is equal to nothing.
func equalJSON(a, b []byte) bool {
	x, err := eval.Canonical(a)
	if err != nil {
		return false
	}
	y, err := eval.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}

// found is a request that a prompt can be about.
type found struct {
	round *wireRound
	ask   *wireAsk
}

// find returns the requests that a prompt can be about: those in its words that wait for an answer.
func (w *wireAsks) find(p *harness.Prompted) (list []found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	exact := false
	for _, r := range w.rounds {
		if r.over || p.Server != "" && p.Server != r.server {
			continue
		}
		for _, a := range r.asks {
			if a.given || p.Key != "" && r.keyed && p.Key != a.request.Key() || !sameWords(p, a) {
				continue
			}
			// An id of the call that both know decides; where only one knows one, it says nothing.
			byID := r.call != nil && r.call.callID != "" && r.call.callID == p.CallID
			if byID && !exact {
				exact, list = true, nil
			}
			if byID || !exact {
				list = append(list, found{r, a})
			}
		}
	}
	return list
}

// sameWords compares what the agent says of the request with what the server said.
func sameWords(p *harness.Prompted, a *wireAsk) bool {
	if orElse(p.Mode, elicit.ModeForm) != a.request.Mode() || p.Message != messageOf(a.request) {
		return false
	}
	switch q := a.request.(type) {
	case *elicit.FormRequest:
		return (p.Operation == "" || q.OperationName == "" || p.Operation == q.OperationName) && (len(p.Schema) == 0 || equalJSON(p.Schema, a.schema))
	case *elicit.URLRequest:
		return (p.Operation == "" || q.OperationName == "" || p.Operation == q.OperationName) && p.URL == q.URL && (p.ID == "" || q.ElicitationID == "" || p.ID == q.ElicitationID)
	}
	return false
}

// rounds of a list are those that it is about, each once.
func roundsOf(list []found) (rounds []*wireRound) {
	for _, f := range list {
		if !slices.Contains(rounds, f.round) {
			rounds = append(rounds, f.round)
		}
	}
	return rounds
}

// note is what m3 knows of the agent's answer to a request of the server's own, and the wire does not say.
func (w *wireAsks) note(conn trace.ConnectionID, id trace.RPCID) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rounds {
		if r.keyed || r.over || r.id != (wireID{conn, id}) || !r.asks[0].given {
			continue
		}
		b := []byte(`{"elicitation":{"round":` + strconv.Itoa(r.number))
		if r.call != nil {
			b = append(append(b, `,"call":`...), r.call.id...)
		}
		if key := r.asks[0].key; key != "" {
			b = trace.AppendString(append(b, `,"request_key":`...), key)
		}
		return append(b, "}}"...)
	}
	return nil
}
