package m3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
)

// TestOpListen: against the official SDK, over both transports, changes come on the subscription that asked for them.
func TestOpListen(t *testing.T) {
	t.Parallel()
	transports(t, modernEra, func(t *testing.T, server m3.Server) {
		c := openOps(t, server, &m3.DirectOptions{Protocol: modernEra})
		tools, err := c.Listen(t.Context(), &m3.ListenOptions{ToolsListChanged: true, PromptsListChanged: true})
		if err != nil {
			t.Fatal(err)
		}
		if ack := tools.Acknowledged(); !ack.ToolsListChanged || ack.PromptsListChanged || ack.ResourcesListChanged {
			t.Errorf("acknowledged %+v: the server has no prompts", ack)
		}
		doc, err := c.Listen(t.Context(), &m3.ListenOptions{ResourceSubscriptions: []string{"test://doc"}})
		if err != nil {
			t.Fatal(err)
		}
		if doc.ID() == tools.ID() {
			t.Errorf("both have the id %s", doc.ID())
		}
		for _, tool := range []string{"grow", "touch"} {
			if _, err := c.CallTool(t.Context(), tool, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		ev, err := doc.Next(soon(t))
		if err != nil || ev.Method != "notifications/resources/updated" || ev.URI != "test://doc" {
			t.Fatalf("change of the resource %+v, %v", ev, err)
		}
		if ev, err = tools.Next(soon(t)); err != nil || ev.Method != "notifications/tools/list_changed" {
			t.Fatalf("change of the tools %+v, %v", ev, err)
		}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		var timeout *m3.TimeoutError
		if ev, err := doc.Next(short); !errors.As(err, &timeout) {
			t.Errorf("a wait for nothing: %+v, %v", ev, err)
		}
		if err := doc.Close(); err != nil {
			t.Error(err)
		}
		if _, err := doc.Next(t.Context()); !errors.Is(err, m3.ErrSubscriptionClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := tools.Next(t.Context()); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("after the client's Close: %v", err)
		}
		for _, f := range c.Findings() {
			if f.Code != "late-response" { // the SDK answers a subscription that was cancelled
				t.Errorf("finding %+v", f)
			}
		}
		if n := len(sentLines(t, c, "notifications/cancelled")); n > 1 || strings.HasSuffix(t.Name(), "pipe") && n != 1 {
			t.Errorf("%d cancellations", n)
		}
	})
}

// TestOpListenDefects: each thing that a server does wrong on a subscription is named, and what it told still arrives. ID stands for the id of the
// request.
func TestOpListenDefects(t *testing.T) {
	t.Parallel()
	const (
		ack     = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"toolsListChanged":true}}}`
		changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`
		end     = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`
	)
	with := func(s, id string) string { return strings.ReplaceAll(s, "ID", id) }
	for _, tc := range []struct {
		name   string
		lines  []string
		events int
		codes  []string
	}{
		{"clean", []string{ack, changed, end}, 1, []string{}},
		{"two changes", []string{ack, changed, changed, end}, 2, []string{}},
		{"before the acknowledgement", []string{changed, ack, end}, 1, []string{"subscription-not-acknowledged"}},
		{"acknowledged twice", []string{ack, ack, changed, end}, 1, []string{"subscription-ack-twice"}},
		{"id as a string", []string{with(ack, `"ID"`), changed, end}, 1, []string{"subscription-id-type"}},
		{"change tagged as a string", []string{ack, with(changed, `"ID"`), end}, 1, []string{"subscription-id-type"}},
		{"result tagged as a string", []string{ack, strings.Replace(end, `subscriptionId":ID`, `subscriptionId":"ID"`, 1)}, 0, []string{"subscription-id"}},
		{"result without a tag", []string{ack, `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`}, 0, []string{"subscription-id"}},
		{"result without a type", []string{ack, strings.Replace(end, `"resultType":"complete",`, "", 1)}, 0, []string{"result-type-missing"}},
		{"another subscription", []string{ack, with(changed, "99"), changed, end}, 1, []string{"subscription-unknown"}},
		{"untagged", []string{ack, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, end}, 1, []string{"subscription-untagged"}},
		{"not asked for", []string{ack, strings.Replace(changed, "tools", "prompts", 1), end}, 1, []string{"subscription-not-requested"}},
		{"agrees to more", []string{strings.Replace(ack, `{"tools`, `{"promptsListChanged":true,"tools`, 1), end}, 0, []string{"subscription-ack-invalid"}},
		{"agrees to nothing", []string{strings.Replace(ack, `,"notifications":{"toolsListChanged":true}`, "", 1), end}, 0, []string{"subscription-ack-invalid"}},
		{"progress on it", []string{ack, `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`, end}, 0, []string{"subscription-misplaced"}},
		{"cancelled by the server", []string{ack, changed, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`}, 1, []string{}},
		{"cancels another request", []string{ack, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`, end}, 0, []string{"server-cancelled"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := openOps(t, bytesServer(func(m opsLine) []string {
				if m.Method != "subscriptions/listen" {
					return nil
				}
				out := make([]string, len(tc.lines))
				for i, l := range tc.lines {
					out[i] = with(l, string(m.ID))
				}
				return out
			}), &m3.DirectOptions{Protocol: modernEra})
			sub, err := c.Listen(t.Context(), &m3.ListenOptions{ToolsListChanged: true})
			if err != nil {
				t.Fatal(err)
			}
			events := 0
			for {
				_, err = sub.Next(soon(t))
				if err != nil {
					break
				}
				events++
			}
			if !errors.Is(err, io.EOF) || events != tc.events {
				t.Errorf("%d changes, then %v; want %d, then the end", events, err, tc.events)
			}
			if err := sub.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if codes := codesSeen(c); !slices.Equal(codes, tc.codes) {
				t.Errorf("findings %v, want %v", codes, tc.codes)
			}
			if n := len(sentLines(t, c, "notifications/cancelled")); n != 0 {
				t.Errorf("%d cancellations of a subscription that had ended", n)
			}
		})
	}
}

// TestOpListenFails: a subscription that does not come about says why.
func TestOpListenFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, answer string
		check        func(error) bool
	}{
		{"refused", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, func(err error) bool {
			var pe *m3.ProtocolError
			code, ok := int64(0), false
			if errors.As(err, &pe) {
				code, ok = pe.RPCCode()
			}
			return ok && code == -32601
		}},
		{"not acknowledged", `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, func(err error) bool {
			var pe *m3.ProtocolError
			return errors.As(err, &pe) && strings.Contains(err.Error(), "acknowledged")
		}},
		{"silent", "", func(err error) bool {
			var te *m3.TimeoutError
			return errors.As(err, &te) && strings.Contains(err.Error(), "acknowledgement")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := openOps(t, bytesServer(func(m opsLine) []string {
				if m.Method != "subscriptions/listen" || tc.answer == "" {
					return nil
				}
				return []string{fmt.Sprintf(tc.answer, m.ID)}
			}), &m3.DirectOptions{Protocol: modernEra})
			if _, err := c.Listen(t.Context(), &m3.ListenOptions{ToolsListChanged: true, Timeout: 100 * time.Millisecond}); !tc.check(err) {
				t.Errorf("%T: %v", err, err)
			}
		})
	}
}

// TestOpListenGone: a server that dies ends its subscriptions with that.
func TestOpListenGone(t *testing.T) {
	t.Parallel()
	c := openOps(t, m3.PipeServer{Name: "dies", Serve: func(_ context.Context, rw io.ReadWriteCloser) error {
		buf := make([]byte, 4096)
		for _, out := range []string{
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}}`,
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"notifications":{}}}`,
		} {
			if _, err := rw.Read(buf); err != nil {
				return err
			}
			if _, err := io.WriteString(rw, out+"\n"); err != nil {
				return err
			}
		}
		return nil
	}}, &m3.DirectOptions{Protocol: modernEra})
	sub, err := c.Listen(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var te *m3.TransportError
	if _, err := sub.Next(soon(t)); !errors.As(err, &te) || errors.Is(err, io.EOF) {
		t.Errorf("%T: %v", err, err)
	}
}
