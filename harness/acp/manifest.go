package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// The constant members of a manifest.
const (
	// ManifestVersion is the schema_version.
	ManifestVersion  = "m3.harness.v1"
	manifestProtocol = "acp"
)

const (
	maxManifest = 1 << 20 // bytes of a file
	maxCommand  = 1000    // characters
)

var (
	childName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)
)

// accessToken is m3's own secret. It is never an agent's.
const accessToken = "M3_ACCESS_TOKEN"

// Manifest is an agent as a file of the format m3.harness.v1 describes it: what is started, and which variables it gets, by reference. The format has nothing else: modes, options and
// literals are the business of [Config].
type Manifest struct {
	// SchemaVersion is [ManifestVersion], Protocol "acp", ProtocolVersion 1. Empty or zero means that in a Manifest made in Go; a file must have them.
	SchemaVersion   string
	Protocol        string
	ProtocolVersion int
	// Command is an absolute path or a name in PATH, 1 to 1000 characters.
	Command string
	Args    []string
	// Env gives the agent variables: its name for it, and "${NAME}", the variable of m3's environment that it comes from. A literal is refused.
	Env map[string]string
}

// ManifestError says what is wrong with a manifest.
type ManifestError struct {
	Source string // the path, "-" for standard input, "" when it was no file
	// Field is the member at fault, "" for the file as a whole.
	Field  string
	Reason string
	Err    error
}

// Error names the file, the member and what is wrong with it.
func (e *ManifestError) Error() string {
	var b strings.Builder
	b.WriteString("harness manifest")
	if e.Source != "" {
		b.WriteString(" " + e.Source)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return b.String() + ": " + e.Reason
}

// Unwrap returns the cause.
func (e *ManifestError) Unwrap() error { return e.Err }

// Is makes every ManifestError match [trace.ErrValidation].
func (e *ManifestError) Is(target error) bool { return target == trace.ErrValidation }

func wrong(field, format string, args ...any) *ManifestError {
	return &ManifestError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// LoadManifest reads and checks the manifest in a file, "-" for standard input. It looks nothing up and starts nothing. Its errors are *[ManifestError].
func LoadManifest(path string) (*Manifest, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, &ManifestError{Source: path, Reason: err.Error(), Err: err}
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err != nil {
		return nil, &ManifestError{Source: path, Reason: err.Error(), Err: err}
	}
	m, err := ParseManifest(b)
	if e, ok := errors.AsType[*ManifestError](err); ok {
		e.Source = path
	}
	return m, err
}

// ParseManifest decodes and checks a manifest. It is strict: an unknown or repeated member, a missing one, a value of another type and anything after the object are errors, each a
// *[ManifestError] that names the member.
func ParseManifest(b []byte) (*Manifest, error) {
	if len(b) > maxManifest {
		return nil, wrong("", "more than %d bytes", maxManifest)
	}
	if !utf8.Valid(b) || !json.Valid(b) {
		return nil, wrong("", "no JSON in UTF-8")
	}
	if err := repeated(b); err != nil {
		return nil, err
	}
	members := raw(bytes.TrimSpace(b)).obj()
	if members == nil {
		return nil, wrong("", "no JSON object")
	}
	m := &Manifest{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := m.member(name, members[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"schema_version", "protocol", "protocol_version", "command"} {
		if _, has := members[name]; !has {
			return nil, wrong(name, "missing")
		}
	}
	if m.ProtocolVersion == 0 || m.SchemaVersion == "" || m.Protocol == "" { // zero means the default in Go, not in a file
		return nil, wrong("", "schema_version must be %q, protocol %q, protocol_version 1", ManifestVersion, manifestProtocol)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// member takes one member of the file.
func (m *Manifest) member(name string, value raw) error {
	var target any
	switch name {
	case "schema_version":
		target = &m.SchemaVersion
	case "protocol":
		target = &m.Protocol
	case "protocol_version":
		target = &m.ProtocolVersion
	case "command":
		target = &m.Command
	case "args":
		target = &m.Args
	case "env":
		target = &m.Env
	default:
		return wrong(name, "unknown; the members are schema_version, protocol, protocol_version, command, args, env")
	}
	if value.null() || json.Unmarshal(value, target) != nil {
		return wrong(name, "of the wrong type")
	}
	for _, v := range value.list() { // a null would pass for an empty string
		if v.null() {
			return wrong(name, "of the wrong type")
		}
	}
	for _, v := range value.obj() {
		if v.null() {
			return wrong(name, "of the wrong type")
		}
	}
	return nil
}

// repeated refuses a member that stands twice in one object.
func repeated(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	type level struct {
		names map[string]bool // nil in an array
		name  bool            // a name comes next
	}
	var stack []level
	for {
		t, err := d.Token()
		if err != nil {
			return nil // the end
		}
		top := len(stack) - 1
		switch t {
		case json.Delim('{'):
			stack = append(stack, level{map[string]bool{}, true})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
			top--
		default:
			if top >= 0 && stack[top].name {
				name := t.(string)
				if stack[top].names[name] {
					return wrong(name, "given twice")
				}
				stack[top].names[name], stack[top].name = true, false
				continue
			}
		}
		if top >= 0 && stack[top].names != nil {
			stack[top].name = true
		}
	}
}

// Validate says what is wrong with the manifest; the error is a *[ManifestError]. It looks nothing up: see [Manifest.CheckLocal].
func (m *Manifest) Validate() error {
	switch {
	case m.SchemaVersion != "" && m.SchemaVersion != ManifestVersion:
		return wrong("schema_version", "%q: this version of m3 knows %q", m.SchemaVersion, ManifestVersion)
	case m.Protocol != "" && m.Protocol != manifestProtocol:
		return wrong("protocol", "%q: must be %q", m.Protocol, manifestProtocol)
	case m.ProtocolVersion != 0 && m.ProtocolVersion != protocolVersion:
		return wrong("protocol_version", "%d: must be %d", m.ProtocolVersion, protocolVersion)
	}
	if n := utf8.RuneCountInString(m.Command); n < 1 || n > maxCommand || strings.ContainsRune(m.Command, 0) {
		return wrong("command", "must have 1 to %d characters, has %d", maxCommand, n)
	}
	for i, a := range m.Args {
		if strings.ContainsRune(a, 0) {
			return wrong(fmt.Sprintf("args[%d]", i), "has a NUL")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		if err := checkReference(name, m.Env[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkReference(name, value string) error {
	field := "env." + name
	if !childName.MatchString(name) {
		return wrong(field, "no name of a variable: letters, digits and _ only, not a digit first")
	}
	ref := reference.FindStringSubmatch(value)
	switch {
	case ref == nil: // the value may be a secret: it is not quoted
		return wrong(field, "must be a reference, ${NAME}: a literal does not belong into a manifest")
	case ref[1] == accessToken || name == accessToken:
		return wrong(field, "%s is m3's own and is given to no agent", accessToken)
	}
	return nil
}

// References are the variables of Env by the agent's name for each, with the name of the one that it comes from.
func (m *Manifest) References() map[string]string {
	refs := map[string]string{}
	for name, v := range m.Env {
		if ref := reference.FindStringSubmatch(v); ref != nil {
			refs[name] = ref[1]
		}
	}
	return refs
}

// CheckLocal says what the manifest needs and this machine has not: the program (code acp_executable_missing), variables (acp_environment_missing). It starts nothing. lookup is os.LookupEnv when nil.
func (m *Manifest) CheckLocal(lookup func(string) (string, bool)) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if _, err := exec.LookPath(m.Command); err != nil {
		return &ManifestError{Field: "command", Reason: fmt.Sprintf("acp_executable_missing: %s is not there, or not executable", m.Command), Err: err}
	}
	if missing := missingVariables(m.References(), lookup); len(missing) > 0 {
		return wrong("env", "acp_environment_missing: not set: %s", strings.Join(missing, ", "))
	}
	return nil
}

// missingVariables are the sources that are not set, sorted.
func missingVariables(refs map[string]string, lookup func(string) (string, bool)) []string {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	var missing []string
	for _, source := range refs {
		if _, set := lookup(source); !set && !slices.Contains(missing, source) {
			missing = append(missing, source)
		}
	}
	slices.Sort(missing)
	return missing
}

// Export returns the manifest as a file: members sorted, indented by two, a newline at the end. Equal manifests give equal bytes. The error is that of [Manifest.Validate].
func (m *Manifest) Export() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	args, env := m.Args, m.Env
	if args == nil {
		args = []string{}
	}
	if env == nil {
		env = map[string]string{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(map[string]any{ // a map is written sorted
		"schema_version": ManifestVersion, "protocol": manifestProtocol, "protocol_version": protocolVersion,
		"command": m.Command, "args": args, "env": env,
	})
	return b.Bytes(), err
}

func (m *Manifest) clone() *Manifest {
	c := *m
	c.Args, c.Env = slices.Clone(m.Args), maps.Clone(m.Env)
	return &c
}
