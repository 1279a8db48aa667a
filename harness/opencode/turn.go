package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// turn gathers one turn. What OpenCode tells comes twice, as events while it happens and from its store at the end; each thing is passed on once. The session's lock guards it.
type turn struct {
	s      *session
	began  time.Time
	ctx    context.Context // ends with the turn, or with its cancellation
	cancel context.CancelFunc
	group  sync.WaitGroup
	stop   chan struct{} // closed when the driver ends the turn
	idle   chan struct{} // closed when OpenCode says that it has

	busy    bool
	quiet   bool            // idle is closed
	parents map[string]bool // the user's messages of the turn
	roles   map[string]string
	parts   map[string]*told
	texts   []*held // of messages, until something follows
	open    []*told // texts that are being written
	calls   []*told // that were told
	steps   int
	called  bool
	sum     tokens
	cost    float64

	over     *harness.Error // why the driver ended it
	refused  string         // the tool whose permission was refused
	failed   *failure       // session.error
	foreign  string         // an id of another session in the turn's messages
	unknowns map[string]bool
}

// told is what was passed on of a part.
type told struct {
	call, result, whole bool

	id       string // of a call
	message  string // of a text
	streamed string // so far
	said     string // so far
}

// held is the text of a message that may have more.
type held struct {
	message string
	content []trace.Content
}

func newTurn(s *session) *turn {
	t := &turn{s: s, began: time.Now(), stop: make(chan struct{}), idle: make(chan struct{}), parents: map[string]bool{}, roles: map[string]string{}, parts: map[string]*told{},
		unknowns: map[string]bool{}}
	t.ctx, t.cancel = context.WithCancel(s.life)
	return t
}

// giveUp ends the turn for a reason of the driver's. The first stands.
func (t *turn) giveUp(e *harness.Error) {
	if t.over == nil {
		t.over = e
		close(t.stop)
	}
}

// settled is how long the last events may come after the answer.
const settled = time.Second

// wait waits for the events of the turn that are still on their way.
func (t *turn) wait(ctx context.Context) {
	timer := time.NewTimer(settled)
	defer timer.Stop()
	select {
	case <-t.idle:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ended notes that OpenCode says it is idle. It may say so twice, and the second time in the next turn.
func (t *turn) ended() {
	if t.busy && !t.quiet {
		t.quiet = true
		close(t.idle)
	}
}

func (t *turn) stranger(id string) {
	if t.foreign == "" {
		t.foreign = id
	}
}

// message notes whose a message is. Those of earlier turns may come once more.
func (t *turn) message(i *info) {
	switch {
	case i.Role == "user":
		if !t.s.past[i.ID] {
			t.parents[i.ID], t.roles[i.ID] = true, i.Role
		}
		return
	case i.Role != "assistant" || !t.parents[i.ParentID]:
		return
	case bool(i.Summary):
		t.roles[i.ID] = "summary"
	default:
		t.roles[i.ID] = i.Role
	}
	if i.Finish == "unknown" && !t.unknowns[i.ID] {
		t.unknowns[i.ID] = true
		t.s.unfinished(t)
	}
}

// part passes on what a part of a message has that is new.
func (t *turn) part(raw []byte) {
	var p part
	if err := json.Unmarshal(raw, &p); err != nil {
		t.s.host.Event(&harness.Notice{Code: "malformed_source", Message: "a part of a message cannot be read: " + err.Error(), Data: bytes.Clone(raw)})
		return
	}
	if t.roles[p.MessageID] != "assistant" {
		return // the user's own, a summary's, or one whose message comes later: then it is read from the store
	}
	if p.SessionID != t.s.id {
		t.stranger(p.SessionID)
		return
	}
	seen := t.parts[p.ID]
	if seen == nil {
		seen = &told{}
		t.parts[p.ID] = seen
	}
	switch p.Type {
	case "text":
		t.text(&p, seen)
	case "reasoning":
		t.reasoning(&p, seen)
	case "tool":
		t.tool(&p, seen, raw)
	case "step-finish":
		t.step(&p, seen)
	case "step-start", "snapshot", "file":
	default: // patch, agent, retry, compaction, subtask
		if !seen.whole {
			seen.whole = true
			t.s.host.Event(&harness.Activity{Kind: p.Type, Data: bytes.Clone(raw)})
		}
	}
}

// text takes a text part. Its end comes with the end of the model's answer, after the calls in it may have begun: so what was streamed by then is passed on before a call, and the rest after.
func (t *turn) text(p *part, seen *told) {
	if seen.whole || p.Synthetic || p.Ignored {
		return
	}
	if p.Time.End == 0 {
		t.stream(seen, p)
		return
	}
	seen.whole = true
	rest, ok := strings.CutPrefix(p.Text, seen.said)
	if !ok && strings.HasPrefix(seen.said, p.Text) { // white space at the end is taken away
		rest = ""
	} else if !ok {
		rest = p.Text
	}
	t.open = slices.DeleteFunc(t.open, func(o *told) bool { return o == seen })
	if strings.TrimSpace(rest) != "" {
		t.hold(p.MessageID, rest)
	}
}

// stream notes a text that is being written.
func (t *turn) stream(seen *told, p *part) {
	seen.message, seen.streamed = p.MessageID, p.Text
	if !slices.Contains(t.open, seen) {
		t.open = append(t.open, seen)
	}
}

// delta adds to a text that is being written.
func (t *turn) delta(d *delta) {
	if seen := t.parts[d.PartID]; seen != nil && d.Field == "text" && slices.Contains(t.open, seen) {
		seen.streamed += d.Delta
	}
}

func (t *turn) hold(message, text string) {
	c := trace.Content{Type: "text", Text: text}
	for _, h := range t.texts {
		if h.message == message {
			h.content = append(h.content, c)
			return
		}
	}
	t.texts = append(t.texts, &held{message, []trace.Content{c}})
}

// before passes on what a message said before a call of it.
func (t *turn) before(message string) {
	for _, seen := range t.open {
		rest, _ := strings.CutPrefix(seen.streamed, seen.said)
		if seen.message == message && strings.TrimSpace(rest) != "" {
			seen.said = strings.TrimRight(seen.streamed, " \t\r\n")
			t.hold(message, strings.TrimRight(rest, " \t\r\n"))
		}
	}
	t.say(message, "")
}

// say passes on the texts so far of a message, or of all: something follows.
func (t *turn) say(message, reason string) {
	kept := t.texts[:0]
	for _, h := range t.texts {
		if message != "" && h.message != message {
			kept = append(kept, h)
			continue
		}
		t.s.host.Event(&harness.Message{ID: h.message, Role: "assistant", Content: h.content, StopReason: reason})
	}
	t.texts = kept
}

func (t *turn) reasoning(p *part, seen *told) {
	if seen.whole || p.Time.End == 0 {
		return
	}
	seen.whole = true
	r := &harness.Reasoning{ID: p.ID}
	switch {
	case p.Text != "":
		r.Content = trace.Observe([]trace.Content{{Type: "text", Text: p.Text}})
	case bytes.Contains(bytes.ToLower(p.Metadata), []byte("encrypted")) || bytes.Contains(bytes.ToLower(p.Metadata), []byte("redacted")):
		r.Content = trace.Absent[[]trace.Content](trace.Encrypted, trace.ReasonProviderEncrypted)
	default:
		r.Content = trace.Absent[[]trace.Content](trace.ProviderHidden, trace.ReasonProviderHidden)
	}
	t.s.host.Event(r)
}

// step is the end of a request to the model.
func (t *turn) step(p *part, seen *told) {
	if seen.whole {
		return
	}
	seen.whole = true
	t.say(p.MessageID, p.Reason)
	if p.Tokens == nil {
		return
	}
	cost := 0.0
	if p.Cost != nil {
		cost = *p.Cost
	}
	t.steps++
	t.sum.add(p.Tokens)
	t.cost += cost
	t.s.host.Event(&harness.Usage{Scope: "step", Usage: usage(p.Tokens, cost)})
}

// complete passes on what was left open: a call whose result OpenCode never told has none.
func (t *turn) complete() {
	t.say("", "")
	for _, c := range t.calls {
		if !c.result {
			c.result = true
			t.s.host.Event(&harness.ToolResult{ID: c.id, Status: trace.ToolIncomplete, Result: trace.Absent[trace.ToolResult](trace.NotEmitted, trace.ReasonProviderDidNotEmit)})
		}
	}
}

// usage tells the turn's sum. An aborted step has none, so that a turn without a step has none either.
func (t *turn) usage() {
	if t.steps > 0 {
		t.s.host.Event(&harness.Usage{Scope: "turn", Usage: usage(&t.sum, t.cost)})
	}
}

func (a *tokens) add(b *tokens) {
	a.Input += b.Input
	a.Output += b.Output
	a.Reasoning += b.Reasoning
	a.Cache.Read += b.Cache.Read
	a.Cache.Write += b.Cache.Write
	if b.Total == nil {
		return
	}
	total := *b.Total
	if a.Total != nil {
		total += *a.Total
	}
	a.Total = &total
}

// usage is an account as OpenCode gives it: input without what was cached, output without reasoning. It computes the cost from the prices it knows; a model without prices costs 0, so
// that 0 is not known.
func usage(k *tokens, cost float64) trace.Usage {
	count := func(f float64) trace.Observation[int64] { return trace.Observe(int64(f)) }
	u := trace.Usage{InputTokens: count(k.Input), OutputTokens: count(k.Output), ReasoningTokens: count(k.Reasoning), CacheReadTokens: count(k.Cache.Read), CacheWriteTokens: count(k.Cache.Write)}
	if k.Total != nil {
		u.TotalTokens = count(*k.Total)
	}
	if cost > 0 {
		u.Cost, u.Currency = trace.Observe(cost), trace.Observe("USD")
	}
	return u
}

// lifecycle tells how the exchange of the turn went.
func (t *turn) lifecycle(outcome string, answer *message) {
	b, _ := json.Marshal(map[string]any{"request": "POST /session/{sessionID}/message", "outcome": outcome, "elapsed_ms": time.Since(t.began).Milliseconds()})
	facts := harness.Facts{"http_lifecycle": trace.Observe(trace.JSON(b))}
	if answer != nil && answer.Info.Finish != "" {
		facts["finish_reason"] = fact(answer.Info.Finish)
	}
	if answer != nil && answer.Info.ModelID != "" {
		facts["provider_id"], facts["model_id"] = fact(answer.Info.ProviderID), fact(answer.Info.ModelID)
	}
	t.s.host.Event(facts)
}
