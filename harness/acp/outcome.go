package acp

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// judge is the end of a turn: the agent's word, and beside it why it may not be true.
func (t *turn) judge(answer object, cancelled bool) (*harness.Turn, error) {
	stop := answer["stopReason"].str()
	if t.failure != "" && answer["usage"].null() { // no usage at all: the model never answered
		return nil, &harness.Error{Blame: harness.BlameProvider, Code: providerCode(t.noticed), Message: fmt.Sprintf("%s behind %q: %s", t.failure, stop, cut(t.noticed)), Details: details(t.noticed)}
	}
	content := t.answer.take()
	out := &harness.Turn{Text: plain(content), Content: content, StopReason: stop, NativeID: t.answer.id}
	var doubts []string
	if t.failure != "" {
		doubts = append(doubts, t.failure+": "+cut(t.noticed))
	}
	switch {
	case stop == "":
		doubts = append(doubts, "the agent gave no stop reason")
	case stop == "cancelled" && !cancelled:
		doubts = append(doubts, "the agent says that the turn was cancelled, and nobody did")
	case stop == "end_turn" && len(content) == 0 && t.done == 0:
		doubts = append(doubts, "no text and no completed tool call")
	}
	if n := t.unfinished(); n > 0 && !cancelled {
		doubts = append(doubts, fmt.Sprintf("%d tool calls were never ended", n))
	}
	out.Doubt = strings.Join(doubts, "; ")
	return out, nil
}

// unfinished counts the calls that the agent left open.
func (t *turn) unfinished() int {
	n := 0
	for _, c := range t.order {
		if !c.final() {
			n++
		}
	}
	return n
}

// plain is the text of the answer. Pieces of text were joined as they came; separate blocks are lines.
func plain(blocks []trace.Content) string { return trace.JoinText(blocks) }

func cut(s string) string {
	if len(s) > 500 {
		return strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}

// promptError is a turn that the agent answered with an error. The codes of JSON-RPC for a request that is wrong are a fault between m3 and the agent; an internal error with the marks of a
// model's provider is the provider's, any other the agent's.
func promptError(e *rpcError) *harness.Error {
	data := e.Data.obj()
	out := &harness.Error{Blame: harness.BlameAgent, Code: "agent_error", Message: cut(e.Message), Details: map[string]any{"rpc_code": e.Code}, Err: e}
	for _, name := range []string{"errorKind", "errorName"} {
		if word := data[name].str(); word != "" {
			out.Details[name] = word
		}
	}
	for k, v := range details(e.Message) {
		out.Details[k] = v
	}
	switch {
	case e.Code == codeAuthRequired:
		out.Blame, out.Code = harness.BlameProvider, "provider_unauthorized"
	case e.Code == codeMethodNotFound, e.Code == codeInvalidParams, e.Code == -32600, e.Code == -32700:
		out.Code = "agent_protocol"
	case fromProvider(e.Message, data):
		out.Blame, out.Code = harness.BlameProvider, providerCode(e.Message+" "+data["errorKind"].str())
	}
	return out
}

// fromProvider reports whether an error has the marks of a model's provider: the class that opencode gives it, the kind that claude-agent-acp gives it, a status in the message.
func fromProvider(message string, data object) bool {
	if _, kind := data["errorKind"]; kind {
		return true
	}
	switch data["errorName"].str() {
	case "APIError", "ProviderAuthError", "AI_APICallError", "AI_RetryError", "MessageOutputLengthError":
		return true
	}
	return strings.Contains(message, "API Error") || status.MatchString(message)
}

// status finds an HTTP status in a message of an agent ("fake status 400", "API Error: 429 …", "unexpected status 401 Unauthorized", "code": "fake_400").
var status = regexp.MustCompile(`(?i)(?:status(?: code)?|API Error|HTTP|error)[ :=]+([45]\d\d)\b`)

func httpStatus(message string) int {
	if m := status.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}

func details(message string) map[string]any {
	if n := httpStatus(message); n != 0 {
		return map[string]any{"http_status": n}
	}
	return map[string]any{}
}

// providerCode is the stable word for how a provider failed, as far as the agent says.
func providerCode(message string) string {
	low := strings.ToLower(message)
	switch n := httpStatus(message); {
	case n == 401, n == 403, strings.Contains(low, "authentication"), strings.Contains(low, "unauthorized"):
		return "provider_unauthorized"
	case n == 429, strings.Contains(low, "rate_limit"), strings.Contains(low, "rate limit"):
		return "provider_rate_limited"
	case strings.Contains(low, "stream disconnected"), strings.Contains(low, "stream closed"), strings.Contains(low, "connection reset"):
		return "provider_cut"
	}
	return "provider_error"
}

// usage tells what the agent counted. Agents mean different things by it: the scope says what; what is not known to be a turn's is never added up.
func (s *session) usage(answer, cost object) {
	if u := answer["usage"].obj(); u != nil {
		e := emptyUsage(s.cfg.UsageScope)
		for name, o := range map[string]*trace.Observation[int64]{
			"inputTokens": &e.InputTokens, "outputTokens": &e.OutputTokens, "thoughtTokens": &e.ReasoningTokens,
			"cachedReadTokens": &e.CacheReadTokens, "cachedWriteTokens": &e.CacheWriteTokens, "totalTokens": &e.TotalTokens,
		} {
			*o = count(u[name])
		}
		s.host.Event(e)
	}
	if cost == nil {
		return
	}
	e := emptyUsage("session") // usage_update counts from the session's beginning
	amount, err := strconv.ParseFloat(string(cost["amount"]), 64)
	if err != nil {
		e.Cost = trace.Absent[float64](trace.Unavailable, trace.ReasonMalformedSource)
	} else {
		e.Cost = trace.Observe(amount)
	}
	if c := cost["currency"].str(); c != "" {
		e.Currency = trace.Observe(c)
	}
	s.host.Event(e)
}

func emptyUsage(scope string) *harness.Usage {
	n := notEmitted[int64]()
	return &harness.Usage{Scope: scope, Usage: trace.Usage{InputTokens: n, OutputTokens: n, ReasoningTokens: n, CacheCreationTokens: n, CacheReadTokens: n, CacheWriteTokens: n, TotalTokens: n,
		Cost: notEmitted[float64](), Currency: notEmitted[string]()}}
}

// count reads a number of tokens. One that is none, or negative, is malformed, and never zero.
func count(v raw) trace.Observation[int64] {
	if v.null() {
		return notEmitted[int64]()
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 {
		return trace.Absent[int64](trace.Unavailable, trace.ReasonMalformedSource)
	}
	return trace.Observe(n)
}
