package m3_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/trace"
)

// Every version can be pinned exactly, on every kind of server; without a pin it is the newest.
func TestVersionsOnEveryKindOfServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		server func(v string) m3.Server
	}{
		{"pipe", func(string) m3.Server { return (&peer{}).server() }},
		{"stdio", func(string) m3.Server { return fixture(t, "plain") }},
		{"gosdk", func(string) m3.Server { return gosdk.Server("sdk", sdkServer) }},
		{"handler", func(v string) m3.Server {
			return m3.HandlerServer{Handler: sdkHandler(v == "" || v == newest)}
		}},
	} {
		for _, v := range append([]string{""}, versions...) {
			t.Run(tc.name+"/"+v, func(t *testing.T) {
				t.Parallel()
				client := connect(t, newKit(t, m3.Config{}), tc.server(v), &m3.DirectOptions{Protocol: v})
				want := v
				if v == "" {
					want = newest
				}
				if got := client.Initialization(); got.ProtocolVersion != want || got.ServerName == "" {
					t.Errorf("%+v, want %s", got, want)
				}
				r, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "hi"}, nil)
				if err != nil || r.IsError || r.Text() == "" {
					t.Fatalf("%+v, %v", r, err)
				}
				view := finish(t, client)
				if view.Completeness() != trace.Complete || view.Outcome() != trace.OutcomeCompleted || view.ToolCalls().Len() != 1 {
					t.Errorf("%s, %s, %d calls: %v", view.Completeness(), view.Outcome(), view.ToolCalls().Len(), view.Limitations())
				}
				init := view.Initializations()
				if init.Len() != 1 || init.At(0).ProtocolVersion.Value != want {
					t.Errorf("%d initializations", init.Len())
				}
				err = client.Ping(t.Context(), nil)
				if err == nil {
					t.Error("a closed client pinged")
				}
			})
		}
	}
}

// A server that does not accept the pinned version is an error that names both; nothing is negotiated behind the test's back.
func TestPinIsExact(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pin, offer string }{
		{legacy5, "2024-11-05"}, {"2024-11-05", legacy5}, {newest, "2025-06-18"}, {"2025-03-26", newest},
	} {
		t.Run(tc.pin+" of "+tc.offer, func(t *testing.T) {
			t.Parallel()
			kit := newKit(t, m3.Config{})
			_, err := kit.Direct(t.Context(), (&peer{versions: []string{tc.offer}}).server(), &m3.DirectOptions{Protocol: tc.pin})
			e := wantError[*m3.ProtocolError](t, err, "protocol_error", tc.pin)
			if !strings.Contains(err.Error(), tc.offer) || e.Details["phase"] != "initialization" {
				t.Errorf("%v, details %v", err, e.Details)
			}
			all, err := kit.Store().Executions(t.Context(), nil)
			if err != nil || len(all) != 1 || all[0].Outcome != trace.OutcomeFailed {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

func TestNegotiationTakesTheNewestOfBoth(t *testing.T) {
	t.Parallel()
	for _, speaks := range [][]string{{newest}, {legacy5, "2024-11-05"}, {"2025-06-18"}, {"2025-03-26"}, {"2024-11-05"}} {
		t.Run(speaks[0], func(t *testing.T) {
			t.Parallel()
			client := connect(t, newKit(t, m3.Config{}), (&peer{versions: speaks}).server(), nil)
			if got := client.Initialization(); got.ProtocolVersion != speaks[0] {
				t.Errorf("negotiated %s", got.ProtocolVersion)
			}
		})
	}
}

// A process that dies of the probe is started again: both are in the trace. The kit remembers the era of the definition: the second client
// starts one process, and asks nothing that the server does not know.
func TestEraIsProbedOnceAndRecorded(t *testing.T) {
	t.Parallel()
	for kind, first := range map[string]int{"dies-of-probe": 2, "legacy": 1} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			kit := newKit(t, m3.Config{})
			server := fixture(t, kind)
			for i, want := range []int{first, 1} {
				client := connect(t, kit, server, nil)
				if v := client.Initialization().ProtocolVersion; v != legacy5 {
					t.Errorf("client %d speaks %s", i, v)
				}
				view := finish(t, client)
				var methods []string
				for _, m := range view.RawMessages().All() {
					if m.Verdict == "request" {
						methods = append(methods, m.Method)
						if m.Own != (m.Method == "server/discover") {
							t.Errorf("%s is marked Own: %v", m.Method, m.Own)
						}
					}
				}
				if n := view.Processes().Len(); n != want {
					t.Errorf("client %d: %d processes, want %d", i, n, want)
				}
				if probed := slices.Contains(methods, "server/discover"); probed != (i == 0) {
					t.Errorf("client %d sent %v", i, methods)
				}
			}
			if kind == "dies-of-probe" {
				other := server
				other.Args = []string{"another definition"}
				if n := finish(t, connect(t, kit, other, nil)).Processes().Len(); n != 2 {
					t.Errorf("another definition was not probed: %d processes", n)
				}
			}
		})
	}
}

// Two servers in this process look alike, and one may be old and the other new: what was learned of the one must not decide for the other.
func TestErasOfServersInProcessAreTheirOwn(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	if v := connect(t, kit, (&peer{versions: []string{legacy5}}).server(), nil).Initialization().ProtocolVersion; v != legacy5 {
		t.Errorf("the old one speaks %s", v)
	}
	if v := connect(t, kit, (&peer{}).server(), nil).Initialization().ProtocolVersion; v != newest {
		t.Errorf("the new one speaks %s", v)
	}
}

// An initialize that is answered with an error is a protocol error with the server's own words.
func TestHandshakeThatIsRefused(t *testing.T) {
	t.Parallel()
	p := &peer{handle: func(p *peer, m *message) bool {
		if m.ID != nil {
			p.fail(m, "-32000", "closed for stocktaking")
		}
		return true
	}}
	_, err := newKit(t, m3.Config{}).Direct(t.Context(), p.server(), old())
	e := wantError[*m3.ProtocolError](t, err, "protocol_error", "closed for stocktaking")
	if code, ok := e.RPCCode(); !ok || code != -32000 || e.Details["phase"] != "initialization" || e.Details["error_kind"] != "remote" {
		t.Errorf("code %d, details %v", code, e.Details)
	}
}

func TestPingIsThereInTheOldEraOnly(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	if err := connect(t, kit, (&peer{}).server(), old()).Ping(t.Context(), nil); err != nil {
		t.Errorf("ping in %s: %v", legacy5, err)
	}
	p := &peer{}
	err := connect(t, kit, p.server(), &m3.DirectOptions{Protocol: newest}).Ping(t.Context(), nil)
	e := wantError[*m3.UnsupportedError](t, err, "unsupported", newest)
	if e.Details["feature"] != "ping" || len(p.got("ping")) != 0 {
		t.Errorf("details %v, the server was sent %d pings", e.Details, len(p.got("ping")))
	}
}
