package mcp

import (
	"slices"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// MetaLogLevel is the member of a request's _meta that asks for log messages (2026-07-28). Before, there is logging/setLevel.
const MetaLogLevel = "io.modelcontextprotocol/logLevel"

// LogLevels are the levels of log messages, from the least to the most severe. It must not be changed.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// withLogLevel adds the level to every request's _meta; the legacy eras have no such member.
func (m *meta) withLogLevel(level string) *meta {
	if level == "" || len(m.members) == 0 {
		return m
	}
	m.members = trace.AppendString(appendKey(m.members, MetaLogLevel), level)
	m.keys = append(m.keys, MetaLogLevel)
	return m
}

// asksForLogs reports whether a request of the session with these members asks for log messages.
func (m *meta) asksForLogs(own map[string]any) bool {
	if level, ok := own[MetaLogLevel]; ok {
		return level != nil
	}
	return slices.Contains(m.keys, MetaLogLevel)
}

// unasked finds a log message that no request has asked for so far.
func (l *link) unasked(n *rpc.Notification) {
	if n.Method == "notifications/message" && !l.logs.Load() && Modern(l.version()) {
		l.find(trace.Finding{Code: "log-not-requested", Severity: trace.SeverityError, Sequence: n.Sequence, Offset: -1, Clause: "server/utilities/logging",
			Message: "the server sent a log message, and no request asked for any (" + MetaLogLevel + ")"})
	}
}
