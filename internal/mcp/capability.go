package mcp

import "github.com/m3-go/m3/trace"

// Capabilities is what the client declares that it can do for a server. The zero value declares nothing.
type Capabilities struct {
	Sampling bool
	Roots    bool
	// RootsListChanged says that notifications/roots/list_changed will be sent (not from 2026-07-28 on). It implies Roots.
	RootsListChanged bool
	// ElicitForm and ElicitURL are the two modes of elicitation. Before 2025-11-25 there was only the form, before 2025-06-18 neither:
	// what a version does not know is not declared to it.
	ElicitForm bool
	ElicitURL  bool
	// Extensions is a JSON object: the settings of each extension by its identifier. It is declared from 2026-07-28 on; nil declares none.
	Extensions trace.JSON
}

// any reports whether the server may ask the client for anything.
func (c *Capabilities) any() bool {
	return c.Sampling || c.Roots || c.RootsListChanged || c.ElicitForm || c.ElicitURL
}

// append appends the ClientCapabilities object of the protocol version.
func (c *Capabilities) append(dst []byte, protocol string) []byte {
	dst = append(dst, '{')
	first := len(dst)
	if e := c.elicitation(protocol); e != "" {
		dst = appendMember(dst, first, []byte(`"elicitation"`), []byte(e))
	}
	if c.Extensions != nil && Modern(protocol) {
		dst = appendMember(dst, first, []byte(`"extensions"`), c.Extensions)
	}
	if c.RootsListChanged && !Modern(protocol) {
		dst = appendMember(dst, first, []byte(`"roots"`), []byte(`{"listChanged":true}`))
	} else if c.Roots || c.RootsListChanged {
		dst = appendMember(dst, first, []byte(`"roots"`), []byte(`{}`))
	}
	if c.Sampling {
		dst = appendMember(dst, first, []byte(`"sampling"`), []byte(`{}`))
	}
	return append(dst, '}')
}

func (c *Capabilities) elicitation(protocol string) string {
	if protocol < Version20251125 {
		if c.ElicitForm && protocol >= Version20250618 {
			return `{}`
		}
		return ""
	}
	switch {
	case c.ElicitForm && c.ElicitURL:
		return `{"form":{},"url":{}}`
	case c.ElicitForm:
		return `{"form":{}}`
	case c.ElicitURL:
		return `{"url":{}}`
	}
	return ""
}

// declares reports whether the method that the server asks was declared to it.
func (c *Capabilities) declares(method, mode string) bool {
	switch method {
	case "sampling/createMessage":
		return c.Sampling
	case "roots/list":
		return c.Roots || c.RootsListChanged
	case "elicitation/create":
		if mode == "url" {
			return c.ElicitURL
		}
		return c.ElicitForm
	}
	return true
}
