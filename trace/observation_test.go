package trace

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen is an observation without its type.
type seen struct {
	state  State
	reason Reason
	value  any
}

func look[T any](o Observation[T]) seen { return seen{o.State, o.Reason, o.Value} }

// TestStatesAndReasons shows every state and every reason (C41), each by a trace in which it occurs.
func TestStatesAndReasons(t *testing.T) {
	t.Parallel()
	usage := func(payload string) func(b *builder) Observation[int64] {
		return func(b *builder) Observation[int64] {
			b.payload(KindUsage, payload)
			return b.view().Summary().Usage.Value.InputTokens
		}
	}
	reasoning := func(payload string) func(*testing.T) seen {
		return func(t *testing.T) seen {
			b := buildAgent(t, "claude_code")
			b.payload(KindReasoning, payload)
			return look(b.view().Reasoning().At(0).Content)
		}
	}
	stderr := func(payload string) func(*testing.T) seen {
		return func(t *testing.T) seen {
			b := build(t)
			b.payload(KindProcessExited, payload)
			return look(b.view().Processes().At(0).Stderr)
		}
	}
	tests := []struct {
		name   string
		show   func(t *testing.T) seen
		state  State
		reason Reason
		value  any
	}{
		{"observed", func(t *testing.T) seen {
			b := build(t)
			b.call("1", "a", `null`)
			return look(b.view().ToolCalls().At(0).Arguments)
		}, Observed, "", JSON("null")},
		{"not emitted", func(t *testing.T) seen {
			b := build(t)
			b.request("1", "tools/call", `{"name":"a"}`)
			return look(b.view().ToolCalls().At(0).Arguments)
		}, NotEmitted, "", JSON(nil)},
		{"not emitted by the provider", func(t *testing.T) seen {
			return look(buildAgent(t, "codex").view().Summary().Usage)
		}, NotEmitted, ReasonProviderDidNotEmit, Usage{}},
		{"unsupported by the harness", func(t *testing.T) seen {
			return look(buildAgent(t, "acp").view().Summary().Usage)
		}, Unsupported, ReasonHarnessUnsupported, Usage{}},
		{"unsupported by the transport", func(t *testing.T) seen {
			b := build(t)
			b.request("1", "ping", `{}`)
			return look(b.view().Protocol().At(0).HTTP)
		}, Unsupported, ReasonTransportNotApplicable, HTTPInfo{}},
		{"unavailable, capture disabled", stderr(`{"stderr":{"state":"unavailable","reason":"capture_disabled"}}`), Unavailable, ReasonCaptureDisabled, ""},
		{"unavailable, capture failed", func(t *testing.T) seen {
			b := build(t)
			b.event(Event{Kind: KindMCPRequest, RPCID: "1", Method: "tools/call", Frame: &Frame{Direction: ClientToServer, Framing: FramingLine, Size: 40, SHA256: "00", OutOfLine: true}})
			return look(b.view().ToolCalls().At(0).Arguments)
		}, Unavailable, ReasonCaptureFailed, JSON(nil)},
		{"unavailable, correlation", func(t *testing.T) seen {
			b := buildAgent(t, "codex")
			b.payload(KindToolCallRequested, `{"call_id":"x","tool":{"state":"observed","value":"add"}}`)
			return look(b.view().ToolCalls().At(0).RPCID)
		}, Unavailable, ReasonCorrelationUnavailable, RPCID("")},
		{"unavailable, malformed source", func(t *testing.T) seen {
			b := build(t)
			b.request("1", "tools/call", `{"name":5}`)
			return look(b.view().ToolCalls().At(0).Tool)
		}, Unavailable, ReasonMalformedSource, ""},
		{"provider hidden", reasoning(`{"content":{"state":"provider_hidden","reason":"provider_hidden"}}`), ProviderHidden, ReasonProviderHidden, []Content(nil)},
		{"encrypted", reasoning(`{"content":{"state":"encrypted","reason":"provider_encrypted"}}`), Encrypted, ReasonProviderEncrypted, []Content(nil)},
		{"truncated preview", func(t *testing.T) seen {
			b := build(t)
			b.frame(KindMCPMalformed, ServerToClient, "", "", strings.Repeat("a", PreviewBytes))
			return look(b.view().RawMessages().At(0).Preview)
		}, Truncated, ReasonEvidenceTruncated, strings.Repeat("a", PreviewBytes)},
		{"truncated field", stderr(`{"stderr":{"state":"truncated","reason":"evidence_truncated","value":"end"}}`), Truncated, ReasonEvidenceTruncated, "end"},
		{"redacted", func(t *testing.T) seen {
			b := build(t)
			frame := `{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"token":"[REDACTED]"}}}`
			b.event(Event{Kind: KindMCPRequest, RPCID: "1", Method: "tools/call", Frame: &Frame{Direction: ClientToServer, Framing: FramingLine, Bytes: []byte(frame)},
				Redactions: []Redaction{{Offset: int64(strings.Index(frame, "[RED")), Length: 10, OriginalOffset: 73, OriginalLength: 9}}})
			return look(b.view().ToolCalls().At(0).Arguments)
		}, Redacted, ReasonRedactedByPolicy, JSON(`{"token":"[REDACTED]"}`)},
		{"negative usage", func(t *testing.T) seen {
			return look(usage(`{"input_tokens":{"state":"observed","value":-1}}`)(buildAgent(t, "codex")))
		}, Unavailable, ReasonMalformedSource, int64(0)},
		{"fractional usage", func(t *testing.T) seen {
			return look(usage(`{"input_tokens":{"state":"observed","value":1.5}}`)(buildAgent(t, "codex")))
		}, Unavailable, ReasonMalformedSource, int64(0)},
		{"usage in text", func(t *testing.T) seen {
			return look(usage(`{"input_tokens":{"state":"observed","value":"NaN"}}`)(buildAgent(t, "codex")))
		}, Unavailable, ReasonMalformedSource, int64(0)},
		{"usage that is no observation", func(t *testing.T) seen { return look(usage(`{"input_tokens":5}`)(buildAgent(t, "codex"))) },
			Unavailable, ReasonMalformedSource, int64(0)},
		{"usage observed null", func(t *testing.T) seen {
			return look(usage(`{"input_tokens":{"state":"observed","value":null}}`)(buildAgent(t, "codex")))
		}, Unavailable, ReasonMalformedSource, int64(0)},
		{"usage observed zero", func(t *testing.T) seen {
			return look(usage(`{"input_tokens":{"state":"observed"}}`)(buildAgent(t, "codex")))
		}, Observed, "", int64(0)},
		{"observed with a reason", func(t *testing.T) seen {
			return look(usage(`{"input_tokens":{"state":"observed","value":1,"reason":"capture_failed"}}`)(buildAgent(t, "codex")))
		}, Unavailable, ReasonMalformedSource, int64(0)},
		{"hidden with a value", reasoning(`{"content":{"state":"provider_hidden","reason":"provider_hidden","value":[]}}`), Unavailable, ReasonMalformedSource, []Content(nil)},
		{"an unknown state", reasoning(`{"content":{"state":"guessed"}}`), Unavailable, ReasonMalformedSource, []Content(nil)},
	}
	states, reasons := map[State]bool{}, map[Reason]bool{}
	for _, tt := range tests {
		states[tt.state], reasons[tt.reason] = true, true
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(seen{tt.state, tt.reason, tt.value}, tt.show(t), cmp.AllowUnexported(seen{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if len(states) != len(stateNames) || len(reasons) != 12 {
		t.Errorf("%d states and %d reasons shown", len(states), len(reasons))
	}
}

func TestMalformedIDs(t *testing.T) {
	t.Parallel()
	long, control := strings.Repeat("é", maxID), "a\tb"
	for value, want := range map[string]State{"m1": Observed, long: Observed, long + "e": Unavailable, control: Unavailable, "a\x7f": Unavailable} {
		b := buildAgent(t, "pi")
		text, _ := json.Marshal(value)
		b.payload(KindAssistantContent, `{"message_id":{"state":"observed","value":`+string(text)+`},"content":[{"type":"text","text":"tabs\tand\nlines stay"}]}`)
		m := b.view().Messages().At(0)
		if m.MessageID.State != want {
			t.Errorf("%.20q: %s, want %s", value, m.MessageID.State, want)
		}
		if m.Role != "assistant" || len(m.Content) != 1 || m.Content[0].Text != "tabs\tand\nlines stay" {
			t.Errorf("the rest of the message is lost: %+v", m)
		}
	}
}

func TestMalformedPayloads(t *testing.T) {
	t.Parallel()
	b := buildAgent(t, "pi")
	b.payload(KindAgentMessage, `{"role":"wizard","content":[]}`)
	b.payload(KindAgentMessage, `{"role":"user","content":"text"}`)
	b.payload(KindAgentMessage, `[1]`)
	b.payload(KindAgentMessage, `{"role":"user"}`)
	b.payload(KindUsage, `{"cost":{"state":"observed","value":1e999},"currency":{"state":"observed","value":"USD"}}`)
	v := b.view()
	for i, want := range []int{1, 1, 1, 0} {
		if m := v.Messages().At(i); len(m.Limitations) != want {
			t.Errorf("message %d: limitations %v", i, m.Limitations)
		}
	}
	if u := v.Usage().At(0); u.Cost.Reason != ReasonMalformedSource || u.Currency != Observe("USD") || u.OutputTokens.State != NotEmitted {
		t.Errorf("usage %+v", u)
	}
	if believable(math.NaN(), "cost") || believable(-0.5, "cost") || !believable(0.0, "cost") {
		t.Error("costs are not checked")
	}
}

func TestAgentEntries(t *testing.T) {
	t.Parallel()
	b := buildAgent(t, "codex")
	b.payload(KindHarnessResolved, `{"runtime":{"model_id":{"state":"observed","value":"gpt"},"sandbox":{"state":"unsupported","reason":"harness_unsupported"}}}`)
	b.payload(KindTurnCreated, `{"state":"running"}`)
	b.payload(KindToolCallRequested, `{"call_id":"k1","server":{"state":"observed","value":"shipping"},"tool":{"state":"observed","value":"quote"},"arguments":{"state":"observed","value":{"kg":2}}}`)
	b.event(Event{Kind: KindPermissionRequest, RPCID: "9", Payload: JSON(`{"request":{"state":"observed","value":{"ask":1}}}`)})
	b.event(Event{Kind: KindPermissionResponse, RPCID: "9", Payload: JSON(`{"response":{"state":"observed","value":{"ok":true}}}`)})
	b.payload(KindToolResultReceived, `{"call_id":"k1","result":{"state":"observed","value":{"content":[{"type":"text","text":"12"}]}},"status":"success"}`)
	b.payload(KindToolCallRequested, `{"call_id":"k2","tool":{"state":"observed","value":"quote"}}`)
	b.payload(KindTerminal, `{"request":{"state":"observed","value":"ls"},"status":"failed"}`)
	b.payload(KindWorkspaceChanged, `{"change":{"state":"observed","value":{"added":["a"]}}}`)
	b.payload(KindArtifactRecorded, `{"name":"a.txt","media_type":"text/plain","sha256":"00","size_bytes":3}`)
	b.payload(KindProviderEvent, `{"provider":"openai","category":"stream","data":{"state":"observed","value":{}}}`)
	b.event(Event{Kind: KindElicitationRequest, RPCID: "4", Payload: JSON(`{"request_key":"address","mode":"form","round_index":1,"message":{"state":"observed","value":"Where?"}}`)})
	b.event(Event{Kind: KindElicitationResponse, RPCID: "4", Payload: JSON(`{"action":"accept","content":{"state":"observed","value":{}}}`)})
	b.payload(KindUsage, `{"input_tokens":{"state":"observed","value":1}}`)
	b.payload(KindUsage, `{"input_tokens":{"state":"observed","value":5}}`)
	v := b.view()

	if v.ToolCalls().Len() != 2 {
		t.Fatalf("%d calls", v.ToolCalls().Len())
	}
	c := v.ToolCalls().At(0)
	if c.Correlation != ReportedOnly || c.CallID != "k1" || c.ToolStatus != ToolSuccess || c.Result.Value.Text() != "12" || c.Tool != Observe("quote") ||
		c.SequenceEnd != 6 || string(c.Reported.Value.Arguments.Value) != `{"kg":2}` || c.Wire.Reason != ReasonCorrelationUnavailable {
		t.Errorf("call %+v", c)
	}
	if c := v.ToolCalls().At(1); c.ToolStatus != ToolIncomplete || c.Result.State != NotEmitted {
		t.Errorf("open call %+v", c)
	}
	if v.Interactions().Len() != 2 {
		t.Fatalf("%d interactions", v.Interactions().Len())
	}
	if p := v.Interactions().At(0); p.InteractionKind != "permission" || string(p.Request.Value) != `{"ask":1}` || string(p.Response.Value) != `{"ok":true}` || p.Status != StatusCompleted {
		t.Errorf("permission %+v", p)
	}
	if p := v.Interactions().At(1); p.InteractionKind != "terminal" || p.Status != StatusFailed {
		t.Errorf("terminal %+v", p)
	}
	if w := v.Workspace().At(0); string(w.Change.Value) != `{"added":["a"]}` {
		t.Errorf("workspace %+v", w)
	}
	if a := v.Artifacts().At(0); a.Name != "a.txt" || a.Size != 3 {
		t.Errorf("artifact %+v", a)
	}
	if p := v.Provider().At(0); p.Provider != "openai" || p.Category != "stream" {
		t.Errorf("provider %+v", p)
	}
	if e := v.Elicitations().At(0); v.Elicitations().Len() != 1 || e.RequestKey != "address" || e.Action != ActionAccept || e.Message != Observe("Where?") || !e.Content.OK() {
		t.Errorf("elicitation %+v", e)
	}
	s := v.Summary()
	if s.Usage.Value.InputTokens != Observe(int64(5)) || s.TurnCount != 1 || v.Usage().Len() != 2 {
		t.Errorf("usage is not the latest: %+v", s)
	}
	rt := v.Runtime()
	if rt.Kind != "codex" || string(rt.Fields["model_id"].Value) != `"gpt"` || rt.Fields["sandbox"].Reason != ReasonHarnessUnsupported {
		t.Errorf("runtime %+v", rt)
	}
	var decoded map[string]any
	if err := json.Unmarshal([]byte(asJSON(t, v)), &decoded); err != nil {
		t.Error(err)
	}
}
