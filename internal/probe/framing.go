package probe

import (
	"context"
	"strings"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const clauseStdio = "basic/transports: stdio, messages are delimited by newlines"

// pieces sends a proper request as exact bytes, in the pieces that cut makes of it.
func pieces(cut func(frame string) []string) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		raw, err := b.conn(ctx)
		if err != nil {
			return fired("%v", err)
		}
		id, frame := raw.Request(b.lists(), "")
		list := cut(string(frame))
		for _, p := range list[:len(list)-1] {
			if err := raw.SendFrame(ctx, &m3.RawFrame{Body: []byte(p), Exact: true}); err != nil {
				return fired("%v", err)
			}
			time.Sleep(20 * time.Millisecond) // so that the server reads the piece alone
		}
		return b.poke(ctx, raw, &m3.RawFrame{Body: []byte(list[len(list)-1]), Exact: true}, id).served(id)
	}
}

func framingProbes() []*Probe {
	return []*Probe{
		{Name: "half-line-recovery", About: "after a line that is half a message the next message is served", Clause: clauseStdio, Severity: trace.SeverityError, scope: stdioOnly,
			run: pieces(func(f string) []string { return []string{f[:len(f)/2] + "\n", f + "\n"} })},
		{Name: "pretty-printed-recovery", About: "after a message broken over lines the next message is served", Clause: clauseStdio, Severity: trace.SeverityError, scope: stdioOnly, Case: "A07",
			run: pieces(func(f string) []string {
				return []string{"{\n  \"jsonrpc\": \"2.0\",\n  \"method\": \"notifications/x-m3\"\n}\n", f + "\n"}
			})},
		{Name: "split-write", About: "a message that arrives in pieces is served", Clause: clauseStdio, Severity: trace.SeverityError, scope: stdioOnly,
			run: pieces(func(f string) []string { return []string{f[:5], f[5 : len(f)-3], f[len(f)-3:] + "\n"} })},
		{Name: "two-in-one-write", About: "two messages that arrive together are both served", Clause: clauseStdio, Severity: trace.SeverityError, scope: stdioOnly,
			run: pieces(func(f string) []string {
				return []string{`{"jsonrpc":"2.0","method":"notifications/x-m3"}` + "\n" + f + "\n"}
			})},
		{Name: "crlf", About: "a line that ends with CR LF is served", Clause: clauseStdio, Severity: trace.SeverityWarning, scope: stdioOnly, Case: "A08",
			run: pieces(func(f string) []string { return []string{f + "\r\n"} })},
		{Name: "blank-lines", About: "blank lines between messages are skipped", Clause: clauseStdio, Severity: trace.SeverityWarning, scope: stdioOnly, Case: "A08",
			run: func(ctx context.Context, b *bench) verdict {
				raw, err := b.conn(ctx)
				if err != nil {
					return fired("%v", err)
				}
				id, frame := raw.Request(b.lists(), "")
				r := b.poke(ctx, raw, &m3.RawFrame{Body: []byte("\n\n" + string(frame) + "\n"), Exact: true}, id)
				if m := r.nameless(); m != nil {
					return fired("a blank line was answered: %s", m)
				}
				return r.served(id)
			}},
		{Name: "line-separators", About: "U+2028 and U+2029 inside a message do not end it", Clause: clauseStdio, Severity: trace.SeverityError, scope: stdioOnly, Case: "A09",
			run: pieces(func(f string) []string { return []string{separated(f) + "\n"} })},
	}
}

// separated puts the separators where every server must allow text: into params.
func separated(frame string) string {
	const text = "\"example.test/m3\":\"a\u2028b\u2029c\u0085d\""
	if strings.Contains(frame, `"_meta":{`) {
		return strings.Replace(frame, `"_meta":{`, `"_meta":{`+text+",", 1)
	}
	return strings.TrimSuffix(frame, "}") + `,"params":{"_meta":{` + text + "}}}"
}
