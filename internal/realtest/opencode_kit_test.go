package realtest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/trace"
)

// TestRealOpenCodeKit: the whole way: kit, server on stdio behind its relay, the real OpenCode, a scripted model. Both tapes tell the same calls.
func TestRealOpenCodeKit(t *testing.T) {
	t.Parallel()
	result, view := twoTurns(t, opencode.New(opencode.Config{Executable: openCodeBinary(t)}), "stop")
	checkRuntime(t, view)
	frames := 0
	for _, ev := range result.Trace.Events() {
		if ev.Kind == trace.KindAgentFrame {
			frames++
		}
		if ev.Frame != nil && bytes.Contains(ev.Frame.Bytes, []byte("OPENCODE_SERVER_PASSWORD")) {
			t.Errorf("a frame has the agent's environment: %.200s", ev.Frame.Bytes)
		}
	}
	if frames < 50 {
		t.Errorf("%d frames of the agent", frames)
	}
}

func checkRuntime(t *testing.T, view trace.View) {
	t.Helper()
	r := view.Runtime()
	if r.Kind != "opencode" {
		t.Errorf("the runtime is %s", r.Kind)
	}
	for name, want := range map[string]string{"session_id": `"ses_`, "provider_id": `"m3"`, "model_id": `"scripted"`, "finish_reason": `"stop"`, "usage": `{`} {
		if got := string(r.Fields[name].Value); !strings.HasPrefix(got, want) {
			t.Errorf("the runtime's %s is %s, want %s…", name, got, want)
		}
	}
}
