package judge

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxBody bounds what is read of a response. The longest answer has a few KiB; the rest is room for what some endpoints add.
const maxBody = 1 << 20

// reply is what an endpoint answered, as far as it is used.
type reply struct {
	text  string // what the model said
	model string
	usage map[string]any
}

// statusError is the error of a response that is no answer; nil when it may be one.
func statusError(resp *http.Response) *Error {
	code := resp.StatusCode
	var e *Error
	switch {
	case code == http.StatusOK:
		return nil
	case code >= 300 && code < 400:
		e = fail(CodeRedirectBlocked, "the endpoint answered with a redirect (HTTP %d), which is not followed: put the address that is meant into BaseURL", code)
	case code == http.StatusTooManyRequests:
		e = fail(CodeRateLimit, "the endpoint answered that it is asked too often (HTTP %d)", code)
	case code == http.StatusRequestTimeout:
		e = fail(CodeTimeout, "the endpoint answered that the request took too long (HTTP %d)", code)
	case code >= 500:
		e = fail(CodeServerError, "the endpoint answered HTTP %d", code)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e = fail(CodeProvider, "the endpoint refused the key (HTTP %d)", code)
	case code == http.StatusNotFound:
		e = fail(CodeProvider, "the endpoint knows no such path or model (HTTP %d): check BaseURL and Model", code)
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		e = fail(CodeProvider, "the endpoint refused the request (HTTP %d): check Model, and whether the endpoint supports ResponseMode", code)
	default:
		e = fail(CodeProvider, "the endpoint answered HTTP %d", code)
	}
	return e.with("http_status", code)
}

// readReply reads and checks a response with status 200. The error of reading is returned apart: only the caller knows whose deadline it was.
func readReply(resp *http.Response) (*reply, *Error, error) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, fail(CodeMalformed, "the endpoint's answer is no JSON by its Content-Type"), nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case len(body) > maxBody:
		return nil, fail(CodeMalformed, "the endpoint's answer is longer than %d bytes", maxBody), nil
	case err != nil:
		return nil, nil, err
	case !utf8.Valid(body):
		return nil, fail(CodeMalformed, "the endpoint's answer is no UTF-8"), nil
	}
	r, e := parseReply(body)
	return r, e, nil
}

// completion is the part of a chat completion that is looked at.
type completion struct {
	Model   json.RawMessage `json:"model"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      *struct {
			Content *string `json:"content"`
			Refusal *string `json:"refusal"`
		} `json:"message"`
	} `json:"choices"`
}

// parseReply takes a chat completion apart. With an error the reply has what is known nevertheless: the model and the usage.
func parseReply(body []byte) (*reply, *Error) {
	var c completion
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fail(CodeMalformed, "the endpoint's answer is no chat completion")
	}
	r := &reply{usage: usageOf(c.Usage)}
	_ = json.Unmarshal(c.Model, &r.model) // a model that is no text is none
	if len(c.Choices) == 0 && len(c.Error) > 0 && string(c.Error) != "null" {
		return r, fail(CodeProvider, "the endpoint answered with an error object (HTTP 200)").with("http_status", http.StatusOK)
	}
	if len(c.Choices) != 1 || c.Choices[0].Message == nil {
		return r, fail(CodeMalformed, "the endpoint's answer has not exactly one choice with a message")
	}
	choice := c.Choices[0]
	switch message := choice.Message; {
	case message.Refusal != nil && strings.TrimSpace(*message.Refusal) != "":
		return r, fail(CodeRefusal, "the model refused to judge")
	case choice.FinishReason == "length", choice.FinishReason == "content_filter":
		return r, fail(CodeIncompleteOutput, "the model's answer was cut (finish_reason %s)", choice.FinishReason).with("finish_reason", choice.FinishReason)
	case message.Content == nil:
		return r, fail(CodeMalformed, "the endpoint's answer has a message without content")
	default:
		r.text = *message.Content
		return r, nil
	}
}
