package m3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// maxSubject bounds a subject, as JSON.
const maxSubject = 16 << 20

// evalSubject is a subject as an evaluation sees and stores it: redacted.
type evalSubject struct {
	json          trace.JSON
	kind, digest  string
	artifacts     map[string]trace.JSON
	metadata      map[string]any
	execution     trace.ExecutionID
	turn          trace.TurnID
	suite, caseID string
	declared      []eval.Registration // by the execution's options
	stored        bool                // the store has the execution
}

// subject takes what was passed to an evaluation apart.
func (k *Kit) subject(ctx context.Context, operation string, v any, o *EvaluateOptions) (*evalSubject, error) {
	if err := checkMetadata(o.Metadata); err != nil {
		return nil, err
	}
	s := &evalSubject{}
	raw, kind, err := subjectJSON(v)
	if err != nil {
		return nil, validationf("%s: the subject %v", operation, err)
	}
	if s.kind = kind; kind == "execution" {
		raw = k.executionJSON(ctx, v.(traced).ExecutionID())
	}
	if s.json, err = k.canonical(raw); err != nil {
		return nil, validationf("%s: the subject is not JSON: %v", operation, err)
	}
	s.digest = eval.Digest(s.json)
	if err := k.artifacts(operation, s, o); err != nil {
		return nil, err
	}
	if err := s.tie(operation, v, o); err != nil {
		return nil, err
	}
	s.suite, s.caseID = k.cfg.Suite, k.redactor.String(o.Case)
	return s, k.addExecution(ctx, operation, s, v, o)
}

// canonical is redacted first: a digest must not tell what was taken out.
func (k *Kit) canonical(raw []byte) (trace.JSON, error) {
	clean, _ := k.redactor.Bytes(raw)
	return eval.Canonical(clean)
}

func (k *Kit) artifacts(operation string, s *evalSubject, o *EvaluateOptions) error {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(o.Artifacts)) {
		b, err := json.Marshal(o.Artifacts[name])
		if err != nil {
			return validationf("%s: the artifact %q does not encode to JSON: %v", operation, name, err)
		}
		if size += len(b); size > maxSubject {
			return validationf("%s: the artifacts have more than %d bytes", operation, maxSubject)
		}
		if s.artifacts == nil {
			s.artifacts = map[string]trace.JSON{}
		}
		if s.artifacts[name], err = k.canonical(b); err != nil {
			return validationf("%s: the artifact %q is not JSON: %v", operation, name, err)
		}
	}
	if len(o.Metadata) == 0 {
		return nil
	}
	b, err := json.Marshal(o.Metadata)
	if err != nil {
		return validationf("%s: the metadata does not encode to JSON: %v", operation, err)
	}
	b, _ = k.redactor.Bytes(b)
	return json.Unmarshal(b, &s.metadata)
}

// addExecution adds what the store knows of the execution.
func (k *Kit) addExecution(ctx context.Context, operation string, s *evalSubject, v any, o *EvaluateOptions) error {
	if s.execution == "" {
		if s.caseID == "" {
			s.caseID = k.redactor.String(k.cfg.Case)
		}
		return nil
	}
	info, err := k.store.Execution(ctx, s.execution)
	switch {
	case err == nil:
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("m3: look up execution %s: %w", s.execution, err)
	case o.Trace != nil:
		return nil
	default:
		if _, evidence := v.(traced); evidence {
			return nil
		}
		return validationf("%s: execution %q is not in the kit's store: pass the id of an execution of this kit or its store, or the trace itself", operation, s.execution)
	}
	s.stored, s.declared = true, info.Declared()
	if info.Suite != "" {
		s.suite = info.Suite
	}
	if s.caseID == "" {
		s.caseID = info.Case
	}
	return nil
}

// executionJSON is an execution as a subject: what it is and how it ended. Its events are in the evaluator's View.
func (k *Kit) executionJSON(ctx context.Context, id trace.ExecutionID) []byte {
	x := struct {
		ID        trace.ExecutionID `json:"execution_id"`
		Kind      string            `json:"kind,omitempty"`
		Servers   []string          `json:"servers,omitempty"`
		Lifecycle string            `json:"lifecycle,omitempty"` // finished, open; absent when the store does not know it
		Outcome   trace.Outcome     `json:"outcome,omitempty"`
	}{ID: id}
	if info, err := k.store.Execution(ctx, id); err == nil {
		x.Kind, x.Servers, x.Outcome, x.Lifecycle = info.Kind, info.Servers, info.Outcome, "open"
		if info.Finished != nil {
			x.Lifecycle = "finished"
		}
	}
	b, _ := json.Marshal(x) // texts: cannot fail
	return b
}

// traced is whatever comes from one execution: a client, a trace, a view.
type traced interface {
	ExecutionID() trace.ExecutionID
}

// subjectJSON is a subject as JSON, and what sort of thing it is.
func subjectJSON(v any) ([]byte, string, error) {
	if isNilPointer(v) {
		return nil, "", fmt.Errorf("is a nil %T", v)
	}
	switch v := v.(type) {
	case *Client, *trace.Trace:
		return nil, "execution", nil
	case trace.View:
		b, err := viewSubject(v)
		return b, "view", err
	case *trace.View:
		b, err := viewSubject(*v)
		return b, "view", err
	case *ToolCallResult:
		b, err := toolCallSubject(v)
		return b, "tool_call_result", err
	case *ResourceReadResult:
		return rawSubject(v.Raw, v, "resource_read_result")
	case *PromptResult:
		return rawSubject(v.Raw, v, "prompt_result")
	case eval.Response:
		return rawSubject(nil, v, "response")
	case string:
		return rawSubject(nil, v, "text")
	}
	return rawSubject(nil, v, "json")
}

// isNilPointer tells a pointer that points to nothing from no value at all.
func isNilPointer(v any) bool {
	rv := reflect.ValueOf(v)
	return rv.Kind() == reflect.Pointer && rv.IsNil()
}

// rawSubject is what stood on the wire, where there is such a thing, else v's own JSON.
func rawSubject(raw trace.JSON, v any, kind string) ([]byte, string, error) {
	b := []byte(raw)
	if raw == nil {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return nil, "", fmt.Errorf("does not encode to JSON: %w", err)
		}
	}
	if len(b) > maxSubject {
		return nil, "", fmt.Errorf("has %d bytes as JSON, at most %d are allowed: pass only what is to be evaluated", len(b), maxSubject)
	}
	return b, kind, nil
}

// toolCallSubject is the result as it stood on the wire; that it is no error is said also where the server left it out.
func toolCallSubject(r *ToolCallResult) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.Raw, &fields); err != nil || fields == nil { // made by hand
		content, err := json.Marshal(append([]Content{}, r.Content...))
		if err != nil {
			return nil, fmt.Errorf("does not encode to JSON: %w", err)
		}
		fields = map[string]json.RawMessage{"content": content}
		if r.StructuredContent != nil {
			fields["structuredContent"] = json.RawMessage(r.StructuredContent)
		}
	}
	fields["isError"], _ = json.Marshal(r.IsError)
	b, _, err := rawSubject(nil, fields, "")
	return b, err
}

// viewSubject is the JSON of a view, which holds what was kept: redacted.
func viewSubject(v trace.View) ([]byte, error) {
	var b bytes.Buffer
	err := v.WriteJSON(&bounded{&b})
	if errors.Is(err, errTooLong) {
		return nil, fmt.Errorf("has more than %d bytes as JSON: narrow the view (ForTurn, ForServer), or pass only what is to be evaluated", maxSubject)
	}
	return b.Bytes(), err
}

var errTooLong = errors.New("too long")

type bounded struct{ b *bytes.Buffer }

func (w *bounded) Write(p []byte) (int, error) {
	if w.b.Len()+len(p) > maxSubject {
		return 0, errTooLong
	}
	return w.b.Write(p)
}

var _ io.Writer = (*bounded)(nil)
