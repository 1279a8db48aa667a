package m3

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/m3-go/m3/internal/wire"
)

// Server describes how to reach an MCP server: a [StdioServer], [HTTPServer], [HandlerServer] or [PipeServer]. It is a value that
// opens nothing; [Kit.Direct] connects. The set of implementations is closed.
type Server interface {
	// ServerName is the name under which the server appears in traces, results and qualified tool names.
	ServerName() string

	check() error
	// open makes one fresh connection.
	open(ctx context.Context, d *dialer, h wire.Handler) (wire.Transport, error)
	// describe writes what is stored of the definition.
	describe(spec *directSpec)
}

// StdioServer is a server that runs as a process of its own and speaks on its stdin and stdout. Each client starts a fresh
// process, owns it, and ends it.
//
// The process inherits PATH, HOME, TMPDIR and the locale (LANG and LC_…), nothing else unless Env, Secrets or Inherit names it.
type StdioServer struct {
	// Name is at most 256 characters. Empty: the base name of Build or Command.
	Name string
	// Command is the program, looked up in PATH when it has no slash. A relative path with a slash is relative to Dir.
	Command string
	// Build is a Go package ("./server") to build and run instead of a Command. It is built once a process, at the first connect and
	// outside the start deadline, in the directory of the test.
	Build string
	Args  []string
	// Env sets variables. Inherit passes on variables of the test's environment by name.
	Env     map[string]string
	Inherit []string
	// Secrets sets variables from references, resolved at connect; their values are never stored or shown.
	Secrets map[string]SecretRef
	// Dir is the working directory; empty is the test's own.
	Dir string
}

// HTTPServer is a deployed server that speaks streamable HTTP.
type HTTPServer struct {
	// Name is at most 256 characters. Empty: the host of the URL.
	Name string
	// URL is the endpoint, http or https, without credentials in it.
	URL string
	// Headers are sent with every request. Secrets are headers from references, resolved at connect and never stored or shown.
	Headers map[string]string
	Secrets map[string]SecretRef
	// Trust says which addresses the host may resolve to. The zero value allows public ones only; a loopback URL is always
	// allowed, and then nothing but loopback.
	Trust Trust
}

// Trust is how far an HTTP endpoint's address is trusted (spec/behaviour.md 2.2).
type Trust string

// The trust levels.
const (
	Untrusted      Trust = ""                // public addresses only
	TrustedPublic  Trust = "public"          // the same, stated
	TrustedPrivate Trust = "trusted_private" // private, link-local and loopback addresses too
)

// HandlerServer is an http.Handler that speaks streamable HTTP. While a client is open it is served on a loopback port of
// its own.
type HandlerServer struct {
	Name    string
	Handler http.Handler
	// Path is the endpoint's path; empty is "/".
	Path string
}

// PipeServer is a server in this process that speaks on a stream, as a process would on its stdin and stdout. Serve is called
// once a client and must return when the stream ends; ctx ends with the client.
type PipeServer struct {
	Name  string
	Serve func(ctx context.Context, stream io.ReadWriteCloser) error
}

// SecretRef refers to a secret without holding it. Exactly one of Env and Lookup is set.
type SecretRef struct {
	// Env is the name of an environment variable. It must be set and not empty when the server is connected.
	Env string
	// Lookup is asked at connect. Name stands for it in specifications and errors.
	Lookup func(ctx context.Context) (string, error)
	Name   string
	// Prefix is put in front of the secret and is not part of it: "Bearer ".
	Prefix string
}

// EnvSecret refers to an environment variable.
func EnvSecret(name string) SecretRef { return SecretRef{Env: name} }

// BearerFromEnv refers to an environment variable whose value is sent as a bearer token.
func BearerFromEnv(name string) SecretRef { return SecretRef{Env: name, Prefix: "Bearer "} }

// ServerName returns Name, or what stands for it.
func (s StdioServer) ServerName() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Build != "":
		return baseName(s.Build)
	default:
		return baseName(s.Command)
	}
}

// ServerName returns Name, or the host.
func (s HTTPServer) ServerName() string {
	if s.Name != "" {
		return s.Name
	}
	return hostOf(s.URL)
}

// ServerName returns Name, or "handler".
func (s HandlerServer) ServerName() string { return orElse(s.Name, "handler") }

// ServerName returns Name, or "pipe".
func (s PipeServer) ServerName() string { return orElse(s.Name, "pipe") }

func (s StdioServer) check() error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	switch {
	case s.Command == "" && s.Build == "":
		return validationf("StdioServer %q: set Command (a program) or Build (a Go package)", s.Name)
	case s.Command != "" && s.Build != "":
		return validationf("StdioServer %q: set Command or Build, not both", s.Name)
	}
	for _, text := range append([]string{s.Command, s.Build, s.Dir}, s.Args...) {
		if strings.ContainsRune(text, 0) {
			return validationf("StdioServer %q: a command, argument or directory holds a NUL byte", s.Name)
		}
	}
	for name, value := range s.Env {
		if err := checkEnvName(s.Name, name); err != nil {
			return err
		}
		if strings.ContainsRune(value, 0) {
			return validationf("StdioServer %q: the value of %s holds a NUL byte", s.Name, name)
		}
	}
	for _, name := range slices.Concat(s.Inherit, slices.Sorted(maps.Keys(s.Secrets))) {
		if err := checkEnvName(s.Name, name); err != nil {
			return err
		}
	}
	return checkSecrets(s.Name, s.Secrets)
}

func (s HTTPServer) check() error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	for name, value := range s.Headers {
		if err := checkHeader(s.ServerName(), name, value); err != nil {
			return err
		}
	}
	for name := range s.Secrets {
		if err := checkHeader(s.ServerName(), name, ""); err != nil {
			return err
		}
	}
	switch s.Trust {
	case Untrusted, "untrusted", TrustedPublic, TrustedPrivate:
	default:
		return validationf("HTTPServer %q: unknown trust %q: use m3.Untrusted, m3.TrustedPublic or m3.TrustedPrivate", s.ServerName(), s.Trust)
	}
	if _, err := parseEndpoint(s.URL); err != nil {
		return err
	}
	return checkSecrets(s.ServerName(), s.Secrets)
}

func (s HandlerServer) check() error {
	if s.Handler == nil {
		return validationf("HandlerServer %q: Handler is nil", s.Name)
	}
	return checkName(s.Name)
}

func (s PipeServer) check() error {
	if s.Serve == nil {
		return validationf("PipeServer %q: Serve is nil", s.Name)
	}
	return checkName(s.Name)
}

func checkName(name string) error {
	if n := utf8.RuneCountInString(name); n > 256 {
		return validationf("a server name has %d characters, at most 256 are allowed", n)
	}
	return nil
}

// checkHeader refuses what cannot stand in an HTTP header. The error does not show the value.
func checkHeader(server, name, value string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}) {
		return validationf("HTTPServer %q: %q is not the name of a header", server, name)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return validationf("HTTPServer %q: the value of header %s holds a line break or another control character", server, name)
	}
	return nil
}

func checkEnvName(server, name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return validationf("StdioServer %q: %q is not the name of an environment variable", server, name)
	}
	return nil
}

func checkSecrets(server string, secrets map[string]SecretRef) error {
	for name, ref := range secrets {
		if (ref.Env == "") == (ref.Lookup == nil) {
			return validationf("server %q: secret %s: set Env or Lookup, one of the two", server, name)
		}
	}
	return nil
}

// resolve returns the secret. Errors name the reference, never a value. A variable that is set but empty is an error too: a
// server that was given an empty secret fails in ways that are hard to trace.
func (r SecretRef) resolve(ctx context.Context, server, name string) (secret string, err error) {
	if r.Lookup != nil {
		secret, err = r.Lookup(ctx)
		if err != nil {
			return "", &TransportError{Message: fmt.Sprintf("server %s: secret %s (%s) cannot be resolved", server, name, orElse(r.Name, "lookup")),
				Details: map[string]any{"phase": "authentication"}, Err: err}
		}
	} else {
		secret = os.Getenv(r.Env)
	}
	if secret == "" {
		return "", &TransportError{Message: fmt.Sprintf("server %s: secret %s refers to %s, which is not set: set it in the environment of the test", server, name, r.label()),
			Details: map[string]any{"phase": "authentication"}}
	}
	return secret, nil
}

func (r SecretRef) label() string {
	if r.Env != "" {
		return "the environment variable " + r.Env
	}
	return orElse(r.Name, "a lookup")
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func baseName(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

const (
	// defaultTimeout is the deadline of one operation, and of a start (spec/behaviour.md 3.2).
	defaultTimeout = 30 * time.Second
)
