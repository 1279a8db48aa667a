package mcp

import (
	"slices"
	"strings"
)

// The protocol versions that m3 speaks.
const (
	Version20260728 = "2026-07-28"
	Version20251125 = "2025-11-25"
	Version20250618 = "2025-06-18"
	Version20250326 = "2025-03-26"
	Version20241105 = "2024-11-05"
)

// newestLegacy is what an unpinned initialize asks for.
const newestLegacy = Version20251125

// Versions lists the protocol versions that m3 speaks, newest first. It must not be changed.
var Versions = []string{Version20260728, Version20251125, Version20250618, Version20250326, Version20241105}

// Known reports whether m3 speaks the protocol version.
func Known(protocol string) bool { return slices.Contains(Versions, protocol) }

// Modern reports whether the version belongs to the era without initialize, which began with 2026-07-28. Versions are dates, so
// their order is that of their text.
func Modern(protocol string) bool { return protocol >= Version20260728 }

// newestOf returns the newest version that is both in offered and accepted by ok; "" when there is none.
func newestOf(offered []string, ok func(string) bool) string {
	for _, v := range Versions {
		if ok(v) && slices.Contains(offered, v) {
			return v
		}
	}
	return ""
}

// namedVersions returns every date in text that looks like a protocol version, in the order of its first appearance. Servers that refuse a
// version with an error often name those that they do speak in its message only.
func namedVersions(text string) []string {
	var found []string
	for i := 0; i+len(Version20260728) <= len(text); i++ {
		v := text[i : i+len(Version20260728)]
		if isDate(v) && !touchesDigit(text, i) && !slices.Contains(found, v) {
			found = append(found, v)
		}
	}
	return found
}

func isDate(s string) bool {
	for i := range len(s) {
		if i == 4 || i == 7 {
			if s[i] != '-' {
				return false
			}
		} else if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// touchesDigit reports whether the date at i is a part of a longer number.
func touchesDigit(s string, i int) bool {
	end := i + len(Version20260728)
	return i > 0 && strings.IndexByte("0123456789", s[i-1]) >= 0 || end < len(s) && strings.IndexByte("0123456789", s[end]) >= 0
}

// span is the range of versions in which a method exists; an empty until means that it still does.
type span struct{ from, until string }

func (s span) has(v string) bool { return v >= s.from && (s.until == "" || v <= s.until) }

var (
	always   = span{from: Version20241105}
	legacy   = span{from: Version20241105, until: Version20251125}
	modern   = span{from: Version20260728}
	elicits  = span{from: Version20250618, until: Version20251125}
	tasksNow = span{from: Version20251125, until: Version20251125} // from 2026-07-28 on tasks are an extension
)

// methods says in which versions each method exists, by the ClientRequest, ClientNotification, ServerRequest and ServerNotification
// unions of the official schemas. From 2026-07-28 on sampling, roots and elicitation ride in results and are no methods.
var methods = map[string]span{
	"initialize":                legacy,
	"notifications/initialized": legacy,
	"server/discover":           modern,
	"ping":                      legacy,

	"tools/list":               always,
	"tools/call":               always,
	"prompts/list":             always,
	"prompts/get":              always,
	"resources/list":           always,
	"resources/templates/list": always,
	"resources/read":           always,
	"completion/complete":      always,
	"resources/subscribe":      legacy,
	"resources/unsubscribe":    legacy,
	"subscriptions/listen":     modern,
	"logging/setLevel":         legacy,

	"tasks/get":    tasksNow,
	"tasks/result": tasksNow,
	"tasks/list":   tasksNow,
	"tasks/cancel": tasksNow,

	"sampling/createMessage": legacy,
	"roots/list":             legacy,
	"elicitation/create":     elicits,

	"notifications/cancelled":                  always,
	"notifications/progress":                   always,
	"notifications/message":                    always,
	"notifications/tools/list_changed":         always,
	"notifications/prompts/list_changed":       always,
	"notifications/resources/list_changed":     always,
	"notifications/resources/updated":          always,
	"notifications/roots/list_changed":         legacy,
	"notifications/tasks/status":               tasksNow,
	"notifications/elicitation/complete":       tasksNow,
	"notifications/subscriptions/acknowledged": modern,
}

// Supports reports whether the method, in either direction, exists in the protocol version. It is false for methods and
// versions that m3 does not know.
func Supports(protocol, method string) bool {
	s, ok := methods[method]
	return ok && Known(protocol) && s.has(protocol)
}
