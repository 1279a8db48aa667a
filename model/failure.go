package model

import (
	"cmp"
	"net/http"
)

// faultText is what a scripted error says that has no message of its own. It names no number, because some agents look for one to decide whether to ask again.
const faultText = "The script of the model fails this request."

// openAIError fills in what OpenAI says with a status.
func openAIError(status int, f Failure) Failure {
	typ, code := "invalid_request_error", ""
	switch status {
	case http.StatusUnauthorized:
		code = "invalid_api_key"
	case http.StatusForbidden:
		code = "unsupported_country_region_territory"
	case http.StatusNotFound:
		code = "model_not_found"
	case http.StatusTooManyRequests:
		typ, code = "requests", "rate_limit_exceeded"
	case http.StatusServiceUnavailable:
		typ, code = "server_error", "server_is_overloaded"
	default:
		if status >= 500 {
			typ, code = "server_error", "server_error"
		}
	}
	return filled(f, typ, code)
}

// anthropicError fills in what Anthropic says with a status.
func anthropicError(status int, f Failure) Failure {
	typ := "invalid_request_error"
	switch status {
	case http.StatusUnauthorized:
		typ = "authentication_error"
	case http.StatusForbidden:
		typ = "permission_error"
	case http.StatusNotFound:
		typ = "not_found_error"
	case http.StatusRequestEntityTooLarge:
		typ = "request_too_large"
	case http.StatusTooManyRequests:
		typ = "rate_limit_error"
	case statusOverloaded:
		typ = "overloaded_error"
	default:
		if status >= 500 {
			typ = "api_error"
		}
	}
	return filled(f, typ, "")
}

// statusOverloaded is Anthropic's own.
const statusOverloaded = 529

func filled(f Failure, typ, code string) Failure {
	f.Type, f.Code, f.Message = cmp.Or(f.Type, typ), cmp.Or(f.Code, code), cmp.Or(f.Message, faultText)
	return f
}
