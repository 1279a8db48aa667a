package acpagent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const sessionID = "scripted-1"

// agent is one running agent.
type agent struct {
	script *Script
	peer   *peer
	exit   func(int)

	elicits bool // the client takes elicitations
	servers map[string]*mcp.ClientSession
	options map[string]any

	mu     sync.Mutex
	turns  int
	calls  int
	said   int // messages
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// Run is the agent on the given streams, until in ends or ctx does. A step that crashes ends the whole process.
func Run(ctx context.Context, script *Script, in io.Reader, out io.Writer) error {
	a := &agent{script: script, peer: newPeer(out, script.StringIDs), exit: os.Exit, servers: map[string]*mcp.ClientSession{}, options: map[string]any{}, cancel: func() {}}
	for id, values := range script.Options {
		a.options[id] = false
		if len(values) > 0 {
			a.options[id] = values[0]
		}
	}
	ctx, end := context.WithCancel(ctx)
	err := a.peer.serve(in, func(m message) { a.handle(ctx, m) })
	if script.Linger {
		<-ctx.Done()
	}
	end()
	a.work.Wait()
	for _, s := range a.servers {
		_ = s.Close() // a server that is gone already
	}
	return err
}

func (a *agent) handle(ctx context.Context, m message) {
	if slices.Contains(a.script.Deaf, m.Method) {
		return
	}
	if e, refused := a.script.Refuse[m.Method]; refused {
		a.peer.refuse(m.ID, e)
		return
	}
	switch m.Method {
	case "initialize":
		a.initialize(m)
	case "session/new":
		a.open(ctx, m)
	case "session/set_mode":
		a.setMode(m)
	case "session/set_config_option":
		a.setOption(m)
	case "session/prompt":
		a.prompt(ctx, m)
	case "session/cancel":
		a.mu.Lock()
		cancel := a.cancel
		a.mu.Unlock()
		cancel()
	case "session/close":
		if !a.script.NoClose {
			a.peer.reply(m.ID, struct{}{})
			return
		}
		fallthrough
	default:
		if m.ID != nil {
			a.peer.refuse(m.ID, Error{Code: -32601, Message: "method not found: " + m.Method})
		}
	}
}

func (a *agent) initialize(m message) {
	var p struct {
		ClientCapabilities struct {
			Elicitation *struct{} `json:"elicitation"`
		} `json:"clientCapabilities"`
	}
	_ = json.Unmarshal(m.Params, &p) // a client that says nothing has nothing
	a.elicits = p.ClientCapabilities.Elicitation != nil
	name, version, protocol := a.script.Name, a.script.Version, a.script.Protocol
	if name == "" {
		name = "scripted"
	}
	if version == "" {
		version = "1"
	}
	if protocol == 0 {
		protocol = 1
	}
	sessions := map[string]any{}
	if !a.script.NoClose {
		sessions["close"] = struct{}{}
	}
	a.peer.reply(m.ID, map[string]any{
		"protocolVersion": protocol, "agentInfo": map[string]string{"name": name, "version": version}, "authMethods": []any{},
		"agentCapabilities": map[string]any{"mcpCapabilities": map[string]bool{"http": true, "sse": false}, "sessionCapabilities": sessions,
			"promptCapabilities": map[string]bool{"image": true, "embeddedContext": true}},
	})
}

func (a *agent) open(ctx context.Context, m message) {
	var p struct {
		McpServers []server `json:"mcpServers"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		a.peer.refuse(m.ID, Error{Code: -32602, Message: err.Error()})
		return
	}
	for i := range p.McpServers {
		if a.script.DropServers {
			break
		}
		s := &p.McpServers[i]
		if err := a.connect(ctx, s); err != nil {
			a.peer.refuse(m.ID, Error{Message: fmt.Sprintf("server %s: %v", s.Name, err)})
			return
		}
	}
	made := map[string]any{"sessionId": sessionID}
	if modes := a.script.Modes; len(modes) > 0 {
		var offered []any
		for _, id := range modes {
			offered = append(offered, map[string]string{"id": id, "name": id})
		}
		made["modes"] = map[string]any{"currentModeId": modes[0], "availableModes": offered}
	}
	if len(a.script.Options) > 0 {
		made["configOptions"] = a.offered()
	}
	a.peer.reply(m.ID, made)
}

// offered are the options as they are now.
func (a *agent) offered() []any {
	var out []any
	for _, id := range slices.Sorted(maps.Keys(a.script.Options)) {
		o := map[string]any{"id": id, "name": id, "type": "boolean", "currentValue": a.options[id]}
		if values := a.script.Options[id]; len(values) > 0 {
			var choices []any
			for _, v := range values {
				choices = append(choices, map[string]string{"value": v, "name": v})
			}
			o["type"], o["options"] = "select", choices
		}
		out = append(out, o)
	}
	return out
}

func (a *agent) setMode(m message) {
	var p struct {
		ModeID string `json:"modeId"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || !slices.Contains(a.script.Modes, p.ModeID) {
		a.peer.refuse(m.ID, Error{Code: -32602, Message: "unknown mode: " + p.ModeID})
		return
	}
	a.peer.reply(m.ID, struct{}{})
	a.update(map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": p.ModeID})
}

func (a *agent) setOption(m message) {
	var p struct {
		ConfigID string `json:"configId"`
		Value    any    `json:"value"`
	}
	err := json.Unmarshal(m.Params, &p)
	values, known := a.script.Options[p.ConfigID]
	if err != nil || !known {
		a.peer.refuse(m.ID, Error{Code: -32602, Message: "unknown config option: " + p.ConfigID})
		return
	}
	if text, isText := p.Value.(string); isText && !slices.Contains(values, text) {
		a.peer.refuse(m.ID, Error{Code: -32602, Message: "unknown value: " + text})
		return
	}
	a.options[p.ConfigID] = p.Value
	a.peer.reply(m.ID, map[string]any{"configOptions": a.offered()})
}

func (a *agent) update(u any) {
	a.peer.notify("session/update", map[string]any{"sessionId": sessionID, "update": u})
}
