package modelfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth bounds how deep a file nests, and with it a chain of aliases.
	maxDepth = 200
	// maxJSON bounds what a file becomes: aliases of aliases grow without end.
	maxJSON = 16 << 20
)

// converter writes YAML as JSON. What JSON does not have, and what YAML would guess, is an error with its line.
type converter struct {
	name string
	out  bytes.Buffer
}

func (c *converter) errorf(n *yaml.Node, format string, args ...any) error {
	return &Error{File: c.name, Line: n.Line, Err: fmt.Errorf(format, args...)}
}

func (c *converter) value(n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return c.errorf(n, "it nests deeper than %d", maxDepth)
	case c.out.Len() > maxJSON:
		return c.errorf(n, "with its aliases it is larger than %d MiB", maxJSON>>20)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return c.value(n.Content[0], depth+1)
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		return c.sequence(n, depth)
	case yaml.MappingNode:
		return c.mapping(n, depth)
	}
	return c.scalar(n)
}

func (c *converter) sequence(n *yaml.Node, depth int) error {
	c.out.WriteByte('[')
	for i, v := range n.Content {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.value(v, depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte(']')
	return nil
}

func (c *converter) mapping(n *yaml.Node, depth int) error {
	c.out.WriteByte('{')
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			return c.errorf(key, "a name is text: write %q in quotes", key.Value)
		case seen[key.Value]:
			return c.errorf(key, "the member %q is there twice", key.Value)
		}
		seen[key.Value] = true
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.text(key.Value)
		c.out.WriteByte(':')
		if err := c.value(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return nil
}

func (c *converter) text(s string) {
	b, _ := json.Marshal(s) // of a string there is no error
	c.out.Write(b)
}

// number is what JSON and YAML write alike.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (c *converter) scalar(n *yaml.Node) error {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		c.text(n.Value)
	case "!!null":
		c.out.WriteString("null")
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return c.errorf(n, "%q is neither true nor false", n.Value)
		}
		fmt.Fprintf(&c.out, "%t", b)
	case "!!int", "!!float":
		return c.number(n)
	default:
		return c.errorf(n, "a script has no value of type %s", tag)
	}
	return nil
}

// number keeps a number as it is written, where JSON writes it so too.
func (c *converter) number(n *yaml.Node) error {
	if number.MatchString(n.Value) {
		c.out.WriteString(n.Value)
		return nil
	}
	var i int64
	if n.ShortTag() == "!!int" && n.Decode(&i) == nil {
		fmt.Fprintf(&c.out, "%d", i)
		return nil
	}
	var f float64
	if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return c.errorf(n, "%q is no number that JSON has", n.Value)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return c.errorf(n, "%q is no number that JSON has", n.Value)
	}
	c.out.Write(b)
	return nil
}
