package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/m3-go/m3/internal/probe"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/trace"
)

// probeFlags are those of m3 probe.
type probeFlags struct {
	directFlags
	only      []string
	callTools bool
	all       bool
	list      bool
	patience  seconds
}

func (c *cli) probeCommand() *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe SERVER",
		Short: "Send a server everything that a good client never sends, and judge what comes back",
		Long: `Send a server everything that a good client never sends, and judge what comes back:
broken JSON, ids of every type, batches, requests before the handshake, wrong HTTP
methods and headers, invalid arguments for its own tools. Each probe names the clause of
the specification that it holds the server to; after each the server must still answer,
and the run ends with the question whether it is alive.

It is safe by default: tools are called with arguments that their own schema refuses, and
never those annotated as destructive; valid calls go only to tools annotated
readOnlyHint. --call-tools allows more.

SERVER is --command CMD --arg ARG … or --url URL. The exit code is 1 when a probe of
severity error fired or the server did not survive, and 0 otherwise.`,
		Example: "  m3 probe --command ./server\n  m3 probe --url http://127.0.0.1:8080/mcp --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.probe(cmd.Context(), &f, args)
		},
	}
	f.register(c, cmd)
	fs := cmd.Flags()
	fs.StringArrayVar(&f.only, "only", nil, "run only this probe (repeatable)")
	fs.BoolVar(&f.callTools, "call-tools", false, "also call tools that are not annotated readOnlyHint, with valid arguments")
	fs.BoolVar(&f.all, "all", false, "show the probes that found nothing, too")
	fs.BoolVar(&f.list, "list", false, "list the probes, and probe nothing")
	fs.Var(&f.patience, "patience", "how long one answer may take (default 3s)")
	return cmd
}

// probe runs the set and prints one report.
func (c *cli) probe(ctx context.Context, f *probeFlags, args []string) error {
	if f.list {
		return c.listProbes(f.json)
	}
	d := &direct{c: c, f: &f.directFlags, answer: answer{Findings: []trace.Finding{}}}
	ctx, stop := untilSignal(ctx)
	defer stop()
	err := d.probe(ctx, f, args)
	if ctx.Err() != nil && err != nil {
		err = endedBy(ctx)
	}
	d.answer.ExecutionID = nil // there are many: the report has them
	return d.print(err)
}

func (d *direct) probe(ctx context.Context, f *probeFlags, args []string) (err error) {
	if len(args) > 0 {
		return hint("name the server as --command CMD --arg ARG …, or as --url URL", "m3 probe takes flags only, and got %q", args[0])
	}
	server, err := f.one()
	if err != nil {
		return err
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	rep, err := probe.Run(ctx, d.kit, server, &probe.Options{Only: f.only, CallTools: f.callTools, Protocol: f.protocol,
		Patience: time.Duration(f.patience), Start: time.Duration(f.timeout)})
	var unknown *probe.UnknownProbeError
	switch {
	case errors.As(err, &unknown):
		return hint("m3 probe --list names them", "%w", err)
	case err != nil:
		return err
	}
	d.answer.Protocol = &rep.Protocol
	d.answer.Result, err = json.Marshal(rep)
	d.showReport(rep, f.all)
	if err == nil && rep.Failed() {
		err = &probeError{rep.Count(probe.Fired, trace.SeverityError), rep.Alive.OK}
	}
	return err
}

// showReport is the text form.
func (d *direct) showReport(rep *probe.Report, all bool) {
	d.text("%s %s, protocol %s over %s, %d tools", orElse(rep.Server, "(no name)"), orElse(rep.ServerVersion, "(no version)"), rep.Protocol, rep.Transport, rep.Tools)
	for _, sev := range []trace.Severity{trace.SeverityError, trace.SeverityWarning, trace.SeverityNote} {
		for i := range rep.Results {
			if r := &rep.Results[i]; r.State == probe.Fired && r.Effective() == sev {
				d.text("\n%s %s: %s", sev, r.Name, r.About)
				d.text("  seen: %s", report.CleanLine(r.Message))
				d.text("  clause: %s", r.Clause)
			}
		}
	}
	if all {
		d.text("")
		for i := range rep.Results {
			if r := &rep.Results[i]; r.State != probe.Fired {
				d.text("%s %s: %s", r.State, r.Name, report.CleanLine(orElse(r.Message, r.About)))
			}
		}
	}
	d.text("\n%d probes: %d fired (%d errors, %d warnings, %d notes), %d clean, %d skipped", len(rep.Results), rep.Count(probe.Fired, ""),
		rep.Count(probe.Fired, trace.SeverityError), rep.Count(probe.Fired, trace.SeverityWarning), rep.Count(probe.Fired, trace.SeverityNote),
		rep.Count(probe.Clean, ""), rep.Count(probe.Skipped, ""))
	d.text("still alive? %s", report.CleanLine(rep.Alive.Message))
	if d.st != nil {
		d.text("traces: %d executions, from %s %s on", len(rep.Executions), d.show, rep.Executions[0])
	}
}

// listProbes prints the set.
func (c *cli) listProbes(asJSON bool) error {
	type item struct {
		Name     string         `json:"name"`
		Severity trace.Severity `json:"severity"`
		About    string         `json:"about"`
		Clause   string         `json:"clause"`
		Case     string         `json:"case,omitempty"`
	}
	var items []item
	for _, p := range probe.All() {
		items = append(items, item{p.Name, p.Severity, p.About, p.Clause, p.Case})
	}
	if asJSON {
		b, err := json.Marshal(items)
		if err == nil {
			_, err = fmt.Fprintln(c.out, string(b))
		}
		return err
	}
	for _, i := range items {
		fmt.Fprintf(c.out, "%-8s %-28s %s\n", i.Severity, i.Name, i.About)
	}
	fmt.Fprintf(c.out, "%d probes\n", len(items))
	return nil
}

// probeError is a report with errors in it: for a shell a failure.
type probeError struct {
	errors int
	alive  bool
}

func (e *probeError) Error() string {
	if !e.alive {
		return "the server did not survive the probes"
	}
	if e.errors == 1 {
		return "1 probe of severity error fired"
	}
	return fmt.Sprintf("%d probes of severity error fired", e.errors)
}

// Code is the stable machine code.
func (e *probeError) Code() string { return "probe_failed" }
