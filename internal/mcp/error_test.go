package mcp

import (
	"errors"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

func TestErrorText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ code, message, want string }{
		{"-32602", "unknown tool", "error -32602: unknown tool"},
		{"-32602", "", "error -32602 without a message"},
		{"", "what", "an error without a code: what"},
		{"", "", "an error object without code and message"},
		{"1", strings.Repeat("ä", 1000), "error 1: " + strings.Repeat("ä", 1000)},
		{"1", strings.Repeat("ä", 3_000_000), "error 1: " + strings.Repeat("ä", 1000) + "… (6000000 bytes in all)"},
	} {
		if got := ErrorText(&rpc.ErrorObject{Code: trace.JSON(tc.code), Message: tc.message}); got != tc.want {
			t.Errorf("%.80q: %.1100s", tc.message, got)
		}
	}
}

// Both failures are told when the second says something else than the first.
func TestConnectErrorOnce(t *testing.T) {
	t.Parallel()
	probe := errors.New("server/discover: the server closed its output")
	same := (&ConnectError{Stage: StageInitialize, Reason: "the server closed its output", Probe: probe}).Error()
	if same != "initialize: the server closed its output" {
		t.Error(same)
	}
	other := (&ConnectError{Stage: StageInitialize, Reason: "no answer to initialize within 3s", Probe: probe}).Error()
	if other != "initialize: no answer to initialize within 3s; before that, server/discover: the server closed its output" {
		t.Error(other)
	}
	probe = errors.New("server/discover was answered with error -1: no")
	refused := &ConnectError{Stage: StageInitialize, Reason: "the server answered initialize with error -1: no", Answer: &rpc.ErrorObject{Code: trace.JSON("-1"), Message: "no"}, Probe: probe}
	if got := refused.Error(); strings.Contains(got, "before that") {
		t.Error(got)
	}
}

// A server that refuses everything with one huge error is told once, bounded and without its secrets.
func TestHugeRefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const secret = "s3cr3t-value"
	if err := r.tape.Redactor().Add("TOKEN", secret); err != nil {
		t.Fatal(err)
	}
	// The secret stands over the end of what is shown.
	text := strings.Repeat("x", errorRunes-6) + secret + strings.Repeat("y", 3<<20)
	ce := r.refused(r.config(talk(func(m *message, say func(string, ...any)) {
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%s"}}`, m.ID, text)
	})), "initialize", "-32000", "bytes in all")
	if n := len(ce.Error()); n > 1500 || strings.Contains(ce.Error(), secret[:6]) || strings.Contains(ce.Error(), "before that") {
		t.Errorf("%d bytes: %.1200s", n, ce)
	}
	if ce.Answer == nil || len(ce.Answer.Message) != len(text) {
		t.Error("the answer itself is not whole")
	}
}
