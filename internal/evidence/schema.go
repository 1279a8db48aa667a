package evidence

import "bytes"

// role is what a key means to the scanner besides being sensitive or not.
type role uint8

const (
	roleName       role = iota + 1 // the name of a name/value pair
	roleValue                      // its value
	roleSchema                     // a JSON Schema stands under it
	roleProperties                 // the properties of a JSON Schema
	roleType                       // its type
	roleDialect                    // its $schema
	roleList                       // a keyword whose value is a list
	roleSub                        // a keyword whose value is an object, a list or true or false
	roleRef                        // a keyword whose value is a string
)

// flags are what is known about a container from its members.
type flags uint16

const (
	secretName flags = 1 << iota // its name is sensitive: so is its value
	hasProperties
	hasType
	hasObjectType
	hasKeyword
	hasDialect
	hasMetaschema
	hasStrings // strings stand directly in it, which cannot be under "properties" of a schema
	noSchema
)

// roleOf knows the keys of pairs, and those of MCP, model providers and JSON Schema.
func roleOf(key []byte) role {
	switch string(key) {
	case "name", "Name", "key", "Key":
		return roleName
	case "value", "Value":
		return roleValue
	case "inputSchema", "outputSchema", "requestedSchema", "input_schema", "output_schema", "requested_schema", "schema", "json_schema",
		"parameters", "parametersJsonSchema":
		return roleSchema
	case "properties":
		return roleProperties
	case "type":
		return roleType
	case "$schema":
		return roleDialect
	case "required", "enum", "anyOf", "oneOf", "allOf", "prefixItems":
		return roleList
	case "items", "additionalProperties", "patternProperties", "$defs", "definitions", "not", "if", "then", "else", "propertyNames":
		return roleSub
	case "$ref":
		return roleRef
	}
	return 0
}

// noteMember notes a member of the innermost object: its key's role, the first byte of its value and, of a string, the
// content.
func (s *scanner) noteMember(role role, first byte, content []byte, level int) {
	c := s.top(level)
	if role == 0 || c == nil || c.kind != '{' {
		return
	}
	switch role {
	case roleProperties:
		if first == '{' {
			c.flags |= hasProperties
		}
	case roleType:
		if first == '[' || first == '"' && isTypeName(content) {
			c.flags |= hasType
		}
		if string(content) == "object" {
			c.flags |= hasObjectType
		}
	case roleDialect:
		c.flags |= hasDialect
		if bytes.Contains(content, []byte("json-schema.org")) {
			c.flags |= hasMetaschema
		}
	case roleList:
		if first == '[' {
			c.flags |= hasKeyword
		}
	case roleSub:
		if first != '"' {
			c.flags |= hasKeyword
		}
	case roleRef:
		c.flags |= hasKeyword
	}
}

func isTypeName(b []byte) bool {
	switch string(b) {
	case "object", "array", "string", "number", "integer", "boolean", "null":
		return true
	}
	return false
}

// isSchema reports whether the container is a JSON Schema: by its place and looks, or by its looks alone. A settings file
// that names its own schema under $schema is none.
func (c *container) isSchema() bool {
	if c.kind != '{' || c.flags&noSchema != 0 {
		return false
	}
	looks := c.flags&(hasProperties|hasType|hasKeyword) != 0
	return c.flags&hasMetaschema != 0 || looks && (c.role == roleSchema || c.flags&hasDialect != 0) ||
		c.flags&hasProperties != 0 && c.flags&(hasObjectType|hasKeyword) != 0
}
