package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// The identity of a view's JSON. A reader may refuse a version whose first number it does not know.
const (
	ViewSchemaID      = "m3.trace_view"
	ViewSchemaVersion = "1.0"
)

// MarshalJSON returns the view as one JSON object, of what was kept: in it a redacted value reads redacted also in the recording process.
// Two traces with the same events give the same bytes. It holds the whole text in memory; see [View.WriteJSON].
func (v View) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	if err := v.WriteJSON(&buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// WriteJSON writes what MarshalJSON returns, entry by entry.
func (v View) WriteJSON(w io.Writer) error {
	d, sel := v.reader(true), v.selected()
	out := newJSONWriter(w)
	limitations := v.Limitations()
	if limitations == nil {
		limitations = []Limitation{}
	}
	head := viewHead{ViewSchemaID, ViewSchemaVersion, v.ExecutionID(), v.Outcome(), v.Completeness(), limitations, d.runtime(), d.summary()}
	text, err := out.encode(head)
	if err != nil {
		return err
	}
	out.w.Write(text[:len(text)-1])
	out.w.WriteString(`,"timeline":[`)
	for i := range sel.len() {
		if i > 0 {
			out.w.WriteByte(',')
		}
		text, err := out.encode(d.entry(sel.record(i)))
		if err != nil {
			return err
		}
		out.w.Write(text)
	}
	out.w.WriteString("]}")
	return out.w.Flush() // reports the first error of all writes
}

type viewHead struct {
	SchemaID      string       `json:"schema_id"`
	SchemaVersion string       `json:"schema_version"`
	ExecutionID   ExecutionID  `json:"execution_id"`
	Outcome       Outcome      `json:"outcome"`
	Completeness  Completeness `json:"completeness"`
	Limitations   []Limitation `json:"limitations"`
	Runtime       Runtime      `json:"runtime"`
	Summary       Summary      `json:"summary"`
}

// jsonWriter encodes value by value into one buffer, without escapes for HTML.
type jsonWriter struct {
	w   *bufio.Writer
	buf bytes.Buffer
	enc *json.Encoder
}

func newJSONWriter(w io.Writer) *jsonWriter {
	out := &jsonWriter{w: bufio.NewWriterSize(w, 64<<10)}
	out.enc = json.NewEncoder(&out.buf)
	out.enc.SetEscapeHTML(false)
	return out
}

// encode returns the JSON of x, valid until the next call. Values from the wire may hold bytes that are no UTF-8; JSON text may not.
func (o *jsonWriter) encode(x any) ([]byte, error) {
	o.buf.Reset()
	if err := o.enc.Encode(x); err != nil {
		return nil, err
	}
	b := bytes.TrimSuffix(o.buf.Bytes(), []byte{'\n'})
	if !utf8.Valid(b) {
		b = []byte(string([]rune(string(b))))
	}
	return b, nil
}
