package probe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

type setting struct {
	name   string
	modern bool
	http   bool
}

var settings = []setting{{"stdio", false, false}, {"http", false, true}, {"modern stdio", true, false}, {"modern http", true, true}}

func (s setting) server(bad string) m3.Server {
	f := &fake{bad: bad, modern: s.modern}
	if s.http {
		return m3.HandlerServer{Name: "fake", Handler: f, Path: "/mcp"}
	}
	return f.stdio()
}

// applies says whether the probe means something in the setting.
func (s setting) applies(p *Probe) bool {
	return p.applies(&bench{modern: s.modern, http: s.http}) == ""
}

func run(t *testing.T, server m3.Server, opts *Options) *Report {
	t.Helper()
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kit.Close(); err != nil {
			t.Error(err)
		}
	}()
	if opts.Patience == 0 {
		opts.Patience = 2 * time.Second
	}
	rep, err := Run(t.Context(), kit, server, opts)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// On a good server of each era and transport every probe is silent, and none is skipped for want of something to probe.
func TestCleanServer(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			rep := run(t, s.server(""), &Options{})
			if !rep.Alive.OK || rep.Failed() {
				t.Errorf("%+v", rep.Alive)
			}
			for _, r := range rep.Results {
				if r.State == Fired || r.Died {
					t.Errorf("%s fired on a good server: %s", r.Name, r.Message)
				}
			}
			if len(rep.Results) != len(All()) || len(rep.Executions) < 3 {
				t.Errorf("%d results, %d executions", len(rep.Results), len(rep.Executions))
			}
			if n := rep.Count(Clean, ""); n < 60 {
				t.Errorf("only %d probes ran", n)
			}
		})
	}
}

// Every probe fires on a server with its defect, in some setting where it applies.
func TestEachDefect(t *testing.T) {
	t.Parallel()
	if n := len(All()); n < 40 {
		t.Fatalf("%d probes", n)
	}
	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			tried := 0
			for _, s := range settings {
				if !s.applies(p) || tried > 0 {
					continue
				}
				tried++
				rep := run(t, s.server(p.Name), &Options{Only: []string{p.Name}, Patience: 300 * time.Millisecond})
				if r := rep.Results[0]; r.State != Fired || r.Message == "" {
					t.Errorf("%s: %s on a server with its defect: %s", s.name, r.State, r.Message)
				} else {
					t.Logf("%s: %s", s.name, r.Message)
				}
			}
			if tried == 0 {
				t.Error("the probe applies nowhere")
			}
		})
	}
}

// Names are stable and distinct, and every probe says what it is about.
func TestProbesAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range All() {
		if seen[p.Name] || p.Name != strings.ToLower(p.Name) || strings.ContainsAny(p.Name, " _") {
			t.Errorf("bad name %q", p.Name)
		}
		seen[p.Name] = true
		if p.About == "" || p.Clause == "" || p.run == nil {
			t.Errorf("%s lacks something", p.Name)
		}
		switch p.Severity {
		case trace.SeverityError, trace.SeverityWarning, trace.SeverityNote:
		default:
			t.Errorf("%s: severity %q", p.Name, p.Severity)
		}
	}
}

func TestUnknownProbe(t *testing.T) {
	t.Parallel()
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Close()
	var unknown *UnknownProbeError
	if _, err := Run(t.Context(), kit, (&fake{}).stdio(), &Options{Only: []string{"no-such"}}); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}
