package m3_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// question is one request for input of an asker.
type question struct{ key, method, params string }

func form(key, message, schema string) question {
	return question{key, "elicitation/create", fmt.Sprintf(`{"mode":"form","message":%q,"requestedSchema":%s}`, message, schema)}
}

func visit(key, message, url string) question {
	return question{key, "elicitation/create", fmt.Sprintf(`{"mode":"url","message":%q,"url":%q,"elicitationId":"id-%s"}`, message, url, key)}
}

const citySchema = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`

// asker is a server that asks the same rounds in every protocol: by input_required results from 2026-07-28 on, before by requests of its own. Its result says
// what it was answered. A question of a round of several is asked while the others are open.
type asker struct {
	*peer
	rounds [][]question
	// state is the JSON of the requestState of a round; "" for none. Nil: one that numbers the rounds.
	state func(round int) string

	mu      sync.Mutex
	answers map[string][]string // by call's arguments: what was answered, in order of the questions
	n       int                 // requests of its own
}

func newAsker(rounds ...[]question) *asker {
	a := &asker{rounds: rounds, answers: map[string][]string{}}
	a.peer = &peer{handle: a.take}
	return a
}

func round(q ...question) []question { return q }

// asked is what the params of a call say.
type askedParams struct {
	Name      string                     `json:"name"`
	URI       string                     `json:"uri"`
	Arguments json.RawMessage            `json:"arguments"`
	State     json.RawMessage            `json:"requestState"`
	Responses map[string]json.RawMessage `json:"inputResponses"`
	Meta      map[string]json.RawMessage `json:"_meta"`
}

func (m *message) asked() (p askedParams) {
	_ = json.Unmarshal(m.Params, &p) // the tests say what is sent
	return p
}

func (a *asker) take(p *peer, m *message) bool {
	if m.Method != "tools/call" && m.Method != "prompts/get" && m.Method != "resources/read" || strings.HasPrefix(m.tool(), "fine") {
		return false
	}
	in := m.asked()
	if in.Meta["io.modelcontextprotocol/protocolVersion"] == nil {
		go a.askAll(m, in)
		return true
	}
	call := string(in.Arguments)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.answers[call])
	if n > 0 || in.Responses != nil || in.State != nil {
		b, _ := json.Marshal(in.Responses)
		a.answers[call] = append(a.answers[call], string(b))
	} else {
		a.answers[call] = []string{}
	}
	if n = len(a.answers[call]); n < len(a.rounds) {
		a.pause(m, n)
		return true
	}
	a.finish(m, a.answers[call])
	return true
}

// pause asks the questions of a round.
func (a *asker) pause(m *message, n int) {
	var asks []string
	for _, q := range a.rounds[n] {
		asks = append(asks, fmt.Sprintf(`%q:{"method":%q,"params":%s}`, q.key, q.method, q.params))
	}
	state := fmt.Sprintf(`"round-%d"`, n+1)
	if a.state != nil {
		state = a.state(n + 1)
	}
	text := ""
	if state != "" {
		text += `,"requestState":` + state
	}
	if len(asks) > 0 {
		text += `,"inputRequests":{` + strings.Join(asks, ",") + `}`
	}
	a.result(m, `{"resultType":"input_required"%s}`, text)
}

// askAll asks as servers do before 2026-07-28.
func (a *asker) askAll(m *message, _ askedParams) {
	var all []string
	for _, questions := range a.rounds {
		var answers []chan message
		for _, q := range questions {
			a.mu.Lock()
			a.n++
			id := fmt.Sprintf(`"ask-%d"`, a.n)
			a.mu.Unlock()
			answers = append(answers, a.send(id, q.method, q.params))
		}
		got := map[string]json.RawMessage{}
		for i, answer := range answers {
			if r := <-answer; r.Error != nil {
				a.result(m, `{"content":[{"type":"text","text":%q}],"isError":true}`, "refused: "+string(r.Error))
				return
			} else {
				got[questions[i].key] = r.Result
			}
		}
		b, _ := json.Marshal(got)
		all = append(all, string(b))
	}
	a.finish(m, all)
}

// send sends a request of the server's own; its answer comes on the channel.
func (p *peer) send(id, method, params string) chan message {
	answer := make(chan message, 1)
	p.mu.Lock()
	p.asks[id] = answer
	p.mu.Unlock()
	p.say(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	return answer
}

func (a *asker) finish(m *message, answers []string) {
	text := strings.Join(answers, " ")
	switch m.Method {
	case "prompts/get":
		a.result(m, `{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, text)
	case "resources/read":
		a.result(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[{"uri":"test://book","text":%q}]}`, text)
	default:
		a.result(m, `{"resultType":"complete","content":[{"type":"text","text":%q}]}`, text)
	}
}

// operations are the three operations that may ask for input, each giving its text.
var operations = map[trace.OperationKind]func(t *testing.T, c *m3.Client, opts *m3.CallOptions) (string, error){
	trace.OperationTool: func(t *testing.T, c *m3.Client, opts *m3.CallOptions) (string, error) {
		r, err := c.CallTool(t.Context(), "book", m3.Args{"weight_kg": 2}, opts)
		if r == nil {
			return "", err
		}
		return r.Text(), err
	},
	trace.OperationPrompt: func(t *testing.T, c *m3.Client, opts *m3.CallOptions) (string, error) {
		r, err := c.GetPrompt(t.Context(), "book", map[string]string{"weight": "2"}, opts)
		if r == nil || len(r.Messages) == 0 {
			return "", err
		}
		return r.Messages[0].Content.Text, err
	},
	trace.OperationResource: func(t *testing.T, c *m3.Client, opts *m3.CallOptions) (string, error) {
		r, err := c.ReadResource(t.Context(), "test://book", opts)
		if r == nil {
			return "", err
		}
		return r.Text(), err
	},
}

// modern connects over the newest protocol.
func modern(t *testing.T, p *peer, opts *m3.DirectOptions) *m3.Client {
	t.Helper()
	var o m3.DirectOptions
	if opts != nil {
		o = *opts
	}
	o.Protocol = newest
	return connect(t, newKit(t, m3.Config{}), p.server(), &o)
}

// calls are the messages of the three operations.
func (p *peer) calls() (all []message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.seen {
		if m.Method == "tools/call" || m.Method == "prompts/get" || m.Method == "resources/read" {
			all = append(all, m)
		}
	}
	return all
}

var (
	toPune  = elicit.Form("address").Accept(elicit.Content{"city": "Pune"})
	payment = elicit.URL("checkout", elicit.Address("https://example.test/pay/123")).Accept()
	where   = form("address", "Where to?", citySchema)
	payHere = visit("checkout", "Pay", "https://example.test/pay/123")
)

const poem = `{"messages":[{"role":"user","content":{"type":"text","text":"a motto"}}],"maxTokens":5}`
