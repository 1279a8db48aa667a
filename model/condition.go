package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Condition is what a step demands of the request that takes it. It is made by [Text], [Result], [System], [Absent], [Offers], [Lacks] and [OffersOnly]; the zero
// value demands nothing. All texts are compared exactly, as parts of what they are looked for in.
type Condition struct {
	text, result, system, absent []string
	offers, lacks, only          []string // only: nil demands nothing
}

// Text demands that what the user said in the current turn contains s. Agents wrap it in text of their own.
func Text(s string) Condition { return Condition{text: []string{s}} }

// Result demands that a result of the calls of the last answer contains s.
func Result(s string) Condition { return Condition{result: []string{s}} }

// System demands that the system prompt contains s.
func System(s string) Condition { return Condition{system: []string{s}} }

// Absent demands that s stands nowhere in the request: no secret, no file of the user's.
func Absent(s string) Condition { return Condition{absent: []string{s}} }

// Offers demands that the tools are offered: "server:tool", or a name as the agent offers it.
func Offers(tools ...string) Condition { return Condition{offers: slices.Clone(tools)} }

// Lacks demands that none of the tools is offered: "server:tool", or a name as the agent offers it.
func Lacks(tools ...string) Condition { return Condition{lacks: slices.Clone(tools)} }

// OffersOnly demands that exactly these tools are offered, and no other, built-in ones included; without arguments: none at all.
func OffersOnly(tools ...string) Condition { return Condition{only: append([]string{}, tools...)} }

func (c Condition) and(d Condition) Condition {
	join := func(a, b []string) []string { return append(slices.Clip(a), b...) }
	c.text, c.result, c.system, c.absent = join(c.text, d.text), join(c.result, d.result), join(c.system, d.system), join(c.absent, d.absent)
	c.offers, c.lacks = join(c.offers, d.offers), join(c.lacks, d.lacks)
	if d.only != nil {
		c.only = append(append([]string{}, c.only...), d.only...)
	}
	return c
}

// lists are the parts by their names in JSON.
func (c Condition) lists() map[string][]string {
	return map[string][]string{"text": c.text, "result": c.result, "system": c.system, "absent": c.absent, "offers": c.offers, "lacks": c.lacks, "only": c.only}
}

// unmet says which condition a request does not meet; empty: all are met.
func (c Condition) unmet(req *request, names *namer) string {
	for _, part := range []struct {
		want  []string
		in    []string
		where string
	}{{c.text, req.userTexts(), "what the user said"}, {c.result, req.freshResults(), "a tool result"}, {c.system, req.system, "the system prompt"}} {
		for _, s := range part.want {
			if !slices.ContainsFunc(part.in, func(t string) bool { return strings.Contains(t, s) }) {
				return fmt.Sprintf("%s does not contain %q; %s", part.where, short(s), found(part.in))
			}
		}
	}
	for _, s := range c.absent {
		if contains(req.body, s) {
			return fmt.Sprintf("the request contains %q, which must be absent", short(s))
		}
	}
	return c.unmetTools(req, names)
}

func (c Condition) unmetTools(req *request, names *namer) string {
	for _, t := range c.offers {
		if _, err := names.find(t, req.tools); err != nil {
			return err.Error()
		}
	}
	for _, t := range c.lacks {
		if tool, err := names.find(t, req.tools); err == nil || isAmbiguous(err) {
			return fmt.Sprintf("the tool %s is offered (as %s) and must not be", t, tool)
		}
	}
	if c.only == nil {
		return ""
	}
	var want []offered
	for _, t := range c.only {
		tool, err := names.find(t, req.tools)
		if err != nil {
			return err.Error()
		}
		want = append(want, tool)
	}
	for _, t := range req.tools {
		if !slices.Contains(want, t) {
			return fmt.Sprintf("the tool %s is offered besides the only ones that may be", t)
		}
	}
	return ""
}

func found(in []string) string {
	if len(in) == 0 {
		return "there is none"
	}
	return fmt.Sprintf("the last is %q", short(in[len(in)-1]))
}

// contains looks for s in a JSON text, as it stands and as JSON writes it.
func contains(body []byte, s string) bool {
	if bytes.Contains(body, []byte(s)) {
		return true
	}
	for _, quote := range []func(any) ([]byte, error){encode, json.Marshal} {
		if q, err := quote(s); err == nil && bytes.Contains(body, q[1:len(q)-1]) {
			return true
		}
	}
	return false
}
