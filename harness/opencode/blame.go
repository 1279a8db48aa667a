package opencode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/m3-go/m3/harness"
)

// outcome says how a turn ended that was not cancelled.
func (s *session) outcome(t *turn, answer *message, err error) (*harness.Turn, *harness.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed()
	case t.over != nil:
		return nil, t.over
	case err != nil:
		return nil, s.unanswered(t, err)
	}
	i := &answer.Info
	switch {
	case i.SessionID != s.id || t.foreign != "":
		return nil, harness.Errorf(harness.BlameAgent, "agent_protocol", "OpenCode answered for the session %.80q, and m3's is %s", orElse(t.foreign, i.SessionID), s.id)
	case t.refused != "":
		e := harness.Errorf(harness.BlamePolicy, "permission_refused", "the permission for %s was refused, upon which OpenCode ended the turn", t.refused)
		e.Details = map[string]any{"permission": t.refused}
		return nil, e
	case i.Error != nil:
		return nil, blamed(i.Error)
	case i.Finish == "":
		e := harness.Errorf(harness.BlameAgent, "agent_protocol", "OpenCode ended the turn, and its last message is neither finished nor failed")
		if t.failed != nil {
			e = blamed(t.failed)
		}
		return nil, e
	}
	return t.answer(answer), nil
}

// ends are the reasons to stop after which an answer is one.
var ends = []string{"stop", "length", "content-filter"}

func (t *turn) answer(m *message) *harness.Turn {
	text := text(m)
	out := &harness.Turn{Text: text, StopReason: m.Info.Finish, NativeID: m.Info.ID}
	switch {
	case !slices.Contains(ends, m.Info.Finish):
		out.Doubt = fmt.Sprintf("the last step of the model ended with %q", m.Info.Finish)
	case text == "" && !t.called:
		out.Doubt = "no text and no tool call"
	}
	return out
}

// unanswered is the failure of a message whose answer did not come.
func (s *session) unanswered(t *turn, err error) *harness.Error {
	var status *statusError
	if errors.As(err, &status) && t.failed != nil { // HTTP 500 with a reference; what it was is told as an event
		return blamed(t.failed)
	}
	return s.broke(context.Background(), "it did not answer the message", err)
}

// broke is the failure of an exchange with the process.
func (s *session) broke(ctx context.Context, what string, err error) *harness.Error {
	var own *harness.Error
	var status *statusError
	var protocol *protocolError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &status) && refusedConfiguration.Match(status.body):
		return &harness.Error{Blame: harness.BlameHarness, Code: "configuration_refused", Message: "OpenCode refuses its configuration: " + err.Error(), Err: err}
	case errors.As(err, &status), errors.As(err, &protocol), errors.Is(err, errTooLarge), errors.Is(err, errUnended):
		return &harness.Error{Blame: harness.BlameAgent, Code: "agent_protocol", Message: "OpenCode: " + what + ": " + err.Error(), Err: err}
	}
	if s.gone(ctx) {
		return s.crash("OpenCode ended in the middle of its work")
	}
	return &harness.Error{Blame: harness.BlameAgent, Code: "agent_protocol", Message: "OpenCode: " + what + ": " + err.Error(), Err: err}
}

// refusedConfiguration is what OpenCode says of a configuration that it cannot use.
var refusedConfiguration = regexp.MustCompile(`Config(Invalid|Json|DirectoryTypo)Error|Configuration is invalid`)

// blamed says whose fault an error of OpenCode's is.
func blamed(f *failure) *harness.Error {
	said := orElse(f.Data.Message, f.Name)
	var e *harness.Error
	switch f.Name {
	case "ProviderAuthError":
		e = harness.Errorf(harness.BlameProvider, "provider_unauthorized", "the provider %s has no usable key: %s", f.Data.ProviderID, said)
	case "APIError":
		e = api(f, said)
	case "ContextOverflowError":
		e = harness.Errorf(harness.BlameProvider, "provider_context_overflow", "the conversation is too long for the model: %s", said)
	case "ContentFilterError":
		e = harness.Errorf(harness.BlameProvider, "provider_refused", "the provider's filter refused the answer: %s", said)
	case "MessageOutputLengthError":
		e = harness.Errorf(harness.BlameProvider, "provider_output_length", "the model's answer was cut at its greatest length")
	case "MessageAbortedError":
		e = harness.Errorf(harness.BlameAgent, "agent_aborted", "OpenCode aborted the turn by itself: %s", said)
	default:
		e = harness.Errorf(harness.BlameAgent, "agent_error", "OpenCode failed: %s: %s", f.Name, said)
		if strings.Contains(said, "Model not found") || strings.Contains(said, "Provider not found") {
			e.Blame, e.Code = harness.BlameTest, "model_unknown"
		}
	}
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["error"] = f.Name
	return e
}

// api is an answer of the provider's that is no success.
func api(f *failure, said string) *harness.Error {
	status := f.Data.StatusCode
	if status == 0 {
		return providerSays(said)
	}
	e := harness.Errorf(harness.BlameProvider, "provider_error", "the provider answered with HTTP %d: %s", status, said)
	e.Details = map[string]any{"status": status}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Code = "provider_unauthorized"
	case http.StatusTooManyRequests:
		e.Code = "provider_rate_limited"
	case http.StatusNotFound:
		if unknownModel.MatchString(said + " " + f.Data.ResponseBody) {
			e.Blame, e.Code = harness.BlameTest, "model_unknown"
		}
	}
	return e
}

// What a provider's failure is, when there is nothing but its words: OpenCode tells no status while it tries again.
var (
	unknownModel = regexp.MustCompile(`(?i)model_not_found|model .*(not found|does not exist|unknown)|(no such|unknown) model`)
	limited      = regexp.MustCompile(`(?i)\b429\b|too.many.requests|rate.?limit|usage limit|quota|free limit`)
	unauthorized = regexp.MustCompile(`(?i)\b40[13]\b|unauthori[sz]ed|forbidden|api.?key|authentication|permission denied`)
	cut          = regexp.MustCompile(`(?i)connection (reset|closed|was closed|error)|socket|ECONNRESET|\bterminated\b|premature|unexpected end|stream (ended|closed)|aborted`)
	unreached    = regexp.MustCompile(`(?i)ECONNREFUSED|unable to connect|connection ?refused|ENOTFOUND`)
)

func providerSays(said string) *harness.Error {
	code := "provider_error"
	switch {
	case unauthorized.MatchString(said):
		code = "provider_unauthorized"
	case limited.MatchString(said):
		code = "provider_rate_limited"
	case unreached.MatchString(said):
		code = "provider_unreachable"
	case cut.MatchString(said):
		code = "provider_cut"
	}
	return harness.Errorf(harness.BlameProvider, code, "the provider failed: %s", said)
}

// text is the text of a message.
func text(m *message) string {
	var texts []string
	for _, raw := range m.Parts {
		var p part
		if decode(raw, &p) && p.Type == "text" && !p.Synthetic && !p.Ignored && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
