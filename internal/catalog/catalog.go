// Package catalog keeps a server's tools in a file that people review, and says what a change of them means to those who call the tools.
//
// A [Catalog] holds the tools as they stood on the wire: no default is filled in, no member is left out. [Compare] takes the old and the new one
// and classes each difference: breaking, risky, additive or wording.
package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Format is the first member of a lock file.
const Format = "m3.lock.v1"

// Tool is one tool: all its members, numbers as they were written.
type Tool struct {
	Name    string
	Members map[string]any
}

// Catalog is the tools of one server.
type Catalog struct {
	Server string // its name, as it says
	Tools  []Tool // by name; of equal names in the server's order
}

// New reads the tools as a server listed them. A tool that is no object, or has no name, is an error that gives its place.
func New(server string, tools [][]byte) (*Catalog, error) {
	c := &Catalog{Server: server}
	for i, raw := range tools {
		if err := c.add(raw); err != nil {
			return nil, fmt.Errorf("tool %d: %w", i+1, err)
		}
	}
	c.sort()
	return c, nil
}

func (c *Catalog) add(raw []byte) error {
	v, err := decode(raw)
	if err != nil {
		return err
	}
	members, ok := v.(map[string]any)
	if !ok {
		return errors.New("it is no JSON object")
	}
	name, ok := members["name"].(string)
	if !ok || name == "" {
		return errors.New("it has no name")
	}
	c.Tools = append(c.Tools, Tool{name, members})
	return nil
}

func (c *Catalog) sort() {
	slices.SortStableFunc(c.Tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
}

// decode reads one JSON value, numbers as text.
func decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON value")
	}
	return v, nil
}

// file is the lock file's form.
type file struct {
	Format string           `json:"format"`
	Server string           `json:"server"`
	Tools  []map[string]any `json:"tools"`
}

// Encode writes the lock file: indented, members in alphabetical order, so that a change is a small diff.
func (c *Catalog) Encode() ([]byte, error) {
	f := file{Format: Format, Server: c.Server, Tools: make([]map[string]any, 0, len(c.Tools))}
	for _, t := range c.Tools {
		f.Tools = append(f.Tools, t.Members)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("write the lock: %w", err)
	}
	return b.Bytes(), nil
}

// Decode reads a lock file.
func Decode(b []byte) (*Catalog, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	var f struct {
		Format string            `json:"format"`
		Server string            `json:"server"`
		Tools  []json.RawMessage `json:"tools"`
	}
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("it is no lock file: %w", err)
	}
	if f.Format != Format {
		return nil, fmt.Errorf("its format is %.40q, and this m3 reads %q", f.Format, Format)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is no lock file: there is more after the JSON value")
	}
	raw := make([][]byte, len(f.Tools))
	for i, t := range f.Tools {
		raw[i] = t
	}
	return New(f.Server, raw)
}
