// Package modelfile reads the scripts of models from files in YAML or JSON. It is apart from package model so that a test that writes its scripts in Go links no YAML.
package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/m3-go/m3/model"
)

// maxFile bounds a file, in bytes.
const maxFile = 8 << 20

// Error is why a file is no script. Err is a *model.ScriptError when the text is readable and the script is wrong.
type Error struct {
	// File is the name that was given, "" for none.
	File string
	// Line is where the trouble is, from 1; 0 when it is not known.
	Line int
	Err  error
}

func (e *Error) Error() string {
	where := e.File
	if where == "" {
		where = "script"
	}
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	return where + ": " + strings.TrimPrefix(e.Err.Error(), "model: ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Load reads a script from a file. A name that ends in .json is read as JSON, any other as YAML. Its errors are an *[Error] or those of the file system.
func Load(path string) (model.Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(filepath.Ext(path), ".json") {
		return fromJSON(path, data, nil)
	}
	return Parse(path, data)
}

// Parse reads a script from YAML, which JSON is too: one document, a list of steps in the form of [model.ParseScript]. The name is for errors.
func Parse(name string, data []byte) (model.Script, error) {
	text, root, err := toJSON(name, data)
	if err != nil {
		return nil, err
	}
	return fromJSON(name, text, root)
}

// ToJSON is the JSON form of a YAML script, checked as [Parse] does: what one process hands on to another that reads no YAML.
func ToJSON(name string, data []byte) ([]byte, error) {
	text, root, err := toJSON(name, data)
	if err != nil {
		return nil, err
	}
	if _, err := fromJSON(name, text, root); err != nil {
		return nil, err
	}
	return text, nil
}

func fromJSON(name string, text []byte, root *yaml.Node) (model.Script, error) {
	script, err := model.ParseScript(text)
	if err == nil {
		return script, nil
	}
	e := &Error{File: name, Err: err}
	var se *model.ScriptError
	if root != nil && errors.As(err, &se) {
		e.Line = lineOf(root, se)
	}
	return nil, e
}

func toJSON(name string, data []byte) ([]byte, *yaml.Node, error) {
	if len(data) > maxFile {
		return nil, nil, &Error{File: name, Err: fmt.Errorf("it is larger than %d MiB", maxFile>>20)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil, &Error{File: name, Err: errors.New("it is empty: a script is a list of steps")}
		}
		return nil, nil, yamlError(name, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, nil, &Error{File: name, Line: more.Line, Err: errors.New("a second document follows: a script is one")}
	}
	c := &converter{name: name}
	if err := c.value(&doc, 0); err != nil {
		return nil, nil, err
	}
	return c.out.Bytes(), doc.Content[0], nil
}

// yamlError takes the line out of an error of the YAML reader, which has it only in its text.
func yamlError(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{File: name, Err: fmt.Errorf("it is not YAML: %s", text)}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, msg, ok := strings.Cut(rest, ": "); ok {
			if n, convErr := strconv.Atoi(number); convErr == nil {
				e.Line, e.Err = n, fmt.Errorf("it is not YAML: %s", msg)
			}
		}
	}
	return e
}

// lineOf is the line of what a ScriptError is about, as near as the file has it.
func lineOf(root *yaml.Node, e *model.ScriptError) int {
	if e.Step < 1 || root.Kind != yaml.SequenceNode || e.Step > len(root.Content) {
		return root.Line
	}
	n := root.Content[e.Step-1]
	for _, name := range strings.FieldsFunc(e.Path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next := child(n, name)
		if next == nil {
			break
		}
		n = next
	}
	return n.Line
}

func child(n *yaml.Node, name string) *yaml.Node {
	if i, err := strconv.Atoi(name); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i]
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
