package mcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// JSON-RPC and MCP error codes that m3 sends or looks for.
const (
	codeMethodNotFound      = -32601
	codeInvalidParams       = -32602
	codeInternal            = -32603
	codeHeaderMismatch      = -32020
	codeMissingCapability   = -32021
	codeUnsupportedProtocol = -32022
)

func errorObject(code int, format string, args ...any) *rpc.ErrorObject {
	return &rpc.ErrorObject{Code: fmt.Append(nil, code), Message: fmt.Sprintf(format, args...)}
}

// request answers one request of the server. It runs on a goroutine of its own, so a server may ask while it still owes us an answer.
func (l *link) request(ctx context.Context, in *rpc.Incoming) {
	switch local := in.Local.(type) {
	case unanswered:
		return
	case *turn:
		defer local.end()
		local.await(ctx)
	}
	if l.ignored(in) { // the version was agreed on since it arrived
		return
	}
	l.serving.begin(in)
	defer l.serving.end(in.ID)
	asked := &Asked{Params: in.Params, For: in.For}
	result, e := l.answer(ctx, in, asked)
	_ = l.conn.ReplyNoted(ctx, in.ID, result, e, asked.Note) // a failed write ends the connection, and its reason is told there
}

// unanswered marks a request that was ignored when it arrived.
type unanswered struct{}

// ignored leaves a request without an answer where servers send none and clients no answers: from 2026-07-28 on.
func (l *link) ignored(in *rpc.Incoming) bool {
	version := l.version()
	if !Modern(version) {
		return false
	}
	l.findRequest(in, "server-request", trace.SeverityError, "the server sent the request "+in.Method+"; in "+version+" servers send none, and it gets no answer")
	l.conn.Ignore(in.ID)
	return true
}

func (l *link) answer(ctx context.Context, in *rpc.Incoming, asked *Asked) ([]byte, *rpc.ErrorObject) {
	version := l.version()
	if in.Method == "ping" {
		return []byte(`{}`), nil
	}
	if e := l.refuse(in, version); e != nil {
		return nil, e
	}
	if in.Method == methodElicit && l.cfg.Elicit != nil {
		return l.cfg.Elicit(ctx, asked)
	}
	if l.cfg.Request == nil {
		return nil, errorObject(codeMethodNotFound, "method not found: %s", in.Method)
	}
	result, e, handled := l.cfg.Request(ctx, in.Method, in.Params)
	switch {
	case !handled:
		return nil, errorObject(codeMethodNotFound, "method not found: %s", in.Method)
	case e != nil:
		return nil, e
	case result == nil:
		return []byte(`{}`), nil
	}
	b, err := Encode(result)
	if err != nil {
		return nil, errorObject(codeInternal, "the answer to %s is no JSON: %v", in.Method, err)
	}
	return b, nil
}

// refuse returns the error for a request that the server must not send: one that its version does not have, or that m3 did not declare.
func (l *link) refuse(in *rpc.Incoming, version string) *rpc.ErrorObject {
	if version == "" {
		l.findRequest(in, "request-before-initialized", trace.SeverityWarning, "the server sent "+in.Method+" before the session was initialized; only ping is allowed there")
	} else if _, known := methods[in.Method]; known && !Supports(version, in.Method) {
		l.findRequest(in, "method-not-in-version", trace.SeverityError, "the server sent "+in.Method+", which "+version+" does not have")
		return errorObject(codeMethodNotFound, "%s does not exist in %s", in.Method, version)
	}
	mode, _ := textMember(in.Params, "mode")
	if l.cfg.Capabilities.declares(in.Method, mode) {
		return nil
	}
	l.findRequest(in, "undeclared-capability", trace.SeverityError, "the server sent "+in.Method+describeMode(mode)+", which the client did not declare")
	if mode != "" && (l.cfg.Capabilities.ElicitForm || l.cfg.Capabilities.ElicitURL) {
		return errorObject(codeInvalidParams, "elicitation mode %s was not declared", shorten(mode))
	}
	return errorObject(codeMethodNotFound, "%s: the client did not declare this capability", in.Method)
}

func describeMode(mode string) string {
	if mode == "" {
		return ""
	}
	return " in mode " + shorten(mode)
}

func (l *link) findRequest(in *rpc.Incoming, code string, sev trace.Severity, msg string) {
	l.find(trace.Finding{Code: code, Severity: sev, Message: msg, Sequence: in.Sequence, Offset: -1, RPCID: in.ID})
}

func (l *link) find(f trace.Finding) { l.cfg.Tape.Find(f) }

// notification takes one notification of the server, on the reader.
func (l *link) notification(n *rpc.Notification) {
	if n.Method == "notifications/progress" {
		l.report(n.Params, n.Sequence)
	}
	l.change(n)
	l.unasked(n)
	if l.cfg.Notification != nil {
		l.cfg.Notification(n.Method, n.Params)
	}
}

// serving remembers which requests of the server m3 has not answered yet.
type serving struct {
	mu   sync.Mutex
	open []*rpc.Incoming
}

func (s *serving) begin(in *rpc.Incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, in)
}

func (s *serving) end(id trace.RPCID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, in := range s.open {
		if in.ID == id {
			s.open = append(s.open[:i:i], s.open[i+1:]...)
			return
		}
	}
}

// oldest returns the request that has waited longest.
func (s *serving) oldest() (method string, id trace.RPCID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return "", "", false
	}
	return s.open[0].Method, s.open[0].ID, true
}
