package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// bubble runs fn in a synctest bubble, where the waits of a probe cost nothing.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

var legacyVersions = Versions[1:]

func TestPinnedLegacyVersions(t *testing.T) {
	t.Parallel()
	for _, version := range legacyVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cfg := r.config(legacyServer(speaks(legacyVersions...), nil))
			cfg.Protocol = version
			s := r.connect(cfg)
			if s.Protocol() != version || s.Modern() || !s.Info().Legacy {
				t.Errorf("protocol %s, modern %v", s.Protocol(), s.Modern())
			}
			if d := cmp.Diff([]string{"initialize", "notifications/initialized"}, r.sent()); d != "" {
				t.Errorf("a pin was probed:\n%s", d)
			}
			r.noFindings()
		})
	}
}

func TestUnpinnedModern(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(modernServer(nil)))
	if s.Protocol() != Version20260728 || !s.Modern() {
		t.Errorf("protocol %s", s.Protocol())
	}
	if d := cmp.Diff([]string{"server/discover"}, r.sent()); d != "" {
		t.Error(d)
	}
	if i := s.Info(); !i.ServerKnown || i.ServerName != "byte-server" || i.ServerVersion != "0" || i.Capabilities.String() != `{"tools":{}}` {
		t.Errorf("info %+v", i)
	}
	r.noFindings()
}

func TestInitializedEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(legacyServer(speaks(legacyVersions...), nil))
	cfg.Protocol = Version20250618
	r.connect(cfg)
	events := r.all()
	i := slices.IndexFunc(events, func(ev trace.Event) bool { return ev.Kind == trace.KindMCPInitialized })
	if i < 0 {
		t.Fatal("no mcp.initialized event")
	}
	var e trace.InitializationEntry
	if err := events[i].Payload.Decode(&e); err != nil {
		t.Fatal(err)
	}
	want := trace.InitializationEntry{
		ProtocolVersion: trace.Observe(Version20250618), ServerName: trace.Observe("byte-server"), ServerVersion: trace.Observe("0"),
		Instructions: trace.Absent[string](trace.NotEmitted, trace.ReasonProviderDidNotEmit), Capabilities: trace.Observe(trace.JSON(`{"tools":{}}`)),
	}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
	if ev := events[i]; ev.ConnectionID != "c1" || ev.Server != "s" || ev.Phase != trace.PhaseInitialization {
		t.Errorf("event %+v", ev)
	}
}

// W-C11: every error that is not of the modern era falls back, on the same connection, because it was answered cleanly.
func TestWrongErrorOnDiscover(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"-32601", "-32602", "-32600", "-32001", "0", "-32602.5", `"E_INIT"`} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			next := legacyServer(speaks(legacyVersions...), nil)
			s := r.connect(r.config(func(in io.Reader, out io.WriteCloser) {
				first := make([]byte, 1)
				var line []byte
				for first[0] != '\n' {
					if _, err := in.Read(first); err != nil {
						return
					}
					line = append(line, first[0])
				}
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"initialize first"}}`+"\n", member(line, "id"), code)
				next(in, out)
			}))
			if s.Protocol() != Version20251125 || r.dialed() != 1 {
				t.Errorf("protocol %s after %d dials", s.Protocol(), r.dialed())
			}
		})
	}
}

// A server that says nothing to server/discover gets 3 s, then a fresh connection with initialize.
func TestSilentOnDiscover(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		began := time.Now()
		s := r.connect(r.config(talk(func(*message, func(string, ...any)) {}), legacyServer(speaks(legacyVersions...), nil)))
		if s.Protocol() != Version20251125 || r.dialed() != 2 || s.Connection() != "c2" {
			t.Errorf("protocol %s after %d dials on %s", s.Protocol(), r.dialed(), s.Connection())
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("the probe waited %s, want 3s", d)
		}
		if d := cmp.Diff([]string{"server/discover", "initialize", "notifications/initialized"}, r.sent()); d != "" {
			t.Error(d)
		}
		if !r.messages()[0].event.Own {
			t.Error("the probe is not marked as m3's own")
		}
	})
}

// W-C10: a server that dies of server/discover is started again, and both connections are in the trace.
func TestExitsOnDiscover(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dies := func(in io.Reader, out io.WriteCloser) {
		_, _ = in.Read(make([]byte, 4096))
		fmt.Fprintln(out, `Error: ExpectedInitializeRequest(Some(Request))`)
	}
	s := r.connect(r.config(dies, legacyServer(speaks(legacyVersions...), nil)))
	if s.Protocol() != Version20251125 || r.dialed() != 2 {
		t.Errorf("protocol %s after %d dials", s.Protocol(), r.dialed())
	}
	seen := map[trace.ConnectionID]bool{}
	for _, ev := range r.all() {
		if ev.Frame != nil {
			seen[ev.ConnectionID] = true
		}
	}
	if !seen["c1"] || !seen["c2"] {
		t.Errorf("connections with frames in the trace: %v", seen)
	}
}

// discoverError is a server that answers server/discover with an error and everything else as a legacy server.
func discoverError(object string) server {
	old := legacyServer(speaks(legacyVersions...), nil)
	return func(in io.Reader, out io.WriteCloser) {
		old(in, replacing{out, `{"code":-32601,"message":"Method not found"}`, object})
	}
}

// replacing replaces a part of what is written.
type replacing struct {
	io.WriteCloser
	old, new string
}

func (r replacing) Write(b []byte) (int, error) {
	if _, err := io.WriteString(r.WriteCloser, strings.Replace(string(b), r.old, r.new, 1)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func TestUnsupportedVersionChooses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(discoverError(`{"code":-32022,"message":"no","data":{"requested":"2026-07-28","supported":["2099-01-01","2025-03-26","2025-06-18"]}}`)))
	if s.Protocol() != Version20250618 || r.dialed() != 1 {
		t.Errorf("protocol %s after %d dials", s.Protocol(), r.dialed())
	}
}

func TestUnsupportedVersionWithoutCommon(t *testing.T) {
	t.Parallel()
	for _, pin := range []string{"", Version20260728} {
		r := newRig(t)
		cfg := r.config(discoverError(`{"code":-32022,"message":"no","data":{"requested":"2026-07-28","supported":["2099-01-01"]}}`))
		cfg.Protocol = pin
		ce := r.refused(cfg, "2026-07-28", "2099-01-01")
		if !errors.Is(ce, ErrVersion) || ce.Stage != StageDiscover || ce.Answer == nil {
			t.Errorf("pin %q: %+v", pin, ce)
		}
		if slices.Contains(r.sent(), "initialize") {
			t.Error("a modern server was asked to initialize")
		}
	}
}

// A server that refuses the version that it lists as supported is asked once more, with a pin or without, and no third time.
func TestRefusedVersionIsListed(t *testing.T) {
	t.Parallel()
	for _, pin := range []string{"", Version20260728} {
		for _, refusals := range []int{1, 2} {
			t.Run(fmt.Sprintf("pin %q, %d refusals", pin, refusals), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				asked := 0
				cfg := r.config(talk(func(m *message, say func(string, ...any)) {
					if asked++; asked <= refusals {
						say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"requested":"2026-07-28","supported":["2026-07-28"]}}}`, m.ID)
						return
					}
					say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}}`, m.ID)
				}))
				cfg.Protocol = pin
				if refusals == 1 {
					if s := r.connect(cfg); s.Protocol() != Version20260728 {
						t.Errorf("protocol %s", s.Protocol())
					}
				} else {
					r.refused(cfg, "asked for protocol 2026-07-28, but the server refused it although it offers 2026-07-28")
				}
				if d := cmp.Diff([]string{"server/discover", "server/discover"}, r.sent()); d != "" {
					t.Error(d)
				}
				if f := r.finding("refused-version-listed"); f.Sequence != r.messages()[1].event.Sequence {
					t.Errorf("the finding is about event %d, not about the refusal", f.Sequence)
				}
			})
		}
	}
}

// A pin is never traded for another version: not for a legacy server, and not for a modern one that lists others.
func TestModernPinRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(legacyServer(speaks(Version20250618), nil))
	cfg.Protocol = Version20260728
	if ce := r.refused(cfg, "2026-07-28", "2025-06-18", "Method not found"); !errors.Is(ce, ErrVersion) || ce.Protocol != Version20260728 {
		t.Errorf("%+v", ce)
	}

	r = newRig(t)
	cfg = r.config(talk(func(m *message, say func(string, ...any)) {
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2027-01-01"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}}`, m.ID)
	}))
	cfg.Protocol = Version20260728
	r.refused(cfg, "2026-07-28", "2027-01-01")
}

func TestDiscoverListsOnlyLegacy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := legacyServer(speaks(legacyVersions...), nil)
	s := r.connect(r.config(func(in io.Reader, out io.WriteCloser) {
		old(in, replacing{out, `"error":{"code":-32601,"message":"Method not found"}`, `"result":{"supportedVersions":["2025-03-26"],"capabilities":{}}`})
	}))
	if s.Protocol() != Version20250326 || r.dialed() != 1 {
		t.Errorf("protocol %s", s.Protocol())
	}
}

func TestDiscoverIncomplete(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(talk(func(m *message, say func(string, ...any)) {
		say(`{"jsonrpc":"2.0","id":%s,"result":{"ttlMs":"1"}}`, m.ID)
	})))
	if s.Protocol() != Version20260728 || s.Info().ServerKnown {
		t.Errorf("%+v", s.Info())
	}
	if f := r.finding("discover-result-incomplete"); !strings.HasSuffix(f.Message, "lacks supportedVersions, capabilities, resultType, cacheScope") {
		t.Error(f.Message)
	}
	if f := r.finding("discover-result-invalid"); !strings.Contains(f.Message, "ttlMs") {
		t.Error(f.Message)
	}
}

// W-C02: a server that always answers its latest version is fine without a pin, and an error with one.
func TestAlwaysLatest(t *testing.T) {
	t.Parallel()
	latest := func(string) string { return Version20251125 }
	r := newRig(t)
	cfg := r.config(legacyServer(latest, nil))
	cfg.Protocol = Version20241105
	ce := r.refused(cfg, Version20241105, Version20251125)
	if !errors.Is(ce, ErrVersion) || !slices.Equal(ce.Offered, []string{Version20251125}) || ce.Stage != StageInitialize {
		t.Errorf("%+v", ce)
	}
	r.finding("version-not-accepted")

	r = newRig(t)
	if s := r.connect(r.config(legacyServer(latest, nil))); s.Protocol() != Version20251125 {
		t.Error(s.Protocol())
	}
	r.noFindings()
}

// W-C05 is a client's defect: without a pin every known counter-offer is taken.
func TestCounterOffer(t *testing.T) {
	t.Parallel()
	for _, version := range legacyVersions {
		r := newRig(t)
		cfg := r.config(legacyServer(speaks(version), nil))
		cfg.Legacy = true
		if s := r.connect(cfg); s.Protocol() != version {
			t.Errorf("%s, want %s", s.Protocol(), version)
		}
		if slices.Contains(r.sent(), "server/discover") {
			t.Error("a server known to be legacy was probed")
		}
	}
}

func TestUnknownCounterOffer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ce := r.refused(r.config(legacyServer(speaks("9999-01-01"), nil)), "9999-01-01", Version20251125, "server/discover was answered with error -32601")
	if ce.Probe == nil {
		t.Error("the failed probe is not told")
	}
	r.finding("modern-version-in-initialize")
}

// W-C01: a server that echoes any version connects in each: nothing it said was wrong.
func TestEchoesAnyVersion(t *testing.T) {
	t.Parallel()
	for _, version := range append([]string{""}, legacyVersions...) {
		r := newRig(t)
		cfg := r.config(legacyServer(func(asked string) string { return asked }, nil))
		cfg.Protocol = version
		want := version
		if want == "" {
			want = Version20251125
		}
		if s := r.connect(cfg); s.Protocol() != want {
			t.Errorf("%s, want %s", s.Protocol(), want)
		}
	}
}

// W-C04: a server that refuses the version with an error instead of a counter-offer.
func TestErrorInsteadOfNegotiation(t *testing.T) {
	t.Parallel()
	picky := func() server {
		return talk(func(m *message, say func(string, ...any)) {
			switch {
			case m.Method == "initialize" && strings.Contains(string(m.Params), `"2024-11-05"`):
				say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{},%s}}`, m.ID, serverInfo)
			case m.ID != nil:
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unsupported protocol version: supported are 2024-11-05"}}`, m.ID)
			}
		})
	}
	r := newRig(t)
	if s := r.connect(r.config(picky())); s.Protocol() != Version20241105 || r.dialed() != 1 {
		t.Errorf("protocol %s after %d dials", s.Protocol(), r.dialed())
	}
	r.finding("error-instead-of-negotiation")

	r = newRig(t)
	cfg := r.config(picky())
	cfg.Protocol = Version20250618
	if ce := r.refused(cfg, Version20250618, Version20241105); !errors.Is(ce, ErrVersion) || ce.Answer == nil {
		t.Errorf("%+v", ce)
	}
}

func TestInitializeError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(talk(func(m *message, say func(string, ...any)) {
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"database is down"}}`, m.ID)
	}))
	cfg.Protocol = Version20250618
	if ce := r.refused(cfg, "initialize", "-32603", "database is down"); ce.Answer == nil || errors.Is(ce, ErrVersion) {
		t.Errorf("%+v", ce)
	}
}

// W-B10: an empty result names each missing member in one finding, and the session goes on.
func TestEmptyInitResult(t *testing.T) {
	t.Parallel()
	for _, pin := range []string{"", Version20250326} {
		r := newRig(t)
		cfg := r.config(talk(func(m *message, say func(string, ...any)) {
			switch m.Method {
			case "server/discover":
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
			case "initialize", "ping":
				say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
		}))
		cfg.Protocol = pin
		s := r.connect(cfg)
		f := r.finding("init-result-incomplete")
		if !strings.HasSuffix(f.Message, "lacks protocolVersion, capabilities, serverInfo") || f.Severity != trace.SeverityError || f.Sequence < 0 {
			t.Errorf("%+v", f)
		}
		if resp, err := s.Do(t.Context(), &Op{Method: "ping"}); err != nil || resp.Error != nil {
			t.Errorf("%+v, %v", resp, err)
		}
	}
}

func TestInvalidInitResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(talk(func(m *message, say func(string, ...any)) {
		if m.ID != nil {
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":5,"capabilities":[],"serverInfo":{"name":"x"},"instructions":{}}}`, m.ID)
		}
	}))
	cfg.Protocol = Version20250618
	s := r.connect(cfg)
	if f := r.finding("init-result-incomplete"); !strings.HasSuffix(f.Message, "lacks serverInfo.version") {
		t.Error(f.Message)
	}
	if f := r.finding("init-result-invalid"); !strings.HasSuffix(f.Message, "protocolVersion, capabilities, instructions") {
		t.Error(f.Message)
	}
	if s.Protocol() != Version20250618 || s.Info().ServerName != "x" {
		t.Errorf("%+v", s.Info())
	}
}

// A banner, and noise between the frames, costs findings, never the session.
func TestBanner(t *testing.T) {
	t.Parallel()
	for _, pin := range []string{"", Version20250618, Version20260728} {
		r := newRig(t)
		old := legacyServer(speaks(legacyVersions...), nil)
		if pin == Version20260728 {
			old = modernServer(nil)
		}
		cfg := r.config(func(in io.Reader, out io.WriteCloser) {
			fmt.Fprintf(out, "✅ Foo MCP Server started\n")
			old(in, out)
		})
		cfg.Protocol = pin
		r.connect(cfg)
		if r.dialed() != 1 || len(r.tape.Findings()) != 1 {
			t.Errorf("pin %q: %d dials, findings %v", pin, r.dialed(), r.codes())
		}
	}
}

func TestUnknownPin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(legacyServer(speaks(legacyVersions...), nil))
	cfg.Protocol = "2025-01-01"
	if ce := r.refused(cfg, "2025-01-01", Version20260728, Version20241105); !errors.Is(ce, ErrVersion) || ce.Stage != StageConfig {
		t.Errorf("%+v", ce)
	}
	if r.dialed() != 0 {
		t.Error("a server was started for a version that m3 does not speak")
	}
}

func TestDialError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config()
	broken := errors.New("no such command: frobnicate")
	cfg.Dial = func(context.Context, wire.Handler) (trace.ConnectionID, wire.Transport, error) {
		return "", nil, broken
	}
	if ce := r.refused(cfg, "frobnicate"); !errors.Is(ce, broken) || ce.Stage != StageDial {
		t.Errorf("%+v", ce)
	}
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pin   string
		words []string
	}{
		{Version20250618, []string{"no answer to initialize within 30s"}},
		{Version20260728, []string{"no answer to server/discover within 30s"}},
		{"", []string{"no answer to initialize within 27s", "no answer to server/discover within 3s"}},
	} {
		t.Run(tc.pin, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				cfg := r.config(talk(func(*message, func(string, ...any)) {}))
				cfg.Protocol = tc.pin
				ce := r.refused(cfg, tc.words...)
				var call *rpc.CallError
				if !errors.As(ce, &call) || call.Kind != rpc.KindTimeout {
					t.Errorf("cause %v", ce.Err)
				}
				if slices.Contains(r.sent(), "notifications/cancelled") {
					t.Error("the set-up was cancelled on the wire")
				}
			})
		})
	}
}

func TestConnectCancelled(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		cfg := r.config(talk(func(*message, func(string, ...any)) {}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := Connect(ctx, cfg)
		if err == nil || !strings.Contains(err.Error(), "cancelled after waiting 1s for the answer to server/discover") || r.dialed() != 1 {
			t.Errorf("%v after %d dials", err, r.dialed())
		}
	})
}

// A server that ends at once is told as that, for each try.
func TestServerExitsAtOnce(t *testing.T) {
	t.Parallel()
	for pin, dials := range map[string]int{"": 2, Version20250618: 1, Version20260728: 1} {
		r := newRig(t)
		cfg := r.config(func(io.Reader, io.WriteCloser) {})
		cfg.Protocol = pin
		ce := r.refused(cfg)
		if strings.Contains(ce.Error(), "deadline") || r.dialed() != dials {
			t.Errorf("pin %q: %v after %d dials", pin, ce, r.dialed())
		}
		t.Log(ce)
	}
}

// When the fresh connection after a probe cannot be opened, both failures are told.
func TestSecondDialFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(func(io.Reader, io.WriteCloser) {})
	first := cfg.Dial
	cfg.Dial = func(ctx context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error) {
		if r.dialed() > 0 {
			return "", nil, errors.New("the executable has gone")
		}
		return first(ctx, h)
	}
	if ce := r.refused(cfg, "the executable has gone", "server/discover"); ce.Stage != StageDial || ce.Probe == nil {
		t.Errorf("%+v", ce)
	}
}

func BenchmarkDo(b *testing.B) {
	for name, version := range map[string]string{"legacy": Version20251125, "modern": Version20260728} {
		b.Run(name, func(b *testing.B) {
			r := &rig{}
			r.tape = evidence.NewTape("x", nowhere{}, evidence.NewRedactor(nil), nil)
			cfg := r.config(func(in io.Reader, out io.WriteCloser) { answerAll(in, out, version) })
			cfg.Protocol = version
			s, err := Connect(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			op := &Op{Method: "tools/call", Params: &Target{Name: "echo", Arguments: trace.JSON(`{"text":"hello"}`)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Do(b.Context(), op); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) AppendEvent(int64, trace.Kind, []byte) error { return nil }
func (nowhere) PutBlob(string, []byte) error                { return nil }

// answerAll is a server that spends nothing on what it is asked.
func answerAll(in io.Reader, out io.Writer, version string) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		id := member(lines.Bytes(), "id")
		if id == nil {
			continue
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"supportedVersions":["2026-07-28"],"content":[{"type":"text","text":"hello"}],"resultType":"complete"}}`+"\n", id, version)
	}
}
