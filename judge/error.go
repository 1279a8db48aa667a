package judge

import (
	"fmt"

	"github.com/m3-go/m3/trace"
)

// The codes of what can go wrong, as they stand in details.error_code of a row with status error.
const (
	// CodeCredentialsMissing: the key's variable is not set, or what it holds can be no key.
	CodeCredentialsMissing = "judge_credentials_missing"
	// CodeInputInvalid: the subject is not the three texts, or they are too long.
	CodeInputInvalid = "judge_input_invalid"
	// CodeBudgetExhausted: the run's requests are spent; this one was not made.
	CodeBudgetExhausted = "judge_budget_exhausted"
	// CodeBudgetUnavailable: there is a budget, and its counter cannot be used; the request was not made.
	CodeBudgetUnavailable = "judge_budget_unavailable"
	// CodeRedirectBlocked: the endpoint answered with a redirect. It was not followed.
	CodeRedirectBlocked = "judge_redirect_blocked"
	// CodeIncompleteOutput: the provider cut the answer (finish_reason length or content_filter).
	CodeIncompleteOutput = "judge_incomplete_output"
	// CodeJudgeMalformed: the model answered, but not with the object that was asked for.
	CodeJudgeMalformed = "judge_malformed_output"
	// CodeMalformed: what the endpoint sent is no chat completion.
	CodeMalformed = "malformed_output"
	// CodeRefusal: the model refused to judge.
	CodeRefusal = "refusal"
	// CodeRateLimit: the endpoint answered 429, twice unless retrying is off.
	CodeRateLimit = "rate_limit"
	// CodeServerError: the endpoint answered 5xx, twice unless retrying is off.
	CodeServerError = "server_error"
	// CodeTimeout: no whole answer in time, twice unless retrying is off; or the caller's deadline passed.
	CodeTimeout = "timeout"
	// CodeCancelled: the caller's context was cancelled.
	CodeCancelled = "cancelled"
	// CodeProvider: the endpoint could not be reached, refused the request, or said that something went wrong.
	CodeProvider = "provider_error"
	// CodeAbstained: the judge says that what it was given cannot be assessed.
	CodeAbstained = "abstained"
)

// Error is why there is no verdict. Neither its text nor its details hold a key, a text of the subject, or words of the provider.
type Error struct {
	// Reason is the stable code.
	Reason  string
	Message string
	// Details are safe facts, such as http_status. Nil is none.
	Details map[string]any
}

func (e *Error) Error() string { return "judge: " + e.Message }

// Code is the stable code: one of the Code constants.
func (e *Error) Code() string { return e.Reason }

// retried tells what may go better the second time.
func (e *Error) retried() bool {
	return e.Reason == CodeTimeout || e.Reason == CodeRateLimit || e.Reason == CodeServerError
}

func fail(code, format string, args ...any) *Error {
	return &Error{Reason: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) with(name string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[name] = value
	return e
}

// ConfigError says what is wrong with a field of an [LLM], and what to write instead. It is a validation error:
// errors.Is(err, m3.ErrValidation).
type ConfigError struct {
	// Field is the name of the field.
	Field   string
	Message string
	// Details: field.
	Details map[string]any
}

func (e *ConfigError) Error() string { return "judge: LLM." + e.Field + " " + e.Message }

// Is makes errors.Is(err, m3.ErrValidation) true.
func (e *ConfigError) Is(target error) bool { return target == trace.ErrValidation }

// Code is "invalid_argument".
func (e *ConfigError) Code() string { return "invalid_argument" }

func misconfigured(field, format string, args ...any) error {
	return &ConfigError{Field: field, Message: fmt.Sprintf(format, args...), Details: map[string]any{"field": field}}
}
