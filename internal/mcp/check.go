package mcp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/m3-go/m3/trace"
)

// Defect is one place where a result does not have the shape that the protocol defines.
type Defect struct {
	Pointer string // RFC 6901, in the result
	Message string // what is wrong there, as the end of a sentence: "is null, not an array"
}

// maxDefects is how many defects of one result are looked for.
const maxDefects = 100

// kind is a set of JSON types.
type kind uint8

const (
	isString kind = 1 << iota
	isObject
	isArray
	isBool
	isNumber
	isNull
	isAbsent
)

// rule says what one member must be.
type rule struct {
	name string
	want kind
	word string // for want, in a message
	// filled says that an empty string is as bad as none.
	filled bool
}

// shape is the structure of a method's result: what its members must be, and those of each element of its list.
type shape struct {
	list    string
	missing bool // the list may be absent
	rules   []rule
	element []rule
}

func optionalText(name string) rule {
	return rule{name: name, want: isString | isNull | isAbsent, word: "a string"}
}

func named(name string) rule {
	return rule{name: name, want: isString, word: "a string", filled: true}
}

// shapeOf is the shape of a method's result; nil for one that is not looked at. It holds what every version agrees on, and what m3's own results
// are read from.
func shapeOf(method string) *shape {
	switch method {
	case "tools/call":
		return shapeCall
	case "tools/list":
		return shapeTools
	case "resources/list":
		return shapeResources
	case "resources/templates/list":
		return shapeTemplates
	case "resources/read":
		return shapeRead
	case "prompts/list":
		return shapePrompts
	case "prompts/get":
		return shapePrompt
	}
	return nil
}

var (
	listRules = []rule{optionalText("nextCursor")}

	shapeCall = &shape{list: "content", missing: true,
		rules:   []rule{{name: "isError", want: isBool | isNull | isAbsent, word: "true or false"}},
		element: []rule{named("type"), optionalText("text")}}
	shapeTools = &shape{list: "tools", rules: listRules, element: []rule{named("name"), optionalText("title"), optionalText("description"),
		{name: "inputSchema", want: isObject | isAbsent, word: "an object"}, {name: "outputSchema", want: isObject | isNull | isAbsent, word: "an object"}}}
	shapeResources = &shape{list: "resources", rules: listRules, element: []rule{named("uri"), optionalText("name"), optionalText("title"),
		optionalText("description"), optionalText("mimeType"), {name: "size", want: isNumber | isNull | isAbsent, word: "a number"}}}
	shapeTemplates = &shape{list: "resourceTemplates", rules: listRules, element: []rule{named("uriTemplate"), optionalText("name"),
		optionalText("title"), optionalText("description"), optionalText("mimeType")}}
	shapeRead    = &shape{list: "contents", element: []rule{named("uri"), optionalText("mimeType"), optionalText("text"), optionalText("blob")}}
	shapePrompts = &shape{list: "prompts", rules: listRules, element: []rule{named("name"), optionalText("title"), optionalText("description"),
		{name: "arguments", want: isArray | isNull | isAbsent, word: "an array"}}}
	shapePrompt = &shape{list: "messages", rules: []rule{optionalText("description")},
		element: []rule{{name: "role", want: isString, word: "a string"}, {name: "content", want: isObject, word: "an object"}}}
)

// CheckResult returns where the result of a method does not have the shape that the protocol defines: nil for a good one, for a method that it
// does not know, and for a result that is no object or asks for input. It scans the result, which must be valid JSON, and looks only at
// structure; at most 100 defects are returned.
func CheckResult(method string, result trace.JSON) []Defect {
	s := shapeOf(method)
	if s == nil {
		return nil
	}
	c := checker{shape: s, b: result}
	if _, whole := members(result, skipSpace(result, 0), c.member); !whole || c.partial {
		return nil
	}
	found := missing(s.rules, c.seen, c.own)
	if !c.listed && !s.missing {
		found = append(found, Defect{"/" + s.list, "is missing"})
	}
	return append(found, c.items...)
}

// checker is one CheckResult at work. It goes over the result once: a tool's text may be megabytes.
type checker struct {
	*shape
	b          []byte
	own, items []Defect
	seen       uint // of rules
	listed     bool
	partial    bool // it asks for input, or is something else that is not complete
}

// member takes a member of the result, and returns the index after its value.
func (c *checker) member(key []byte, at int) int {
	if keyIs(key, c.list) {
		c.listed, c.items = true, nil // the last one of that name counts
		return c.takeList(at)
	}
	stop := skipValue(c.b, at)
	if value := c.b[at:stop]; keyIs(key, "resultType") {
		c.partial = text(value) != ResultComplete
	} else {
		c.seen |= checkMember(c.rules, key, value, &c.own)
	}
	return stop
}

func (c *checker) takeList(at int) int {
	if at < len(c.b) && c.b[at] == '[' {
		stop, _ := elements(c.b, at, c.item)
		return stop
	}
	stop := skipValue(c.b, at)
	c.items = append(c.items, Defect{"/" + c.list, "is " + describeValue(c.b[at:stop]) + ", not an array"})
	return stop
}

// item takes one element of the list.
func (c *checker) item(n, at int) int {
	if len(c.items) >= maxDefects {
		return skipValue(c.b, at)
	}
	if at >= len(c.b) || c.b[at] != '{' {
		stop := skipValue(c.b, at)
		c.items = append(c.items, Defect{pointer(c.list, n), "is " + describeValue(c.b[at:stop]) + ", not an object"})
		return stop
	}
	var bad []Defect
	var seen uint
	stop, _ := members(c.b, at, func(key []byte, at int) int {
		stop := skipValue(c.b, at)
		seen |= checkMember(c.element, key, c.b[at:stop], &bad)
		return stop
	})
	for _, d := range missing(c.element, seen, bad) {
		c.items = append(c.items, Defect{pointer(c.list, n) + d.Pointer, d.Message})
	}
	return stop
}

func pointer(list string, i int) string { return "/" + list + "/" + strconv.Itoa(i) }

// checkMember checks one member, and returns the bit of its rule.
func checkMember(rules []rule, key, value []byte, found *[]Defect) uint {
	for i := range rules {
		r := &rules[i]
		if !keyIs(key, r.name) {
			continue
		}
		if kindOf(value)&r.want == 0 {
			*found = append(*found, Defect{"/" + r.name, "is " + describeValue(value) + ", not " + r.word})
		} else if r.filled && len(value) == len(`""`) {
			*found = append(*found, Defect{"/" + r.name, "is empty"})
		}
		return 1 << i
	}
	return 0
}

// missing adds the members that must be there and are not.
func missing(rules []rule, seen uint, found []Defect) []Defect {
	for i := range rules {
		if r := &rules[i]; seen&(1<<i) == 0 && r.want&isAbsent == 0 {
			found = append(found, Defect{"/" + r.name, "is missing"})
		}
	}
	return found
}

// kindOf tells the type of a JSON value by how it begins.
func kindOf(v []byte) kind {
	if len(v) == 0 {
		return isAbsent
	}
	switch v[0] {
	case '"':
		return isString
	case '{':
		return isObject
	case '[':
		return isArray
	case 't', 'f':
		return isBool
	case 'n':
		return isNull
	}
	return isNumber
}

// describeValue names what stands in the place of something else, without its content.
func describeValue(v []byte) string {
	switch kindOf(v) {
	case isAbsent:
		return "missing"
	case isString:
		return "a string"
	case isObject:
		return "an object"
	case isArray:
		return "an array"
	case isBool:
		return string(v)
	case isNull:
		return "null"
	}
	return "a number"
}

// defectsText is the message of the finding about a result.
func defectsText(method string, defects []Defect) string {
	const most = 5
	var parts []string
	for _, d := range defects[:min(len(defects), most)] {
		parts = append(parts, d.Pointer+" "+d.Message)
	}
	text := fmt.Sprintf("the result of %s does not have the shape that the protocol defines: %s", method, strings.Join(parts, "; "))
	switch n := len(defects) - most; {
	case len(defects) >= maxDefects:
		text += fmt.Sprintf("; and at least %d more", n)
	case n > 0:
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// clauseOf is the place in the specification that defines a method's result.
func clauseOf(method string) string {
	area, _, _ := strings.Cut(method, "/")
	return "server/" + area
}
