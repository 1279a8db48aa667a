package mcp

import (
	"encoding/json"
	"strings"

	"github.com/m3-go/m3/trace"
)

// Info is what a server said of itself when the session began.
type Info struct {
	ProtocolVersion string // the session's
	ServerName      string
	ServerVersion   string
	Instructions    string
	Capabilities    trace.JSON // as on the wire; nil when the server sent none
	Raw             trace.JSON // the whole result of initialize or server/discover
	// ServerKnown says that the server named itself (2026-07-28 leaves that open).
	ServerKnown bool
	// Legacy says that the session began with initialize.
	Legacy bool
	// Supported lists the versions that server/discover named.
	Supported []string
}

// faults collects what a result lacks and what has the wrong type.
type faults struct {
	missing, wrong []string
}

// text reads a string member. where names it in a finding.
func (f *faults) text(obj []byte, name, where string, required bool) (string, bool) {
	v := member(obj, name)
	switch {
	case v == nil && required:
		f.missing = append(f.missing, where)
	case v != nil && v[0] != '"':
		f.wrong = append(f.wrong, where)
	case v != nil:
		return text(v), true
	}
	return "", false
}

// object reads an object member.
func (f *faults) object(obj []byte, name, where string, required bool) trace.JSON {
	v := member(obj, name)
	switch {
	case v == nil && required:
		f.missing = append(f.missing, where)
	case v != nil && v[0] != '{':
		f.wrong = append(f.wrong, where)
	case v != nil:
		return v
	}
	return nil
}

// server reads an Implementation.
func (f *faults) server(info *Info, obj trace.JSON, where string) {
	if obj == nil {
		return
	}
	info.ServerKnown = true
	info.ServerName, _ = f.text(obj, "name", where+".name", true)
	info.ServerVersion, _ = f.text(obj, "version", where+".version", true)
}

// readInitialize reads the result of initialize. A missing protocolVersion leaves Info's empty.
func readInitialize(result trace.JSON) (*Info, *faults) {
	f := &faults{}
	info := &Info{Raw: result, Legacy: true}
	info.ProtocolVersion, _ = f.text(result, "protocolVersion", "protocolVersion", true)
	info.Capabilities = f.object(result, "capabilities", "capabilities", true)
	f.server(info, f.object(result, "serverInfo", "serverInfo", true), "serverInfo")
	info.Instructions, _ = f.text(result, "instructions", "instructions", false)
	return info, f
}

// readDiscover reads the result of server/discover. Info's ProtocolVersion is left to the caller.
func readDiscover(result trace.JSON) (*Info, *faults) {
	f := &faults{}
	info := &Info{Raw: result}
	info.Supported = f.versions(result)
	info.Capabilities = f.object(result, "capabilities", "capabilities", true)
	f.text(result, "resultType", "resultType", true)
	f.text(result, "cacheScope", "cacheScope", true)
	f.number(result, "ttlMs")
	info.Instructions, _ = f.text(result, "instructions", "instructions", false)
	if m := f.object(result, "_meta", "_meta", false); m != nil {
		f.server(info, f.object(m, metaServerInfo, "_meta."+metaServerInfo, false), "_meta."+metaServerInfo)
	}
	return info, f
}

func (f *faults) versions(result trace.JSON) []string {
	v := member(result, "supportedVersions")
	if v == nil {
		f.missing = append(f.missing, "supportedVersions")
		return nil
	}
	var list []string
	if json.Unmarshal(v, &list) != nil {
		f.wrong = append(f.wrong, "supportedVersions")
		return nil
	}
	return list
}

func (f *faults) number(result trace.JSON, name string) {
	v := member(result, name)
	if v == nil {
		f.missing = append(f.missing, name)
	} else if v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		f.wrong = append(f.wrong, name)
	}
}

// findings turns the faults of a result into findings, one for what is missing and one for what has the wrong type.
func (f *faults) findings(method, code, clause string, sequence int64, id trace.RPCID) []trace.Finding {
	var found []trace.Finding
	add := func(suffix, what string, names []string) {
		if len(names) > 0 {
			found = append(found, trace.Finding{
				Code: code + suffix, Severity: trace.SeverityError, Sequence: sequence, Offset: -1, RPCID: id, Clause: clause,
				Message: "the result of " + method + what + strings.Join(names, ", "),
			})
		}
	}
	add("-incomplete", " lacks ", f.missing)
	add("-invalid", " has members of the wrong JSON type: ", f.wrong)
	return found
}

// payload is the mcp.initialized event's: the fields of [trace.InitializationEntry] without its Base.
func (i *Info) payload() trace.JSON {
	b, err := json.Marshal(struct {
		ProtocolVersion trace.Observation[string]     `json:"protocol_version"`
		ServerName      trace.Observation[string]     `json:"server_name"`
		ServerVersion   trace.Observation[string]     `json:"server_version"`
		Instructions    trace.Observation[string]     `json:"instructions"`
		Capabilities    trace.Observation[trace.JSON] `json:"capabilities"`
	}{
		observe(i.ProtocolVersion), observe(i.ServerName), observe(i.ServerVersion), observe(i.Instructions), observeJSON(i.Capabilities),
	})
	if err != nil { // the capabilities are not JSON: rpc would not have taken them for a result
		return nil
	}
	return b
}

func observe(s string) trace.Observation[string] {
	if s == "" {
		return trace.Absent[string](trace.NotEmitted, trace.ReasonProviderDidNotEmit)
	}
	return trace.Observe(s)
}

func observeJSON(v trace.JSON) trace.Observation[trace.JSON] {
	if v == nil {
		return trace.Absent[trace.JSON](trace.NotEmitted, trace.ReasonProviderDidNotEmit)
	}
	return trace.Observe(v)
}
