package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3/trace"
)

func TestFindingLines(t *testing.T) {
	t.Parallel()
	var all []trace.Finding
	add := func(s trace.Severity, code, message string) {
		all = append(all, trace.Finding{Severity: s, Code: code, Message: message})
	}
	add(trace.SeverityNote, "ignores-eof", "it did not exit")
	for i := range 500 {
		add(trace.SeverityError, "stdout-noise", fmt.Sprintf("line %d\nand more", i))
	}
	add(trace.SeverityWarning, "content-type", strings.Repeat("long ", 1000))
	got := findingLines(all)
	want := []string{
		`finding: error stdout-noise ×500: line 0\nand more`,
		"finding: warning content-type: " + strings.Repeat("long ", 32) + "…",
		"finding: note ignores-eof: it did not exit",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
	if got := findingLines(nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func TestRPCErrorText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ code, message, want string }{
		{"-32602", "no such tool", "-32602 no such tool"},
		{"", "", "an error object without code and message"},
		{"1", strings.Repeat("ä", 3<<20), "1 " + strings.Repeat("ä", 160) + "…"},
	} {
		if got := rpcErrorText(trace.RPCError{Code: trace.JSON(c.code), Message: c.message}); got != c.want {
			t.Errorf("%.200q, want %.200q", got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		strings.Repeat("a", 160):    strings.Repeat("a", 160),
		strings.Repeat("é", 160):    strings.Repeat("é", 160),
		strings.Repeat("é", 161):    strings.Repeat("é", 160) + "…",
		strings.Repeat("a", 10_000): strings.Repeat("a", 160) + "…",
	} {
		if got := short(in); got != want {
			t.Errorf("%q", got)
		}
	}
}
