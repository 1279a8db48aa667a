package acp

import (
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// maxTurnText bounds the text that is gathered for one turn, in bytes. The frames are recorded whatever is gathered.
const maxTurnText = 64 << 20

// chunk is one piece of the agent's text.
type chunk struct {
	id      string // messageId, "" for none
	content trace.Content
	raw     raw // the update
}

// turn gathers what an agent says from a prompt to its answer. The session's lock guards it.
type turn struct {
	s *session
	// message and thought are what streams at the moment.
	message, thought gathered
	// unlabelled are chunks without an id, kept until it is known whether the agent gives ids.
	unlabelled []chunk
	labelled   bool
	// answer is the last message: what the agent said since the last call ended.
	answer  gathered
	resumed bool // a call ended since the last chunk: what comes next is another message
	calls   map[string]*toolCall
	order   []*toolCall
	done    int // calls that completed
	failure string
	noticed string // the last notice's text: codex says there why it failed
	size    int
	full    bool
	permit  permits
}

func newTurn(s *session) *turn { return &turn{s: s, calls: map[string]*toolCall{}} }

// gathered is text of one message that arrives in pieces.
type gathered struct {
	id     string
	blocks []trace.Content
	text   []strings.Builder // of blocks, "" for blocks that are no text
}

func (g *gathered) empty() bool { return len(g.blocks) == 0 }

// add appends a block; text after text is one block.
func (g *gathered) add(c trace.Content) {
	if n := len(g.blocks); c.Type != "text" || n == 0 || g.blocks[n-1].Type != "text" {
		g.blocks = append(g.blocks, c)
		g.text = append(g.text, strings.Builder{})
	}
	g.text[len(g.text)-1].WriteString(c.Text)
}

// take returns the whole blocks.
func (g *gathered) take() []trace.Content {
	for i := range g.blocks {
		if g.blocks[i].Type == "text" {
			g.blocks[i] = textBlock(g.text[i].String())
		}
	}
	return g.blocks
}

// update takes one session/update.
func (t *turn) update(r raw) {
	u := r.obj()
	if failed := t.s.cfg.quirks.failure; failed != nil {
		if reason, yes := failed(u); yes {
			t.failure = reason
		}
	}
	switch kind := u["sessionUpdate"].str(); kind {
	case "agent_message_chunk":
		t.chunk(u, r)
	case "agent_thought_chunk":
		t.think(u)
	case "tool_call", "tool_call_update":
		t.call(kind, u, r)
	default:
		t.s.other(kind, u, r)
	}
}

// chunk takes a piece of the answer.
func (t *turn) chunk(u object, r raw) {
	c := chunk{id: u["messageId"].str(), content: content(u["content"]), raw: r}
	if !t.room(c.content) {
		return
	}
	if notice := t.s.cfg.quirks.notice; notice != nil {
		if code, yes := notice(c.content.Text, u); yes {
			t.notice(code, c)
			return
		}
	}
	switch {
	case c.id != "":
		t.labelled = true
		t.adapterNotices()
		t.say(c)
	case t.s.cfg.Labels || t.labelled:
		t.notice("adapter_notice", c)
	default:
		t.unlabelled = append(t.unlabelled, c)
	}
}

// room bounds what is gathered.
func (t *turn) room(c trace.Content) bool {
	t.size += len(c.Text) + len(c.Raw)
	if t.size > maxTurnText && !t.full {
		t.full = true
		t.s.host.Event(&harness.Notice{Code: "text_truncated", Message: "the agent said more in one turn than is gathered; the frames have the rest"})
	}
	return !t.full
}

// adapterNotices tells what came without an id as notices: the agent's own words have one.
func (t *turn) adapterNotices() {
	for _, c := range t.unlabelled {
		t.notice("adapter_notice", c)
	}
	t.unlabelled = nil
}

// sayUnlabelled takes what came without an id as the agent's words, before something else happens.
func (t *turn) sayUnlabelled() {
	for _, c := range t.unlabelled {
		t.say(c)
	}
	t.unlabelled = nil
}

func (t *turn) notice(code string, c chunk) {
	t.noticed = strings.TrimSpace(c.content.Text)
	t.s.host.Event(&harness.Notice{Code: code, Message: t.noticed, Data: c.raw.json()})
}

// say takes a piece of the agent's own words.
func (t *turn) say(c chunk) {
	t.flushThought()
	if !t.message.empty() && t.message.id != c.id {
		t.flushMessage()
	}
	if t.message.empty() {
		t.message.id = c.id
	}
	t.message.add(c.content)
	if t.resumed || t.answer.id != c.id {
		t.answer = gathered{id: c.id}
		t.resumed = false
	}
	t.answer.add(c.content)
}

// think takes a piece of reasoning.
func (t *turn) think(u object) {
	c := content(u["content"])
	if !t.room(c) {
		return
	}
	t.flushMessage()
	id := u["messageId"].str()
	if !t.thought.empty() && t.thought.id != id {
		t.flushThought()
	}
	t.thought.id = id
	t.thought.add(c)
}

func (t *turn) flushMessage() {
	if !t.message.empty() {
		t.s.host.Event(&harness.Message{ID: t.message.id, Role: "assistant", Content: t.message.take()})
	}
	t.message = gathered{}
}

func (t *turn) flushThought() {
	if !t.thought.empty() {
		t.s.host.Event(&harness.Reasoning{ID: t.thought.id, Content: trace.Observe(t.thought.take())})
	}
	t.thought = gathered{}
}

// flush tells everything that streams.
func (t *turn) flush() {
	t.flushThought()
	t.flushMessage()
}

// call takes a tool_call or an update of one. An update of a call that was never announced announces it.
func (t *turn) call(kind string, u object, r raw) {
	id := u["toolCallId"].str()
	c := t.calls[id]
	switch {
	case id == "":
		t.s.host.Event(&harness.Activity{Kind: kind, Data: r.json()})
		return
	case c != nil && c.ended && kind == "tool_call":
		t.s.host.Event(&harness.Notice{Code: "call_id_reused", Message: "the agent gave a second call the id of one that had ended", Data: r.json()})
		c = nil
	case c != nil && c.ended:
		t.s.host.Event(&harness.Activity{Kind: "late_update", Data: r.json()})
		return
	}
	if c == nil {
		c = t.announce(id)
	}
	c.merge(u)
	t.tell(c)
}

// announce makes a call; what the agent said before it is whole.
func (t *turn) announce(id string) *toolCall {
	if !t.s.cfg.Labels {
		t.sayUnlabelled()
	}
	t.flush()
	c := &toolCall{Call: Call{ID: id}}
	t.calls[id] = c
	t.order = append(t.order, c)
	return c
}

// tell emits what is known of the call by now.
func (t *turn) tell(c *toolCall) {
	if message, yes := startupFailure(c); yes {
		c.told, c.ended = true, true
		t.s.host.Event(&harness.Notice{Code: "server_failed", Message: message, Data: encode(map[string]string{"tool_call_id": c.ID, "title": c.Title}).json()})
		return
	}
	if !c.told && c.known() {
		t.request(c)
	} else if c.told && !sameJSON(c.toldInput, raw(c.Input)) {
		c.toldInput = raw(c.Input)
		t.s.host.Event(&harness.Notice{Code: "call_changed", Message: "the agent told other arguments for a call that it had already told", Data: encode(map[string]any{"tool_call_id": c.ID, "input": raw(c.Input)}).json()})
	}
	if c.final() {
		t.close(c)
	}
}

func (t *turn) request(c *toolCall) {
	c.told, c.toldInput = true, raw(c.Input)
	c.named = t.s.named(c)
	t.s.host.Event(c.event())
}

// close ends a call, with what the agent said of its end; one that it left open ends as unfinished.
func (t *turn) close(c *toolCall) {
	if !c.told {
		t.request(c)
	}
	c.ended = true
	t.resumed = true
	if c.status == "completed" {
		t.done++
	}
	t.s.host.Event(c.result())
}

// finish tells what is still open, once, at the end of the turn.
func (t *turn) finish() {
	if t.labelled || t.s.cfg.Labels {
		t.adapterNotices()
	} else {
		t.sayUnlabelled()
	}
	t.flush()
	for _, c := range t.order {
		if !c.ended {
			t.close(c)
		}
	}
}
