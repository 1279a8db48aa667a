package mcp

import "github.com/m3-go/m3/trace"

// What a relay needs of this package: to find members in messages that pass, and to read what a server says of itself.

// WalkMembers walks the JSON object that starts at b[i]. It calls fn with each key as it stands, quotes included, and where its value starts; fn returns
// the index after the value, for which there is [SkipValue]. The result is the index after the object, and whether there was one. b must be valid JSON.
func WalkMembers(b []byte, i int, fn func(key []byte, at int) int) (int, bool) {
	return members(b, i, fn)
}

// WalkElements walks the JSON array that starts at b[i], as [WalkMembers] does an object.
func WalkElements(b []byte, i int, fn func(n, at int) int) (int, bool) { return elements(b, i, fn) }

// SkipValue returns the index after the JSON value that starts at b[i].
func SkipValue(b []byte, i int) int { return skipValue(b, i) }

// SkipSpace returns the index of the first byte from b[i] on that is no white space.
func SkipSpace(b []byte, i int) int { return skipSpace(b, i) }

// Text returns the value of a JSON string, quotes included in s; of anything else the text itself.
func Text(s []byte) string { return text(s) }

// Member returns the value of the object's member, nil when there is none. Of duplicates the last one counts.
func Member(obj []byte, name string) []byte { return member(obj, name) }

// ReadInfo reads what a server says of itself in a result of initialize or server/discover. The version of the latter is that of the request.
func ReadInfo(method string, params, result trace.JSON) *Info {
	if method == "initialize" {
		info, _ := readInitialize(result)
		return info
	}
	info, _ := readDiscover(result)
	info.ProtocolVersion, _ = textMember(member(params, "_meta"), metaProtocol)
	return info
}

// Payload is that of the mcp.initialized event.
func (i *Info) Payload() trace.JSON { return i.payload() }

// ClientOf returns the name and the version that a client gives in the params of initialize, or in the _meta of a later era's request.
func ClientOf(params trace.JSON) (name, version string) {
	who := member(params, "clientInfo")
	if who == nil {
		who = member(member(params, "_meta"), metaClientInfo)
	}
	name, _ = textMember(who, "name")
	version, _ = textMember(who, "version")
	return name, version
}
