package acpagent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pair is how ACP writes variables and headers.
type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// server is a server as session/new names it.
type server struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []pair   `json:"env"`
	URL     string   `json:"url"`
	Headers []pair   `json:"headers"`
}

// connect connects to a server and lists its tools, as agents do before they prompt a model.
func (a *agent) connect(ctx context.Context, s *server) error {
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if a.elicits {
		options.ElicitationHandler = a.forward
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "acpagent", Version: "1"}, options)
	session, err := client.Connect(ctx, s.transport(), nil)
	if err != nil {
		return err
	}
	a.servers[s.Name] = session
	for _, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *server) transport() mcp.Transport {
	if s.Type == "http" {
		return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: headers{http.DefaultTransport, s.Headers}}}
	}
	c := exec.Command(s.Command, s.Args...)
	c.Env = []string{} // what is given is complete
	for _, e := range s.Env {
		c.Env = append(c.Env, e.Name+"="+e.Value)
	}
	return &command{c}
}

// headers adds headers to each request.
type headers struct {
	next  http.RoundTripper
	pairs []pair
}

// RoundTrip implements http.RoundTripper.
func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, p := range h.pairs {
		r.Header.Set(p.Name, p.Value)
	}
	return h.next.RoundTrip(r)
}

// forward passes a server's request for input on to the client.
func (a *agent) forward(ctx context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	params := map[string]any{"sessionId": sessionID, "mode": "form", "message": q.Params.Message}
	if q.Params.Mode == "url" {
		params["mode"], params["url"], params["elicitationId"] = "url", q.Params.URL, q.Params.ElicitationID
	} else {
		params["requestedSchema"] = q.Params.RequestedSchema
	}
	answer, err := a.peer.request(ctx, "elicitation/create", params)
	if err != nil {
		return nil, err
	}
	var r struct {
		Action  string         `json:"action"`
		Content map[string]any `json:"content"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, fmt.Errorf("the client's answer: %w", err)
	}
	return &mcp.ElicitResult{Action: r.Action, Content: r.Content}, nil
}
