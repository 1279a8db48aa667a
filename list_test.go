package m3_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// Lists come page by page as the server sent them, or whole; no cursor and an empty one differ on the wire.
func TestPages(t *testing.T) {
	t.Parallel()
	p := &peer{handle: func(p *peer, m *message) bool {
		member, item := "", ""
		switch m.Method {
		case "tools/list":
			member, item = "tools", `{"name":"%s","inputSchema":{"type":"object"}}`
		case "resources/list":
			member, item = "resources", `{"uri":"%s","name":"r","size":3}`
		case "resources/templates/list":
			member, item = "resourceTemplates", `{"uriTemplate":"%s","name":"t"}`
		case "prompts/list":
			member, item = "prompts", `{"name":"%s","arguments":[{"name":"who","required":true}]}`
		default:
			return false
		}
		switch {
		case strings.Contains(string(m.Params), `"cursor":""`):
			p.result(m, `{%q:[%s]}`, member, fmt.Sprintf(item, "empty"))
		case strings.Contains(string(m.Params), `"cursor":"2"`):
			p.result(m, `{%q:[%s],"nextCursor":null}`, member, fmt.Sprintf(item, "c"))
		default:
			p.result(m, `{%q:[%s,%s],"nextCursor":"2"}`, member, fmt.Sprintf(item, "a"), fmt.Sprintf(item, "b"))
		}
		return true
	}}
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	ctx := t.Context()
	tools, err := client.ListTools(ctx, nil)
	if err != nil || len(tools.Items) != 2 || *tools.NextCursor != "2" || tools.Items[1].Name != "b" || string(tools.Items[1].InputSchema) != `{"type":"object"}` || tools.Items[1].OutputSchema != nil {
		t.Fatalf("%+v, %v", tools, err)
	}
	if tools, err = client.ListTools(ctx, &m3.ListOptions{Cursor: tools.NextCursor}); err != nil || len(tools.Items) != 1 || tools.NextCursor != nil {
		t.Errorf("%+v, %v", tools, err)
	}
	if tools, err = client.ListTools(ctx, &m3.ListOptions{Cursor: new(string)}); err != nil || tools.Items[0].Name != "empty" {
		t.Errorf("%+v, %v", tools, err)
	}
	all := map[string][]string{}
	for _, i := range must(client.ListAllTools(ctx, nil)) {
		all["tools"] = append(all["tools"], i.Name+i.Malformed)
	}
	for _, i := range must(client.ListAllResources(ctx, nil)) {
		all["resources"] = append(all["resources"], i.URI+i.Malformed)
		if *i.Size != 3 || !strings.Contains(string(i.Raw), `"size":3`) {
			t.Errorf("%+v", i)
		}
	}
	for _, i := range must(client.ListAllResourceTemplates(ctx, nil)) {
		all["templates"] = append(all["templates"], i.URITemplate+i.Malformed)
	}
	for _, i := range must(client.ListAllPrompts(ctx, nil)) {
		all["prompts"] = append(all["prompts"], i.Name+i.Malformed)
		if len(i.Arguments) != 1 || !i.Arguments[0].Required {
			t.Errorf("%+v", i)
		}
	}
	for what, names := range all {
		if !slices.Equal(names, []string{"a", "b", "c"}) {
			t.Errorf("all %s: %v", what, names)
		}
	}
	if len(all) != 4 {
		t.Errorf("%v", all)
	}
	for _, err := range []error{
		second(client.ListResources(ctx, nil)), second(client.ListResourceTemplates(ctx, nil)), second(client.ListPrompts(ctx, nil)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func second[T any](_ T, err error) error { return err }

// A cursor that comes again would never end: that is a finding, and an error.
func TestRepeatedCursor(t *testing.T) {
	t.Parallel()
	p := answers(map[string]string{"tools/list": `{"tools":[{"name":"a"}],"nextCursor":"again"}`})
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	_, err := client.ListAllTools(t.Context(), nil)
	e := wantError[*m3.ProtocolError](t, err, "protocol_error", "pagination cursor repeated")
	if n := len(p.got("tools/list")); n != 2 || e.Details["error_kind"] != "malformed" {
		t.Errorf("%d requests, details %v", n, e.Details)
	}
	found := slices.ContainsFunc(client.Findings(), func(f trace.Finding) bool { return f.Code == "cursor-repeated" })
	if !found {
		t.Errorf("findings %v", client.Findings())
	}
}

// An item that cannot be read says why, and hides no other.
func TestMalformedItems(t *testing.T) {
	t.Parallel()
	p := answers(map[string]string{
		"tools/list":     `{"tools":[{"name":"good"},{"name":7},"text",null,{},{"name":"also good","title":"T"}]}`,
		"prompts/list":   `{"prompts":null}`,
		"resources/list": `{"resources":{}}`,
	})
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	tools, err := client.ListAllTools(t.Context(), nil)
	if err != nil || len(tools) != 6 {
		t.Fatalf("%+v, %v", tools, err)
	}
	for i, bad := range []bool{false, true, true, true, true, false} {
		if (tools[i].Malformed != "") != bad {
			t.Errorf("item %d: malformed %q", i, tools[i].Malformed)
		}
	}
	if string(tools[1].Raw) != `{"name":7}` || tools[5].Title != "T" {
		t.Errorf("%s, %q", tools[1].Raw, tools[5].Title)
	}
	for _, err := range []error{second(client.ListPrompts(t.Context(), nil)), second(client.ListResources(t.Context(), nil)), second(client.ListAllPrompts(t.Context(), nil))} {
		wantError[*m3.ProtocolError](t, err, "protocol_error", "not an array")
	}
}

func TestResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	p := answers(map[string]string{
		"resources/read": `{"contents":[{"uri":"a","text":"one"},{"uri":"b","mimeType":"image/png","blob":"iVBORw0="},{"uri":"c","text":""},{"uri":"d","text":"two"}]}`,
		"prompts/get":    `{"description":"greets","messages":[{"role":"user","content":{"type":"text","text":"Hi","x":1e400}},{"role":"assistant","content":{"type":"audio","data":"AA=="}}]}`,
	})
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	r, err := client.ReadResource(t.Context(), "test://a", &m3.CallOptions{Meta: map[string]any{"trace": "t1"}})
	if err != nil || r.Text() != "one\n\ntwo" || len(r.Contents) != 4 || string(r.Contents[1].Blob) != "\x89PNG\r" || r.Contents[1].Text != nil || r.Contents[1].MIMEType != "image/png" {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := string(p.got("resources/read")[0].Params); !strings.Contains(got, `"uri":"test://a"`) || !strings.Contains(got, `"_meta":{"trace":"t1"}`) {
		t.Errorf("sent %s", got)
	}
	_, err = client.ReadResource(t.Context(), "", nil)
	wantError[*m3.ValidationError](t, err, "invalid_argument", "URI is empty")
	g, err := client.GetPrompt(t.Context(), "greet", map[string]string{"who": "<you>"}, nil)
	if err != nil || g.Description != "greets" || len(g.Messages) != 2 || g.Messages[0].Content.Text != "Hi" || !strings.Contains(string(g.Messages[0].Content.Raw), "1e400") || g.Messages[1].Content.Type != "audio" {
		t.Fatalf("%+v, %v", g, err)
	}
	if got := string(p.got("prompts/get")[0].Params); !strings.Contains(got, `"name":"greet"`) || !strings.Contains(got, `"who":`) {
		t.Errorf("sent %s", got)
	}
	bad := answers(map[string]string{"resources/read": `{"contents":[{"uri":"a","blob":"*"}]}`, "prompts/get": `{"messages":"none"}`})
	client = connect(t, newKit(t, m3.Config{}), bad.server(), old())
	_, err = client.ReadResource(t.Context(), "a", nil)
	wantError[*m3.ProtocolError](t, err, "protocol_error", "read a")
	_, err = client.GetPrompt(t.Context(), "p", nil, nil)
	wantError[*m3.ProtocolError](t, err, "protocol_error", "prompt p")
}

// Progress and log notifications come in order, also while the call is open.
func TestProgressAndNotifications(t *testing.T) {
	t.Parallel()
	p := on(map[string]func(*peer, *message){"steps": func(p *peer, m *message) {
		for i := range 3 {
			p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":3,"message":"step"}}`, progressToken(m), i+1)
			p.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"l","data":{"i":%d}}}`, i)
		}
		p.behave(m)
	}})
	var mu sync.Mutex
	var logs, notes []string
	opts := old()
	opts.Log = func(l m3.LogMessage) {
		mu.Lock()
		defer mu.Unlock()
		logs = append(logs, l.Level+l.Logger+string(l.Data))
	}
	opts.Notification = func(method string, params trace.JSON) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, method)
		_ = append(params[:0], "ours now"...) // the params belong to the callback
	}
	client := connect(t, newKit(t, m3.Config{}), p.server(), opts)
	var steps []m3.Progress
	if _, err := client.CallTool(t.Context(), "steps", nil, &m3.CallOptions{Progress: func(p m3.Progress) { steps = append(steps, p) }}); err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		if s.Progress != float64(i+1) || *s.Total != 3 || s.Message != "step" {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(steps) != 3 || !slices.Equal(logs, []string{`infol{"i":0}`, `infol{"i":1}`, `infol{"i":2}`}) || len(notes) != 6 {
		t.Errorf("%d steps, logs %v, notifications %v", len(steps), logs, notes)
	}
}

// progressToken is the progress token of a request.
func progressToken(m *message) trace.JSON {
	var p struct {
		Meta struct {
			Token trace.JSON `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = trace.JSON(m.Params).Decode(&p) // nil shows
	return p.Meta.Token
}

// Names of members count exactly: a server that writes Content for content has sent none.
func TestMemberNamesAreExact(t *testing.T) {
	t.Parallel()
	p := answers(map[string]string{
		"tools/call":     `{"Content":7,"CONTENT":[{"type":"text","text":"no"}],"iserror":true,"structuredcontent":{"a":1},"content":[{"Type":"image","type":"text","TEXT":"no","text":"a\\\"}\u00fc<"},{"te\u0078t":"b","type":"text"}],"x":{"Content":1}}`,
		"tools/list":     `{"Tools":[],"tools":[{"Name":"no"},{"name":"yes","inputschema":{},"Title":7}]}`,
		"resources/read": `{"contents":[{"URI":"no","uri":"yes","Text":"no"}],"Contents":[]}`,
		"prompts/get":    `{"Description":"no","messages":[{"Role":"no","role":"user","content":{"type":"text","text":"yes"}}]}`,
	})
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	r, err := client.CallTool(t.Context(), "x", nil, nil)
	if err != nil || r.IsError || r.StructuredContent != nil || r.Text() != "a\\\"}ü<\nb" {
		t.Errorf("%+v, %q, %v", r, r.Text(), err)
	}
	tools, err := client.ListAllTools(t.Context(), nil)
	if err != nil || len(tools) != 2 || tools[0].Malformed == "" || tools[1].Name != "yes" || tools[1].InputSchema != nil || tools[1].Title != "" {
		t.Errorf("%+v, %v", tools, err)
	}
	res, err := client.ReadResource(t.Context(), "x", nil)
	if err != nil || len(res.Contents) != 1 || res.Contents[0].URI != "yes" || res.Text() != "" {
		t.Errorf("%+v, %v", res, err)
	}
	pr, err := client.GetPrompt(t.Context(), "x", nil, nil)
	if err != nil || pr.Description != "" || len(pr.Messages) != 1 || pr.Messages[0].Role != "user" || pr.Messages[0].Content.Text != "yes" {
		t.Errorf("%+v, %v", pr, err)
	}
}
