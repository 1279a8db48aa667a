package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

const legacy4 = "2025-06-18"

// eras are the protocols in which servers ask for input.
var eras = []string{newest, legacy5, legacy4}

func declaring(protocol string) *m3.DirectOptions {
	return &m3.DirectOptions{Protocol: protocol, Elicitation: m3.ElicitForm | m3.ElicitURL}
}

// seen is what an elicitation says but for ids, times and the state of the wire.
type seen struct {
	Server, Operation, Name, Key, Mode string
	Round                              int
	Message, URL                       trace.Observation[string]
	Schema, Responses, Content         trace.Observation[trace.JSON]
	Action                             trace.Action
	Status                             trace.Status
	Limitations                        []string
}

func elicitations(view trace.View) (all []seen) {
	for _, e := range view.Elicitations().All() {
		all = append(all, seen{e.Server, string(e.OperationKind), e.OperationName, e.RequestKey, e.Mode, e.RoundIndex, e.Message, e.URL, e.RequestedSchema, e.InputResponses, e.Content, e.Action, e.Status, e.Limitations})
	}
	return all
}

// One plan, one server, three protocols: the same answers, the same result, the same elicitations.
func TestOneTestThreeProtocols(t *testing.T) {
	t.Parallel()
	plan := elicit.Sequence(
		elicit.Form("address", elicit.Message("Where to?"), elicit.Schema(json.RawMessage(citySchema)), elicit.Server("peer"), elicit.OperationName("book")).Accept(elicit.Content{"city": "Pune"}),
		elicit.Optional(elicit.Form("gift", elicit.Message("A gift?")).Accept(elicit.Content{})),
		elicit.OneOf(elicit.Form("business", elicit.Message("Business?")).Decline(elicit.Meta{"m": 1}), elicit.Form("home", elicit.Message("Home?")).Cancel()),
		elicit.Form("address", elicit.Message("And back?")).Accept(elicit.Content{"city": "Goa"}),
	)
	const object = `{"type":"object","properties":{}}`
	for kind, perform := range operations {
		if kind == trace.OperationResource {
			continue // its name is another, and the plan has that of the others
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var first []seen
			var text string
			for _, protocol := range eras {
				a := newAsker(round(where), round(form("business", "Business?", object)), round(form("address", "And back?", citySchema)))
				client := connect(t, newKit(t, m3.Config{}), a.server(), declaring(protocol))
				got, err := perform(t, client, &m3.CallOptions{Elicitation: plan})
				if err != nil {
					t.Fatalf("%s: %v", protocol, err)
				}
				view := finish(t, client)
				all := elicitations(view)
				if first == nil {
					first, text = all, got
				}
				if diff := cmp.Diff(first, all); diff != "" || got != text {
					t.Errorf("%s (-%s +%s):\n%s\nresults %q and %q", protocol, eras[0], protocol, diff, text, got)
				}
				for _, e := range view.Elicitations().All() {
					if _, ok := view.Entry(e.LogicalOperationID); !ok || e.ParentID != e.LogicalOperationID || e.SequenceEnd <= e.SequenceStart {
						t.Errorf("%s: %+v", protocol, e)
					}
				}
			}
			if len(first) != 3 || first[2].Key != "address" || first[2].Round != 3 || first[1].Action != "decline" {
				t.Errorf("%+v", first)
			}
		})
	}
}

// URLs are asked for in 2025-11-25 as in 2026-07-28; their ids are there to be matched in the former alone.
func TestURLsInBothEras(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]trace.Observation[string]{legacy5: trace.Observe("id-checkout"), newest: {}} {
		a := newAsker(round(payHere))
		client := connect(t, newKit(t, m3.Config{}), a.server(), declaring(protocol))
		if _, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: payment}); err != nil {
			t.Fatal(err)
		}
		_, err := client.CallTool(t.Context(), "book", m3.Args{"n": 2}, &m3.CallOptions{Elicitation: elicit.URL("checkout", elicit.ElicitationID("id-checkout")).Accept()})
		if (err == nil) != (protocol == legacy5) {
			t.Errorf("%s: matching by the id: %v", protocol, err)
		}
		if e := finish(t, client).Elicitations().At(0); e.ElicitationID != want || e.Mode != "url" || e.RequestKey != "checkout" {
			t.Errorf("%s: %+v", protocol, e)
		}
	}
}

// Two requests may be open at once. A Round takes them in any order; a Sequence in the order of their arrival.
func TestTwoOpenAtOnce(t *testing.T) {
	t.Parallel()
	contact := form("contact", "Phone?", `{"type":"object"}`)
	phone := elicit.Form("contact", elicit.Message("Phone?")).Accept(elicit.Content{"phone": "+91"})
	to := elicit.Form("address", elicit.Message("Where to?")).Accept(elicit.Content{"city": "Pune"})
	for name, plan := range map[string]*elicit.Plan{"round": elicit.Round(phone, to), "sequence": elicit.Sequence(to, phone)} {
		for _, protocol := range []string{legacy5, legacy4} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				for range 20 { // the requests have goroutines of their own: their order must not be left to chance
					a := newAsker(round(where, contact))
					client := connect(t, newKit(t, m3.Config{}), a.server(), declaring(protocol))
					r, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: plan})
					if err != nil || r.Text() != `{"address":{"action":"accept","content":{"city":"Pune"}},"contact":{"action":"accept","content":{"phone":"+91"}}}` {
						t.Fatalf("%v, %v", r, err)
					}
					view := finish(t, client)
					if e := view.Elicitations(); e.Len() != 2 || e.At(0).RequestKey != "address" || e.At(0).RoundIndex != 1 || e.At(1).RequestKey != "contact" || e.At(1).RoundIndex != 2 {
						t.Fatalf("%+v", elicitations(view))
					}
					if n := len(view.ToolCalls().At(0).Attempts); n != 0 {
						t.Fatalf("%d attempts of a call that was made once", n)
					}
				}
			})
		}
	}
}

// What a server asks in vain it is refused at once, and nothing of the plan is told; the call fails with the reason when the server is done with it.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	var plans []*elicit.Plan
	for range 3 {
		plans = append(plans, elicit.Optional(toPune))
	}
	for _, tc := range []struct {
		name   string
		plan   *elicit.Plan
		limit  int
		rounds [][]question
		reason string // "" is the limit
		text   string
	}{
		{"no plan", nil, 0, [][]question{{where}}, "no_plan", "the call has no plan"},
		{"another message", elicit.Form("address", elicit.Message("Who?")).Accept(elicit.Content{"city": "Pune"}), 0, [][]question{{where}}, "no_match", `form "address"`},
		{"another mode", payment, 0, [][]question{{where}}, "no_match", `url "checkout"`},
		{"more than the plan has", toPune, 0, [][]question{{where}, {where}}, "no_match", "the plan expects nothing more"},
		{"ambiguous", elicit.OneOf(toPune, elicit.Form("home").Decline()), 0, [][]question{{where}}, "ambiguous", "before 2026-07-28 a request has no key"},
		{"wrong answer", elicit.Form("address").Accept(elicit.Content{"city": 7}), 0, [][]question{{where}}, "content_mismatch", "/city: is number, want string"},
		{"bad schema", toPune, 0, [][]question{{form("address", "?", `{"type":7}`)}}, "bad_schema", "address"},
		{"no request", toPune, 0, [][]question{{{"address", "elicitation/create", `{"message":"?","requestedSchema":7}`}}}, "bad_request", "requestedSchema"},
		{"no params", toPune, 0, [][]question{{{"address", "elicitation/create", `{}`}}}, "bad_request", "message"},
		{"too often", elicit.Sequence(plans...), 2, [][]question{{where}, {where}, {where}}, "", "in 3 rounds"},
		{"never", toPune, 0, nil, "incomplete", `form "address"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := newAsker(tc.rounds...)
			client := connect(t, newKit(t, m3.Config{}), a.server(), declaring(legacy5))
			_, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: tc.plan, RoundLimit: tc.limit})
			if tc.reason == "" {
				if e := wantError[*elicit.RoundLimitError](t, err, "elicitation_round_limit", tc.text); e.Details["rounds"] != 3 {
					t.Errorf("%v", e.Details)
				}
			} else if e := wantError[*elicit.ExpectationError](t, err, "elicitation_expectation_failed", tc.text); e.Details["reason"] != tc.reason || e.Details["operation"] != "call book" {
				t.Errorf("%v", e.Details)
			}
			usable(t, client, a.peer, 1)
			view := finish(t, client)
			answers, refused := 0, 0
			for _, m := range view.RawMessages().All() {
				if m.Direction == trace.ClientToServer && m.Verdict == "response" {
					answers++
				}
				if m.Direction == trace.ClientToServer && m.Verdict == "error" {
					refused++
					if strings.Contains(m.Preview.Value, "Pune") || strings.Contains(m.Preview.Value, "city") {
						t.Errorf("the refusal tells the answer: %s", m.Preview.Value)
					}
				}
			}
			questions := 0
			for _, q := range tc.rounds {
				questions += len(q)
			}
			if want := min(questions, 1); refused != want || answers != questions-want {
				t.Errorf("%d answers and %d refusals of %d requests", answers, refused, questions)
			}
			if n := view.Elicitations().Len(); n != questions || n > 0 && view.Elicitations().At(n-1).Status != trace.StatusProtocolError {
				t.Errorf("%+v", elicitations(view))
			}
		})
	}
}

// A plan is refused where the server could never ask: before 2025-06-18, and where nothing was declared when the client connected.
func TestPlansBefore20260728(t *testing.T) {
	t.Parallel()
	state := "s"
	for _, tc := range []struct {
		name, protocol string
		modes          m3.ElicitModes
		call           *m3.CallOptions
		code, text     string
		declared       string
	}{
		{"not declared", legacy5, 0, &m3.CallOptions{Elicitation: toPune}, "invalid_argument", "set DirectOptions.Elicitation", ""},
		{"not this mode", legacy5, m3.ElicitForm, &m3.CallOptions{Elicitation: payment}, "invalid_argument", "mode url", `{"form":{}}`},
		{"no URLs in 2025-06-18", legacy4, m3.ElicitForm | m3.ElicitURL, &m3.CallOptions{Elicitation: payment}, "unsupported", "elicitation of URLs", `{}`},
		{"nothing in 2025-03-26", "2025-03-26", m3.ElicitForm, &m3.CallOptions{Elicitation: toPune}, "unsupported", "elicitation", ""},
		{"nothing in 2024-11-05", "2024-11-05", m3.ElicitForm, &m3.CallOptions{Elicitation: toPune}, "unsupported", "elicitation", ""},
		{"no state", legacy5, m3.ElicitForm, &m3.CallOptions{RequestState: &state}, "unsupported", "continuation of a call by hand", `{"form":{}}`},
		{"no responses", legacy5, 0, &m3.CallOptions{InputResponses: map[string]elicit.Response{}}, "unsupported", "continuation of a call by hand", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := &peer{}
			client := connect(t, newKit(t, m3.Config{}), p.server(), &m3.DirectOptions{Protocol: tc.protocol, Elicitation: tc.modes})
			for kind, perform := range operations {
				var coded interface{ Code() string }
				if _, err := perform(t, client, tc.call); !errors.As(err, &coded) || coded.Code() != tc.code || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%s: %v", kind, err)
				}
			}
			if len(p.calls()) != 0 {
				t.Error("the call was sent")
			}
			var init struct {
				Capabilities struct {
					Elicitation json.RawMessage `json:"elicitation"`
				} `json:"capabilities"`
			}
			_ = json.Unmarshal(p.got("initialize")[0].Params, &init)
			if string(init.Capabilities.Elicitation) != tc.declared {
				t.Errorf("declared %s, want %s", init.Capabilities.Elicitation, tc.declared)
			}
		})
	}
}

// A server that asks although nothing was declared breaks the protocol: it is refused with that reason, and the call goes on.
func TestUndeclaredRequests(t *testing.T) {
	t.Parallel()
	a := newAsker(round(where))
	client := connect(t, newKit(t, m3.Config{}), a.server(), old())
	r, err := client.CallTool(t.Context(), "book", nil, nil)
	if err != nil || !r.IsError || !strings.Contains(r.Text(), "did not declare") || !hasFinding(client, "undeclared-capability") {
		t.Errorf("%v, %v", r, err)
	}
}

// Of several open calls nobody guesses which one a request is about: it must be the only one with a plan, or the only one whose plan expects it.
func TestWhoseRequestItIs(t *testing.T) {
	t.Parallel()
	to := elicit.Form("address", elicit.Message("Where to?")).Accept(elicit.Content{"city": "Pune"})
	note := elicit.Form("note", elicit.Message("Note?")).Accept(elicit.Content{"n": 1})
	for _, tc := range []struct {
		name   string
		plans  []*elicit.Plan // of the calls that are open, in order; the first one's tool asks
		failed []string       // the reason that each fails with, "" for none
		key    string         // of the elicitation
	}{
		{"one plan", []*elicit.Plan{to, nil, nil}, []string{"", "", ""}, "address"},
		{"one plan expects it", []*elicit.Plan{to, note}, []string{"", "incomplete"}, "address"},
		{"both expect it", []*elicit.Plan{to, to}, []string{"ambiguous", "ambiguous"}, ""},
		{"two of three expect it", []*elicit.Plan{to, to, note}, []string{"ambiguous", "ambiguous", "incomplete"}, ""},
		{"none expects it", []*elicit.Plan{note, note, nil}, []string{"no_match", "no_match", ""}, ""},
		{"no plan at all", []*elicit.Plan{nil, nil}, []string{"no_plan", "no_plan"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asking := &crowd{n: len(tc.plans)}
			client := connect(t, newKit(t, m3.Config{}), asking.server(), declaring(legacy5))
			errs := make([]error, len(tc.plans))
			var all sync.WaitGroup
			for i, plan := range tc.plans {
				all.Go(func() {
					_, errs[i] = client.CallTool(t.Context(), fmt.Sprintf("tool-%d", i), nil, &m3.CallOptions{Elicitation: plan})
				})
			}
			all.Wait()
			for i, err := range errs {
				reason := ""
				var e *elicit.ExpectationError
				if errors.As(err, &e) {
					reason, _ = e.Details["reason"].(string)
				} else if err != nil {
					t.Errorf("tool-%d: %v", i, err)
				}
				if reason != tc.failed[i] {
					t.Errorf("tool-%d failed with %q (%v), want %q", i, reason, err, tc.failed[i])
				}
			}
			e := finish(t, client).Elicitations().At(0)
			if e.RequestKey != tc.key || (e.OperationName == "tool-0") != (tc.key != "") || (len(e.Limitations) == 0) != (tc.key != "") {
				t.Errorf("%+v", e)
			}
		})
	}
}

// crowd is a server that asks during the call of tool-0 when n calls are open, and answers all of them when it was answered.
type crowd struct {
	peer
	n int
}

func (c *crowd) server() m3.PipeServer {
	var open []message
	c.handle = func(p *peer, m *message) bool {
		if m.Method != "tools/call" {
			return false
		}
		if open = append(open, *m); len(open) == c.n {
			all := open
			go func() {
				<-p.send(`"q"`, "elicitation/create", where.params)
				for i := range all {
					p.result(&all[i], `{"content":[]}`)
				}
			}()
		}
		return true
	}
	return m3.PipeServer{Name: "crowd", Serve: func(_ context.Context, s io.ReadWriteCloser) error { return c.serve(s, s) }}
}

// A request while no call is open is nobody's: it is refused, and told.
func TestRequestOutsideOfCalls(t *testing.T) {
	t.Parallel()
	p := &peer{}
	client := connect(t, newKit(t, m3.Config{}), p.server(), declaring(legacy5))
	if answer := p.ask(`"q"`, "elicitation/create", where.params); answer.Error == nil {
		t.Errorf("answered %s", answer.Result)
	}
	if !hasFinding(client, "elicitation-without-call") {
		t.Error("nothing tells of it")
	}
	if e := finish(t, client).Elicitations().At(0); e.OperationKind != "" || e.RoundIndex != 0 || e.LogicalOperationID != "" || len(e.Limitations) != 1 {
		t.Errorf("%+v", e)
	}
}

// In 2025-11-25 a call may be answered with the error -32042 and URLs. A plan that accepts them waits until the server calls each completed, and then the call is made
// again: one call with two attempts. Declined, or without a plan, the error stands.
func TestURLElicitationRequired(t *testing.T) {
	t.Parallel()
	const refused = `{"code":-32042,"message":"visit first","data":{"elicitations":[{"mode":"url","message":"Sign in","url":"https://example.test/a","elicitationId":"e1"},{"mode":"url","message":"Pay","url":"https://example.test/b","elicitationId":"e2"}]}}`
	a := elicit.URL("signin", elicit.Address("https://example.test/a"))
	b := elicit.URL("pay", elicit.ElicitationID("e2"))
	for _, tc := range []struct {
		name       string
		plan       *elicit.Plan
		complete   []string // ids that the server calls completed
		again      int      // how often the server asks again for what is not completed
		code, text string   // of the error; "" is success
	}{
		{"accepted", elicit.Round(b.Accept(), a.Accept()), []string{"e2", "e1"}, 0, "", ""},
		{"one after the other", elicit.Sequence(a.Accept(), b.Accept()), []string{"e1", "other", "e2"}, 0, "", ""},
		{"accepted, and nothing said of completion", elicit.Round(a.Accept(), b.Accept()), nil, 0, "", ""},
		{"completed only when asked again", elicit.Round(a.Accept(), b.Accept()), []string{"e1", "e2"}, 1, "", ""},
		{"declined", elicit.Round(a.Accept(), b.Decline()), nil, 0, "protocol_error", "visit first"},
		{"no plan", nil, nil, 0, "protocol_error", "visit first"},
		{"another URL", elicit.Round(a.Accept(), elicit.URL("pay", elicit.ElicitationID("e3")).Accept()), nil, 0, "elicitation_expectation_failed", `url "pay"`},
		{"never completed", elicit.Round(a.Accept(), b.Accept()), []string{"e1"}, 0, "timeout", `the server had not said that "pay", which the plan accepts, is completed (notifications/elicitation/complete) within 300ms`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			p := &peer{}
			p.handle = func(p *peer, m *message) bool {
				if m.tool() != "book" {
					return false
				}
				if calls++; calls > 1+tc.again {
					p.result(m, `{"content":[{"type":"text","text":"booked"}]}`)
					return true
				}
				p.say(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, refused)
				for _, id := range tc.complete {
					if calls <= tc.again {
						break
					}
					p.say(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":%q}}`, id)
				}
				return true
			}
			client := connect(t, newKit(t, m3.Config{}), p.server(), declaring(legacy5))
			r, err := client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: tc.plan, Timeout: map[bool]time.Duration{true: 300 * time.Millisecond, false: 20 * time.Second}[tc.code == "timeout"]})
			var coded interface{ Code() string }
			if tc.code != "" {
				if !errors.As(err, &coded) || coded.Code() != tc.code || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%v", err)
				}
				usable(t, client, p, 1)
				if n := finish(t, client).Elicitations().Len(); n != 2 {
					t.Errorf("%d elicitations", n)
				}
				return
			}
			if err != nil || r.Text() != "booked" {
				t.Fatalf("%v, %v", r, err)
			}
			view := finish(t, client)
			if view.ToolCalls().Len() != 1 {
				t.Fatalf("%d calls", view.ToolCalls().Len())
			}
			c := view.ToolCalls().At(0)
			if len(c.Attempts) != 2+tc.again || !c.Attempts[0].InputRequired || c.Attempts[1+tc.again].Status != trace.ToolCompleted || c.ToolStatus != trace.ToolSuccess || !strings.Contains(c.Attempts[0].RawResult.Value.String(), "-32042") {
				t.Errorf("%+v", c.Attempts)
			}
			var got []string
			for _, e := range view.Elicitations().All() {
				got = append(got, fmt.Sprint(e.RequestKey, " ", e.Action, " ", e.URL.Value, " ", e.ElicitationID.Value, " ", e.RoundIndex, " ", e.Status, " ", e.LogicalOperationID == c.EntryID))
			}
			want := "signin accept https://example.test/a e1 1 completed true|pay accept https://example.test/b e2 1 completed true"
			if tc.again > 0 {
				want += "|" + strings.ReplaceAll(want, " 1 ", " 2 ")
			}
			if strings.Join(got, "|") != want {
				t.Errorf("%s", strings.Join(got, "|"))
			}
		})
	}
}
