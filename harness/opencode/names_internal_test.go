package opencode

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/m3-go/m3/harness"
)

func endpoints(aliases ...string) (out []harness.Endpoint) {
	for _, a := range aliases {
		out = append(out, harness.Endpoint{Name: a})
	}
	return out
}

// TestKeys: an alias is the server's key, unless a name could then be read as another server's tool, or as one of OpenCode's own.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ aliases, want []string }{
		{[]string{"calc"}, []string{"calc"}},
		{[]string{"calc", "calculator"}, []string{"calc", "calculator"}},
		{[]string{"a_b", "a"}, []string{"a-b", "a"}},
		{[]string{"a", "a_b", "a-b"}, []string{"a", "a-b-2", "a-b"}},
		{[]string{"a", "a_b", "a_b_c"}, []string{"a", "a-b", "a-b-c"}},
		{[]string{"apply", "doom", "plan"}, []string{"apply-2", "doom-2", "plan-2"}},
	} {
		n, bad := newNames(endpoints(tc.aliases...), harness.Tools{All: true})
		if bad != nil {
			t.Fatal(bad)
		}
		var got []string
		for _, a := range tc.aliases {
			got = append(got, n.keys[a])
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v get %v, want %v", tc.aliases, got, tc.want)
		}
	}
}

// TestNamesRoundTrip: whatever the aliases and the tools, the name of an allowed tool is read as that tool.
func TestNamesRoundTrip(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from string) string {
		b := make([]byte, 1+random.IntN(4))
		for i := range b {
			b[i] = from[random.IntN(len(from))]
		}
		return string(b)
	}
	for range 2000 {
		allowed := map[string][]string{}
		for range 1 + random.IntN(5) {
			alias := pick("ab_-")
			for range 3 {
				if tool := pick("ab_."); !slices.ContainsFunc(allowed[alias], func(o string) bool { return mangled(o) == mangled(tool) }) {
					allowed[alias] = append(allowed[alias], tool)
				}
			}
		}
		var aliases []string
		for alias := range allowed {
			aliases = append(aliases, alias)
		}
		n, bad := newNames(endpoints(aliases...), harness.Tools{Allowed: allowed})
		if bad != nil {
			t.Fatal(bad)
		}
		names := map[string]bool{}
		for alias, tools := range allowed {
			for _, tool := range tools {
				name := n.name(alias, tool)
				s, own, ours := n.read(name)
				if !ours || s.Value != alias || own.Value != tool || names[name] {
					t.Fatalf("%v: %s:%s is %s, which is read as %s:%s", allowed, alias, tool, name, s.Value, own.Value)
				}
				names[name] = true
			}
		}
	}
}

// TestRead: what the name does not tell is not told.
func TestRead(t *testing.T) {
	t.Parallel()
	n, _ := newNames(endpoints("calc", "my-srv"), harness.Tools{All: true})
	for name, want := range map[string]string{"calc_add": "calc:add", "my-srv_x": "my-srv:x", "calc_get_sum": "calc:", "bash": "", "calc_": "", "calc": "", "other_x": ""} {
		s, tool, ours := n.read(name)
		got := ""
		if ours {
			got = s.Value + ":" + tool.Value
		}
		if got != want {
			t.Errorf("%s is read as %q, want %q", name, got, want)
		}
	}
}

// TestEventReader: events in pieces of any size, with comments, several lines of data and both line ends; one that was cut is none.
func TestEventReader(t *testing.T) {
	t.Parallel()
	in := "data: one\n\n: comment\n\ndata: two\r\ndata:more\r\n\r\nevent: x\nid: 3\ndata: three\n\ndata: cut"
	e := &eventReader{r: bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(in)), 16)}
	var got, raw []string
	for {
		r, d, err := e.next()
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the end is %v", err)
			}
			break
		}
		got, raw = append(got, string(d)), append(raw, string(r))
	}
	if !slices.Equal(got, []string{"one", "", "two\nmore", "three"}) || strings.Join(raw, "")+"data: cut" != in {
		t.Errorf("the events are %q, the bytes %q", got, raw)
	}
	huge := &eventReader{r: bufio.NewReader(io.MultiReader(strings.NewReader("data: "), bytes.NewReader(make([]byte, maxEvent)), strings.NewReader("\n\n")))}
	if _, _, err := huge.next(); !errors.Is(err, errEventTooLarge) {
		t.Errorf("an event without an end is %v", err)
	}
}

// FuzzEventReader: the bytes of the events are the stream's, whatever they are.
func FuzzEventReader(f *testing.F) {
	f.Add([]byte("data: {}\n\n"))
	f.Add([]byte("data: a\r\n\r\n\n\ndata:b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &eventReader{r: bufio.NewReaderSize(bytes.NewReader(b), 16)}
		var got []byte
		for {
			raw, data, err := e.next()
			if err != nil {
				break
			}
			if len(data) > len(raw) {
				t.Fatalf("more data than bytes: %q of %q", data, raw)
			}
			got = append(got, raw...)
		}
		if !bytes.HasPrefix(b, got) {
			t.Fatalf("%q is no beginning of %q", got, b)
		}
	})
}

// silentHost takes everything.
type silentHost struct{ harness.Host }

func (silentHost) Event(harness.Event) {}

// FuzzEvent: no event breaks the driver.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{
		`{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m","role":"assistant","sessionID":"s","parentID":"u","finish":"unknown"}}}`,
		`{"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","sessionID":"s","type":"tool","callID":"c","tool":"calc_add","state":{"status":"completed","input":{},"output":"x"}}}}`,
		`{"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","sessionID":"s","type":"text","text":"x","time":{}}}}`,
		`{"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"y"}}`,
		`{"type":"session.status","properties":{"sessionID":"s","status":{"type":"retry","attempt":1,"message":"x"}}}`,
		`{"type":"session.error","properties":{"sessionID":"s","error":{"name":"APIError","data":{"message":"x"}}}}`, `{"type":"session.error","properties":{}}`, `[]`, `{"type":"message.part.updated","properties":null}`,
	} {
		f.Add([]byte(s))
	}
	n, _ := newNames(endpoints("calc"), harness.Tools{All: true})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &session{d: &driver{}, host: silentHost{}, names: n, id: "s", life: t.Context()}
		s.turn = newTurn(s)
		defer s.turn.cancel()
		s.turn.message(&info{ID: "u", Role: "user"})
		s.turn.message(&info{ID: "m", Role: "assistant", ParentID: "u"})
		if bytes.Contains(b, []byte("permission.asked")) || bytes.Contains(b, []byte("question.asked")) {
			return // these go to the kit and back over HTTP
		}
		s.event(b)
		s.event(b)
		s.turn.complete()
	})
}
