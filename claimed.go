package m3

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// claimed reports whether the caller takes a tool's result of a type that only an extension defines.
func (o *CallOptions) claimed(result trace.JSON) bool {
	if o == nil || !o.AllowClaimed {
		return false
	}
	kind := mcp.ResultType(result)
	return kind != mcp.ResultComplete && kind != mcp.ResultInputRequired
}

// claimedResult is a result of an extension's: all of it is in Raw, and what looks like a tool's content is read too.
func claimedResult(raw trace.JSON, sequence int64, id trace.ExecutionID) *ToolCallResult {
	r, err := decodeToolResult("", raw)
	if err != nil {
		r = &ToolCallResult{Raw: raw}
	}
	r.ResultType, r.Sequence, r.Execution = mcp.ResultType(raw), sequence, id
	return r
}

// encodeExtensions encodes what DirectOptions.Extensions declares; nil for nothing.
func encodeExtensions(extensions map[string]any) (trace.JSON, error) {
	if len(extensions) == 0 {
		return nil, nil
	}
	settings := maps.Clone(extensions)
	for id, v := range settings {
		if v == nil {
			settings[id] = struct{}{}
			continue
		}
		if b, err := json.Marshal(v); err != nil || len(b) == 0 || b[0] != '{' {
			return nil, validationf("Direct: the settings of the extension %q are a %T: use nil, a map or a struct that encodes to a JSON object", id, v)
		}
	}
	b, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("m3: encode the extensions: %w", err)
	}
	return b, nil
}
