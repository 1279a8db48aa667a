package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas validates messages against the official schemas. It is nil when they are not there.
type schemas struct {
	compiled map[string]map[string]*jsonschema.Schema // by version, then by method or definition
}

// refuseLoader refuses every fetch.
type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) { return nil, fmt.Errorf("no fetching: %s", url) }

var loadSchemas = sync.OnceValues(func() (*schemas, error) {
	s := &schemas{compiled: map[string]map[string]*jsonschema.Schema{}}
	for _, version := range Versions {
		b, err := os.ReadFile(filepath.Join(schemaDir, version+".json"))
		if os.IsNotExist(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if s.compiled[version], err = compileSchema(version, b); err != nil {
			return nil, err
		}
	}
	return s, nil
})

// compileSchema compiles the definition of every request and notification, under its method, and those of the answers, under their name.
func compileSchema(version string, b []byte) (map[string]*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuseLoader{})
	url := "m3:" + version
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	key := "$defs"
	defs, ok := doc.(map[string]any)[key].(map[string]any)
	if !ok {
		key = "definitions"
		defs, _ = doc.(map[string]any)[key].(map[string]any)
	}
	out := map[string]*jsonschema.Schema{}
	for name, def := range defs {
		at := name
		if m := methodOf(def); m != "" {
			at = m
		}
		if out[at], err = c.Compile(url + "#/" + key + "/" + name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func methodOf(def any) string {
	props, _ := def.(map[string]any)["properties"].(map[string]any)
	method, _ := props["method"].(map[string]any)
	m, _ := method["const"].(string)
	return m
}

// check validates one message under a method's or definition's schema.
func (s *schemas) check(t *testing.T, version, def string, message []byte) {
	t.Helper()
	schema := s.compiled[version][def]
	if schema == nil {
		t.Errorf("%s has no %s, but m3 sent %s", version, def, message)
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(message))
	if err != nil {
		t.Errorf("m3 sent no JSON: %s", message)
		return
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("m3 sent what the schema of %s refuses: %s\n%v", version, message, err)
	}
}

// resultDefs names the definition of m3's answer to each request of a server.
var resultDefs = map[string]string{
	"ping": "EmptyResult", "sampling/createMessage": "CreateMessageResult", "roots/list": "ListRootsResult", "elicitation/create": "ElicitResult",
}

// checkSent validates every message that m3 sent on a tape. The version of the set-up stands in the messages themselves;
// what comes after has the session's, which is empty when there never was one.
func (r *rig) checkSent(version string) {
	r.t.Helper()
	s, err := loadSchemas()
	if err != nil {
		r.t.Fatal(err)
	}
	if s == nil {
		if os.Getenv("M3_REQUIRE_SHARED") == "1" {
			r.t.Error("M3_REQUIRE_SHARED=1, and the official schemas are not beside this repository: " + schemaDir)
		}
		r.t.Log("messages were not checked: the official schemas are not beside this repository: " + schemaDir)
		return
	}
	asked := map[string]string{} // method of each request of the server by id
	for _, m := range r.messages() {
		if m.received {
			if m.Method != "" && m.ID != nil {
				asked[string(m.ID)] = m.Method
			}
			continue
		}
		switch {
		case m.Method == "initialize":
			var p struct{ ProtocolVersion string }
			if err := json.Unmarshal(m.Params, &p); err != nil {
				r.t.Fatal(err)
			}
			s.check(r.t, p.ProtocolVersion, m.Method, m.raw)
		case m.Method == "server/discover":
			s.check(r.t, Version20260728, m.Method, m.raw)
		case version == "":
		case m.Method != "":
			s.check(r.t, version, m.Method, m.raw)
		case m.Error != nil && version < Version20251125:
			s.check(r.t, version, "JSONRPCError", m.raw)
		case m.Error != nil:
			s.check(r.t, version, "JSONRPCErrorResponse", m.raw)
		default:
			s.check(r.t, version, resultDefs[asked[string(m.ID)]], m.Result)
		}
	}
}
