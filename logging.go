package m3

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/m3-go/m3/internal/mcp"
)

// LogLevel is a level of a server's log messages.
type LogLevel string

// The levels, from the least to the most severe.
const (
	LogDebug     LogLevel = "debug"
	LogInfo      LogLevel = "info"
	LogNotice    LogLevel = "notice"
	LogWarning   LogLevel = "warning"
	LogError     LogLevel = "error"
	LogCritical  LogLevel = "critical"
	LogAlert     LogLevel = "alert"
	LogEmergency LogLevel = "emergency"
)

func (l LogLevel) check(where string) error {
	if l != "" && !slices.Contains(mcp.LogLevels, string(l)) {
		return validationf("%s: %q is no log level: use one of %s", where, string(l), strings.Join(mcp.LogLevels, ", "))
	}
	return nil
}

// SetLoggingLevel asks the server for log messages of the level and above (logging/setLevel); they go to DirectOptions.Log. Protocol 2026-07-28
// asks with each request instead, by DirectOptions.LogLevel or CallOptions.LogLevel; there this is an *UnsupportedError.
func (c *Client) SetLoggingLevel(ctx context.Context, level LogLevel, opts *CallOptions) error {
	const operation = "set the logging level"
	if err := opts.refuse(operation); err != nil {
		return err
	}
	if level == "" {
		return validationf("%s: the level is empty", operation)
	}
	if err := level.check(operation); err != nil {
		return err
	}
	if c.session.Modern() {
		e := c.lacks(operation, "logging/setLevel")
		e.Message += ": set DirectOptions.LogLevel, or CallOptions.LogLevel for one call"
		return e
	}
	_, err := c.call(ctx, operation, opts.op("logging/setLevel", map[string]string{"level": string(level)}), opts.timeout())
	return err
}

// startLogging sends DirectOptions.LogLevel to a server of the legacy eras; later ones are told with each request.
func (c *Client) startLogging(ctx context.Context) error {
	if c.opts.LogLevel == "" || c.session.Modern() {
		return nil
	}
	if err := c.SetLoggingLevel(ctx, c.opts.LogLevel, nil); err != nil {
		return fmt.Errorf("DirectOptions.LogLevel: %w", err)
	}
	return nil
}

// logMeta returns the _meta of a call that asks for log messages of its own level.
func (o *CallOptions) logMeta() map[string]any {
	if o.LogLevel == "" {
		return o.Meta
	}
	meta := make(map[string]any, len(o.Meta)+1)
	meta[mcp.MetaLogLevel] = string(o.LogLevel)
	for k, v := range o.Meta {
		meta[k] = v
	}
	return meta
}

// checkLogLevel refuses a level of a single call where the version has none.
func (c *Client) checkLogLevel(operation string, o *CallOptions) error {
	if o == nil || o.LogLevel == "" {
		return nil
	}
	if err := o.LogLevel.check(operation); err != nil {
		return err
	}
	if !c.session.Modern() {
		e := c.lacks(operation, "log level of a single request")
		e.Message += ": use SetLoggingLevel"
		return e
	}
	return nil
}
