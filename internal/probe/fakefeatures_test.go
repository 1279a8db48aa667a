package probe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const goodTools = `{"name":"quote","description":"a price","inputSchema":{"type":"object","properties":{"kg":{"type":"number"},"mode":{"type":"string","enum":["air","sea"]}},"required":["kg"],"additionalProperties":false}},` +
	`{"name":"read","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`

// toolList is tools/list, with the defect in it.
func (f *fake) toolList() string {
	more := map[string]string{
		"tool-malformed":      `,"no tool"`,
		"tool-input-schema":   `,{"name":"bare","inputSchema":{"type":"string"}}`,
		"tool-properties":     `,{"name":"php","inputSchema":{"type":"object","properties":[]}}`,
		"tool-schema-invalid": `,{"name":"dangling","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/Missing"}}}}`,
		"tool-old-dialect":    `,{"name":"old","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}`,
		"tool-references":     `,{"name":"refs","inputSchema":{"type":"object","$defs":{"A":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/A"}}}}`,
		"tool-name":           `,{"name":"Create CIFS Share","inputSchema":{"type":"object"}}`,
		"tool-name-hosts":     `,{"name":"a.b/c","inputSchema":{"type":"object"}}`,
		"tool-name-twice":     `,{"name":"quote","inputSchema":{"type":"object"}}`,
	}
	return "[" + goodTools + more[f.bad] + "]"
}

// feature serves what the capabilities declare.
func (f *fake) feature(method string, r *request, text string) (string, error) {
	var p struct {
		Name      json.RawMessage `json:"name"`
		URI       string          `json:"uri"`
		Cursor    json.RawMessage `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
		Ref       struct {
			Type string `json:"type"`
		} `json:"ref"`
	}
	_ = json.Unmarshal(r.Params, &p) // it is an object
	switch method {
	case "tools/list":
		return f.list(r, p.Cursor, text), nil
	case "prompts/list":
		if f.is("undeclared-feature") {
			return f.result(r.ID, `{"prompts":[]}`), nil
		}
		return f.result(r.ID, `{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}]}`), nil
	case "resources/list":
		return f.result(r.ID, `{"resources":[]}`), nil
	case "resources/read":
		return f.read(r, p.URI), nil
	case "resources/subscribe":
		if f.modern {
			break
		}
		if f.is("subscribe-unknown") {
			return "", nil
		}
		return errorText(r.ID, -32002, "no such resource"), nil
	case "prompts/get":
		return f.prompt(r, string(p.Name)), nil
	case "completion/complete":
		if f.is("completion-unknown") && p.Ref.Type == "ref/prompt" || f.is("completion-ref-type") && p.Ref.Type == "ref/m3" {
			return f.result(r.ID, `{"completion":{"values":["a"]}}`), nil
		}
		return errorText(r.ID, -32602, "no such reference"), nil
	case "tools/call":
		return f.call(r, string(p.Name), p.Arguments), nil
	}
	switch {
	case f.is("unknown-method"):
		return f.result(r.ID, `{}`), nil
	case f.is("unknown-method-code"):
		return errorText(r.ID, -32000, "what"), nil
	}
	return errorText(r.ID, -32601, "method not found"), nil
}

func (f *fake) list(r *request, cursor json.RawMessage, text string) string {
	list := `{"tools":` + f.toolList()
	switch {
	case f.is("params-omitted") && r.Params == nil, f.is("params-empty") && string(r.Params) == "{}":
		return errorText(r.ID, -32602, "params")
	case f.is("cursor-loop") && cursor != nil && string(cursor) == `"8"`, f.is("cursor-loop") && cursor == nil:
		return f.result(r.ID, list+`,"nextCursor":"8"}`)
	case cursor != nil && !(f.is("cursor-unknown") && cursor[0] == '"') && !(f.is("cursor-type") && cursor[0] != '"'):
		return errorText(r.ID, -32602, "cursor")
	case f.is("progress-token-types") && strings.Contains(text, "progressToken"):
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tool-call-4","progress":1}}` + "\n" + f.result(r.ID, list+`}`)
	}
	return f.result(r.ID, list+`}`)
}

func (f *fake) read(r *request, uri string) string {
	content := func(text string) string {
		return f.result(r.ID, fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}]}`, uri, text))
	}
	switch {
	case f.is("resource-unknown") && strings.HasPrefix(uri, "m3-test:"), f.is("resource-uri-missing") && uri == "":
		return content("")
	case f.is("resource-traversal") && strings.HasPrefix(uri, "file:"):
		return content("root:x:0:0")
	case uri == "":
		return errorText(r.ID, -32602, "uri")
	case f.is("resource-unknown-code"):
		return errorText(r.ID, 0, "not found")
	case f.modern:
		return errorText(r.ID, -32602, "not found")
	}
	return errorText(r.ID, -32002, "not found")
}

func (f *fake) prompt(r *request, name string) string {
	switch {
	case f.is("prompt-unknown") && name != `"greet"`, f.is("prompt-arguments-missing") && name == `"greet"`:
		return f.result(r.ID, `{"messages":[]}`)
	case f.is("prompt-unknown-code"):
		return errorText(r.ID, -32603, "oops")
	}
	return errorText(r.ID, -32602, "prompt")
}

// call is tools/call of two tools: quote, which validates by hand, and read, which needs nothing.
func (f *fake) call(r *request, name string, args json.RawMessage) string {
	done := func() string { return f.result(r.ID, `{"content":[{"type":"text","text":"done"}]}`) }
	var a map[string]any
	isObject := json.Unmarshal(args, &a) == nil && a != nil
	kg, hasKG := a["kg"]
	_, isNumber := kg.(float64)
	mode, hasMode := a["mode"]
	switch {
	case name == "" && f.is("tool-name-missing"), name == "5" && f.is("tool-name-type"), strings.Contains(name, "no-such") && f.is("tool-unknown"):
		return done()
	case name == "" || name == "5":
		return errorText(r.ID, -32602, "name")
	case f.is("tool-unknown-code") && strings.Contains(name, "no-such"):
		return f.result(r.ID, `{"isError":true,"content":[{"type":"text","text":"no such tool"}]}`)
	case name == `"read"` && isObject:
		return f.readOnly(r)
	case name == `"read"` && !isObject || name == `"quote"`:
	default:
		return errorText(r.ID, -32602, "no such tool")
	}
	first := byte(0)
	if len(args) > 0 {
		first = args[0]
	}
	for defect, hit := range map[string]bool{
		"arguments-text": first == '"', "arguments-array": first == '[', "arguments-number": first == '4',
		"arguments-missing": isObject && !hasKG, "arguments-null": hasKG && kg == nil, "argument-type": hasKG && kg != nil && !isNumber,
		"argument-enum": hasMode && mode != "air" && mode != "sea", "argument-extra": isObject && isNumber && len(a) == 2 && !hasMode,
	} {
		if hit && f.is(defect) {
			return done()
		}
	}
	valid := isObject && isNumber && (!hasMode || slices.Contains([]any{"air", "sea"}, mode)) && (len(a) == 1 || len(a) == 2 && hasMode)
	if !valid {
		return f.result(r.ID, `{"isError":true,"content":[{"type":"text","text":"invalid arguments"}]}`)
	}
	return done()
}

func (f *fake) readOnly(r *request) string {
	data := strings.Repeat("QUJD", 30)
	switch {
	case f.is("tool-result-shape"):
		return f.result(r.ID, `{"content":"done","structuredContent":{"n":1}}`)
	case f.is("tool-output-schema"):
		return f.result(r.ID, `{"content":[],"structuredContent":{"n":"one"}}`)
	case f.is("tool-result-doubled"):
		return f.result(r.ID, `{"content":[{"type":"image","mimeType":"image/png","data":"`+data+`"}],"structuredContent":{"n":1,"image":"`+data+`"}}`)
	case f.is("tool-progress-uninvited"):
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tool-call-4","progress":1}}` + "\n" + f.result(r.ID, `{"content":[],"structuredContent":{"n":1}}`)
	}
	return f.result(r.ID, `{"content":[{"type":"text","text":"1"}],"structuredContent":{"n":1}}`)
}
