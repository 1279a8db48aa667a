package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/evidence"
)

// serverGroup is one server as its flags give it. Groups are told apart by order: --server begins one.
type serverGroup struct {
	kind    string // stdio, http, or empty until a flag says
	name    string
	command string
	args    []string
	env     []string
	url     string
	headers []string
	trust   string
}

// serverFlags collects groups as pflag meets their flags.
type serverFlags struct {
	groups   []*serverGroup
	protocol string
	timeout  seconds
}

// add registers the flags.
func (s *serverFlags) add(fs *pflag.FlagSet) {
	group := func(name, value, usage string, set func(g *serverGroup, v string) error) {
		fs.Var(&groupFlag{s, name, value, set}, name, usage)
	}
	group("server", "KIND", "begin a server: stdio or http", nil)
	group("name", "NAME", "its name in traces", func(g *serverGroup, v string) error { return once(&g.name, v, "--name") })
	group("command", "CMD", "program to start, which speaks on stdin and stdout", func(g *serverGroup, v string) error {
		return errors.Join(g.is("stdio", "--command"), once(&g.command, v, "--command"))
	})
	group("arg", "ARG", "argument of the program (repeatable, in order)", func(g *serverGroup, v string) error {
		g.args = append(g.args, v)
		return g.is("stdio", "--arg")
	})
	group("env", "NAME[=VALUE]", "variable of the program: set, or passed on from the environment (repeatable)", func(g *serverGroup, v string) error {
		g.env = append(g.env, v)
		return g.is("stdio", "--env")
	})
	group("url", "URL", "streamable HTTP endpoint", func(g *serverGroup, v string) error {
		return errors.Join(g.is("http", "--url"), once(&g.url, v, "--url"))
	})
	group("header", "'NAME: VALUE'", "HTTP header; $VARIABLE at its end is taken from the environment and never stored (repeatable)", func(g *serverGroup, v string) error {
		g.headers = append(g.headers, v)
		return g.is("http", "--header")
	})
	group("trust", "LEVEL", "which addresses the host may have: public or trusted_private (default public, or loopback)", func(g *serverGroup, v string) error {
		return errors.Join(g.is("http", "--trust"), once(&g.trust, v, "--trust"))
	})
	fs.StringVar(&s.protocol, "protocol", "", "exact protocol version (default the newest that both speak)")
	fs.Var(&s.timeout, "timeout", "deadline of the start, and of each operation: seconds, or 90s (default 30s)")
}

// groupFlag is one flag of a group.
type groupFlag struct {
	all         *serverFlags
	name, value string
	set         func(g *serverGroup, v string) error
}

// String has no value to give: defaults are told in the usage.
func (f *groupFlag) String() string { return "" }

// Type is the placeholder in the usage.
func (f *groupFlag) Type() string { return f.value }

// Set is called by pflag in the order of the command line.
func (f *groupFlag) Set(v string) error {
	if f.set == nil {
		if v != "stdio" && v != "http" {
			return fmt.Errorf("the kind is stdio or http")
		}
		f.all.groups = append(f.all.groups, &serverGroup{kind: v})
		return nil
	}
	if len(f.all.groups) == 0 { // m3 inspect --command CMD: the group is plain from its flags
		f.all.groups = append(f.all.groups, &serverGroup{})
	}
	return f.set(f.all.groups[len(f.all.groups)-1], v)
}

func (g *serverGroup) is(kind, flag string) error {
	if g.kind == "" {
		g.kind = kind
	}
	if g.kind != kind {
		return fmt.Errorf("%s is for a server of kind %s, and this one is %s", flag, kind, g.kind)
	}
	return nil
}

func once(dst *string, v, flag string) error {
	if *dst != "" {
		return fmt.Errorf("%s is given twice for one server", flag)
	}
	if v == "" {
		return fmt.Errorf("%s is empty", flag)
	}
	*dst = v
	return nil
}

// seconds is a duration flag: a bare number is seconds.
type seconds time.Duration

// String is the flag's default, as the usage shows it.
func (s *seconds) String() string { return "" }

// Type is the placeholder in the usage.
func (s *seconds) Type() string { return "DURATION" }

// Set reads 90, 1.5 or 90s.
func (s *seconds) Set(v string) error {
	d, err := time.ParseDuration(v)
	if n, nerr := strconv.ParseFloat(v, 64); nerr == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("want a positive number of seconds, or a duration such as 90s")
	}
	*s = seconds(d)
	return nil
}

// one is the only server that the flags describe.
func (s *serverFlags) one() (m3.Server, error) {
	const how = "name it as --command CMD --arg ARG …, or as --url URL"
	switch len(s.groups) {
	case 0:
		return nil, hint(how, "no server is given")
	case 1:
		return s.groups[0].server()
	default:
		return nil, hint("give one --server group", "%d servers are given, and this command takes one", len(s.groups))
	}
}

func (g *serverGroup) server() (m3.Server, error) {
	if g.kind == "http" {
		return g.http()
	}
	if g.command == "" {
		return nil, hint("add --command CMD", "the stdio server has no command")
	}
	srv := m3.StdioServer{Name: g.name, Command: g.command, Args: g.args, Env: map[string]string{}, Secrets: map[string]m3.SecretRef{}}
	for _, e := range g.env {
		if err := addEnv(&srv, e); err != nil {
			return nil, err
		}
	}
	return srv, nil
}

// addEnv takes NAME=VALUE, or NAME for a variable of the environment; a sensitive one is passed as a reference.
func addEnv(srv *m3.StdioServer, e string) error {
	name, value, given := strings.Cut(e, "=")
	if !envName(name) {
		return hint("write NAME=VALUE or NAME", "--env %q does not begin with a variable's name", name)
	}
	if given {
		srv.Env[name] = value
		return nil
	}
	if _, ok := os.LookupEnv(name); !ok {
		return hint("set it, or write --env "+name+"=VALUE", "--env %s: the variable is not set in the environment", name)
	}
	if evidence.NewRedactor(nil).Sensitive(name) {
		srv.Secrets[name] = m3.EnvSecret(name)
	} else {
		srv.Inherit = append(srv.Inherit, name)
	}
	return nil
}

func (g *serverGroup) http() (m3.Server, error) {
	if g.url == "" {
		return nil, hint("add --url URL", "the HTTP server has no URL")
	}
	srv := m3.HTTPServer{Name: g.name, URL: g.url, Trust: m3.Trust(g.trust), Headers: map[string]string{}, Secrets: map[string]m3.SecretRef{}}
	for _, h := range g.headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			return nil, hint("write --header 'Name: value'", "--header %q is not a header", name)
		}
		prefix, variable, isRef := strings.Cut(value, "$")
		if !isRef {
			srv.Headers[name] = value
			continue
		}
		variable = strings.TrimSuffix(strings.TrimPrefix(variable, "{"), "}")
		if !envName(variable) {
			return nil, hint("write --header 'Authorization: Bearer $TOKEN', in single quotes", "--header %s: after $ stands no variable's name, or it is not the end of the value", name)
		}
		srv.Secrets[name] = m3.SecretRef{Env: variable, Prefix: prefix}
	}
	return srv, nil
}

// options are the client's.
func (s *serverFlags) options() *m3.DirectOptions {
	d := time.Duration(s.timeout)
	return &m3.DirectOptions{Protocol: s.protocol, Timeout: d, StartTimeout: d}
}
