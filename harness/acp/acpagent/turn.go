package acpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// turn is one prompt being answered.
type turn struct {
	*agent
	id      json.RawMessage
	stop    string
	usage   json.RawMessage
	twice   bool
	message string // the id of the message being said, "" for none
	result  string // {{result}}
	failure *Error
	silent  bool // never answer
}

func (a *agent) prompt(ctx context.Context, m message) {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	a.cancel = cancel
	n := a.turns
	a.turns++
	a.mu.Unlock()
	steps, err := a.steps(n, m.Params)
	if err != nil {
		cancel()
		a.peer.refuse(m.ID, Error{Code: -32602, Message: err.Error()})
		return
	}
	a.work.Go(func() {
		defer cancel()
		t := &turn{agent: a, id: m.ID, silent: slices.ContainsFunc(steps, func(s Step) bool { return s.Hang == "deaf" })}
		t.run(ctx, steps)
	})
}

// steps are what to do in turn n.
func (a *agent) steps(n int, params json.RawMessage) ([]Step, error) {
	if n < len(a.script.Turns) {
		return a.script.Turns[n], nil
	}
	if len(a.script.Turns) > 0 {
		return nil, fmt.Errorf("acpagent: the script has %d turns, this is turn %d", len(a.script.Turns), n+1)
	}
	var p struct {
		Prompt []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	}
	if err := json.Unmarshal(params, &p); err != nil || len(p.Prompt) == 0 {
		return nil, errors.New("acpagent: the prompt is empty")
	}
	steps, err := parseSteps([]byte(p.Prompt[0].Text))
	if err != nil {
		return nil, fmt.Errorf("acpagent: the prompt is no list of steps: %w", err)
	}
	return steps, nil
}

func (t *turn) run(ctx context.Context, steps []Step) {
	for i := range steps {
		if ctx.Err() != nil || t.stop != "" || t.failure != nil {
			break
		}
		t.step(ctx, &steps[i])
	}
	if ctx.Err() != nil {
		t.stop = "cancelled"
	}
	if t.stop == "" {
		t.stop = "end_turn"
	}
	switch {
	case t.silent:
	case t.failure != nil:
		t.peer.refuse(t.id, *t.failure)
	default:
		t.finish()
	}
}

func (t *turn) finish() {
	answer := map[string]any{"stopReason": t.stop}
	if t.usage != nil {
		answer["usage"] = t.usage
	}
	t.peer.reply(t.id, answer)
	if t.twice {
		t.peer.reply(t.id, answer)
	}
}

func (t *turn) step(ctx context.Context, s *Step) {
	if s.Say != "" {
		t.say(s.Say)
		return
	}
	t.message = ""
	switch {
	case s.Think != "":
		t.text("agent_thought_chunk", s.Think, "thought-"+t.agent.number(&t.said))
	case s.Notes != "":
		t.text("agent_message_chunk", s.Notes, "")
	case s.Call != nil:
		t.result = t.call(ctx, s.Call)
	case s.Parallel != nil:
		t.parallel(ctx, s.Parallel)
	case s.Hang != "":
		<-ctx.Done()
	case s.Sleep != 0:
		select {
		case <-time.After(time.Duration(s.Sleep)):
		case <-ctx.Done():
		}
	case s.Stop != "":
		t.stop = s.Stop
	case s.Error != nil:
		t.failure = s.Error
	case s.Crash != nil:
		t.exit(*s.Crash)
	case s.Request != nil:
		t.ask(ctx, s.Request)
	default:
		t.tell(s)
	}
}

// tell takes the steps that only write.
func (t *turn) tell(s *Step) {
	switch {
	case s.Plan != nil:
		var entries []any
		for _, p := range s.Plan {
			entries = append(entries, map[string]string{"content": p, "priority": "medium", "status": "pending"})
		}
		t.update(map[string]any{"sessionUpdate": "plan", "entries": entries})
	case s.Notice != "":
		t.update(map[string]any{"sessionUpdate": "notice", "severity": "info", "title": s.Notice})
	case s.Update != nil:
		t.update(s.Update)
	case s.Notify != nil:
		t.peer.notify(s.Notify.Method, s.Notify.Params)
	case s.Line != "":
		t.peer.line([]byte(s.Line))
	case s.Huge > 0:
		t.peer.line(bytes.Repeat([]byte("x"), s.Huge))
	case s.Stderr != "":
		fmt.Fprintln(os.Stderr, s.Stderr)
	case s.Usage != nil:
		t.usage = s.Usage
	case s.Cost != 0:
		t.update(map[string]any{"sessionUpdate": "usage_update", "used": 1, "size": 1000, "cost": map[string]any{"amount": s.Cost, "currency": "USD"}})
	case s.Twice:
		t.twice = true
	}
}

func (t *turn) say(text string) {
	if t.message == "" && !t.script.Unlabelled {
		t.message = "message-" + t.agent.number(&t.said)
	}
	t.text("agent_message_chunk", text, t.message)
}

func (t *turn) text(kind, text, id string) {
	text = strings.ReplaceAll(text, "{{result}}", t.result)
	u := map[string]any{"sessionUpdate": kind, "content": map[string]string{"type": "text", "text": text}}
	if id != "" && !t.script.Unlabelled {
		u["messageId"] = id
	}
	t.update(u)
}

// number counts.
func (a *agent) number(n *int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	*n++
	return strconv.Itoa(*n)
}

func (t *turn) ask(ctx context.Context, m *Message) {
	answer, err := t.peer.request(ctx, m.Method, m.Params)
	t.result = string(answer)
	if err != nil {
		t.result = err.Error()
	}
}

func (t *turn) parallel(ctx context.Context, calls []Call) {
	results := make([]string, len(calls))
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() { results[i] = t.call(ctx, &calls[i]) })
	}
	all.Wait()
	t.result = strings.Join(results, "\n")
}

// call makes a call, tells it, and returns the text of its result.
func (t *turn) call(ctx context.Context, c *Call) string {
	id := c.ID
	if id == "" {
		id = "call-" + t.agent.number(&t.calls)
	}
	args := c.Arguments
	if args == nil {
		args = json.RawMessage("{}")
	}
	t.began(c, id, args)
	if c.Ask && !t.permitted(ctx, c, id) {
		t.ended(c, id, "failed", encode(map[string]string{"error": "permission refused"}))
		return "permission refused"
	}
	if c.Invented {
		t.ended(c, id, "completed", encode(map[string]any{"content": []any{map[string]string{"type": "text", "text": "invented"}}}))
		return "invented"
	}
	status, output, text := t.make(ctx, c, id, args)
	t.ended(c, id, status, output)
	return text
}

// make calls the tool really.
func (t *turn) make(ctx context.Context, c *Call, id string, args json.RawMessage) (status string, output json.RawMessage, text string) {
	s := t.servers[c.Server]
	if s == nil {
		return "failed", encode(map[string]string{"error": "no such server"}), "no such server"
	}
	params := &mcp.CallToolParams{Name: c.Tool, Arguments: args}
	if t.script.Join {
		if c.WireID != "" {
			id = c.WireID
		}
		params.Meta = mcp.Meta{JoinKey: id}
	}
	r, err := s.CallTool(ctx, params)
	if err != nil {
		return "failed", encode(map[string]string{"error": err.Error()}), err.Error()
	}
	var b strings.Builder
	for _, block := range r.Content {
		if x, isText := block.(*mcp.TextContent); isText {
			b.WriteString(x.Text)
		}
	}
	status = "completed"
	if r.IsError {
		status = "failed"
	}
	return status, encode(r), b.String()
}

// began tells the call as pending first, with nothing, and then as running, as agents do.
func (t *turn) began(c *Call, id string, args json.RawMessage) {
	if c.Hidden {
		return
	}
	told := Told{Server: c.Server, Tool: c.Tool, Arguments: args}
	if c.Told != nil {
		told.Server, told.Tool = or(c.Told.Server, c.Server), or(c.Told.Tool, c.Tool)
		if c.Told.Arguments != nil {
			told.Arguments = c.Told.Arguments
		}
	}
	input := map[string]any{"server": told.Server, "tool": told.Tool, "arguments": told.Arguments}
	t.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "title": told.Server + ": " + told.Tool, "kind": "other", "status": "pending", "rawInput": struct{}{}})
	t.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress", "rawInput": input})
}

func (t *turn) ended(c *Call, id, status string, output json.RawMessage) {
	if c.Hidden || c.Open {
		return
	}
	if c.Told != nil {
		status = or(c.Told.Status, status)
		if c.Told.Result != nil {
			output = c.Told.Result
		}
	}
	t.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "rawOutput": output})
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// permitted asks the client.
func (t *turn) permitted(ctx context.Context, c *Call, id string) bool {
	answer, err := t.peer.request(ctx, "session/request_permission", map[string]any{
		"sessionId": sessionID, "toolCall": map[string]any{"toolCallId": id, "title": c.Server + ": " + c.Tool, "status": "pending"},
		"options": []any{
			map[string]string{"optionId": "a", "name": "Always", "kind": "allow_always"},
			map[string]string{"optionId": "y", "name": "Yes", "kind": "allow_once"},
			map[string]string{"optionId": "n", "name": "No", "kind": "reject_once"},
		},
	})
	var r struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	return err == nil && json.Unmarshal(answer, &r) == nil && r.Outcome.Outcome == "selected" && r.Outcome.OptionID == "y"
}
