package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// directFlags are those of m3 inspect and m3 call.
type directFlags struct {
	serverFlags
	resultsDB dbFlag
	json      bool
	validate  bool
}

func (f *directFlags) register(c *cli, cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(c.refuse)
	f.serverFlags.add(cmd.Flags())
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&f.resultsDB, "results-db", "database to keep the trace in (default that of the project, if there is one)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
}

// answer is what --json prints.
type answer struct {
	OK          bool               `json:"ok"`
	Error       *answerError       `json:"error"`
	Result      trace.JSON         `json:"result"`
	Protocol    *string            `json:"protocol"`
	Findings    []trace.Finding    `json:"findings"`
	ExecutionID *trace.ExecutionID `json:"execution_id"`
}

type answerError struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// direct is one use of one server from the command line.
type direct struct {
	c      *cli
	f      *directFlags
	kit    *m3.Kit
	st     *sqlite.Store // nil: nothing is kept
	client *m3.Client
	show   string

	answer answer
	shown  []func()  // what the text form prints, in order
	notes  io.Writer // where findings and the trace are told of; nil: with the rest
}

// work is what is done with an open client: it fills the answer, and returns what failed.
type work func(ctx context.Context, d *direct) error

// direct connects to the server, works, and prints one answer. prepare finds errors of usage before anything is started.
func (c *cli) direct(ctx context.Context, f *directFlags, prepare func() (work, error)) error {
	d := &direct{c: c, f: f, answer: answer{Findings: []trace.Finding{}}}
	ctx, stop := untilSignal(ctx)
	defer stop()
	err := d.run(ctx, prepare)
	if ctx.Err() != nil && err != nil {
		err = endedBy(ctx)
	}
	return d.print(err)
}

// untilSignal is ctx until the first signal that asks to end, which is then its cause. A second signal does what it always does.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(&interrupted{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// endedBy is the signal that ended ctx.
func endedBy(ctx context.Context) error {
	if in, ok := context.Cause(ctx).(*interrupted); ok {
		return in
	}
	return &interrupted{syscall.SIGINT}
}

// refuse is the error of flags that cannot be read. Whoever asked for JSON gets it also here.
func (c *cli) refuse(cmd *cobra.Command, err error) error {
	err = &hintError{err: err, hint: cmd.CommandPath() + " --help lists the flags"}
	if !wantsJSON(cmd.Flags(), c.args) {
		return err
	}
	d := &direct{c: c, f: &directFlags{json: true}, answer: answer{Findings: []trace.Finding{}}}
	return d.print(err)
}

// wantsJSON looks for --json among arguments that could not all be read.
func wantsJSON(flags *pflag.FlagSet, args []string) (yes bool) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, value, given := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		f := flags.Lookup(name)
		switch {
		case f == nil || !strings.HasPrefix(args[i], "--"):
		case name == "json":
			yes = !given || value == "true" || value == "1"
		case !given && f.NoOptDefVal == "":
			i++ // its value
		}
	}
	return yes
}

func (d *direct) run(ctx context.Context, prepare func() (work, error)) (err error) {
	do, err := prepare()
	if err != nil {
		return err
	}
	server, err := d.f.one()
	if err != nil {
		return err
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	opts := d.f.options()
	opts.ValidateSchemas = d.f.validate
	d.client, err = d.kit.Direct(ctx, server, opts)
	if err != nil {
		return err
	}
	version := d.client.Initialization().ProtocolVersion
	d.answer.Protocol = &version
	err = do(ctx, d)
	return errors.Join(err, d.client.Close())
}

// open makes the kit, on the project's database where there is a project.
func (d *direct) open(ctx context.Context) error {
	proj, err := findProject(d.c.dir)
	if err != nil && !errors.Is(err, errNoProject) {
		return err
	}
	cfg := m3.Config{OnExecution: func(id trace.ExecutionID) { d.answer.ExecutionID = &id }}
	if proj != nil || d.f.resultsDB != "" {
		path, err := d.c.resultsDB(d.f.resultsDB, proj)
		if err != nil {
			return hint("name another place with --results-db", "%w", err)
		}
		if d.st, err = d.c.openDB(ctx, path); err != nil {
			return err
		}
		cfg.Store = d.st
		d.show = showCommandLine(d.f.resultsDB)
	}
	d.kit, err = m3.New(cfg)
	return err
}

// close ends the kit, and takes the findings of the whole execution, its close included.
func (d *direct) close() error {
	d.answer.Findings = append(d.answer.Findings, d.findings()...)
	err := d.kit.Close()
	if d.st != nil {
		err = errors.Join(err, d.st.Close())
	}
	return err
}

// findings are those of the execution, also of one whose connect failed.
func (d *direct) findings() []trace.Finding {
	if d.client != nil {
		return d.client.Findings()
	}
	if d.answer.ExecutionID == nil {
		return nil
	}
	t, err := d.kit.Trace(context.Background(), *d.answer.ExecutionID)
	if err != nil {
		return nil
	}
	view, err := t.Snapshot()
	if err != nil {
		return nil
	}
	var all []trace.Finding
	for _, f := range view.Findings().All() {
		all = append(all, f.Finding)
	}
	return all
}

// print prints the answer and gives the exit code.
func (d *direct) print(err error) error {
	code := 0
	if err != nil {
		code = codeOf(err)
		d.answer.Error = describeError(err)
	}
	d.answer.OK = err == nil
	if d.f.json {
		return errors.Join(d.printJSON(), exit(code))
	}
	for _, f := range d.shown {
		f()
	}
	if err != nil {
		d.c.fail(d.redact(err.Error()), hintFor(err))
	}
	d.printFindings()
	d.printTrace()
	return exit(code)
}

// hintFor is what to do about an error, where the command line has a flag for it.
func hintFor(err error) string {
	var hinted *hintError
	var trust *m3.EndpointTrustError
	var transport *m3.TransportError
	switch {
	case errors.As(err, &hinted):
		return hinted.hint
	case errors.As(err, &transport) && transport.Details["phase"] == "authorization":
		return "--header 'Authorization: Bearer $TOKEN' sends a token"
	case errors.As(err, &trust):
		return "--trust trusted_private allows it"
	}
	return ""
}

func exit(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code}
}

func (d *direct) printJSON() error {
	if d.answer.Result != nil && !json.Valid(d.answer.Result) {
		b, err := json.Marshal(string(d.answer.Result)) // what the server sent is no JSON: as text, then
		if err != nil {
			return err
		}
		d.answer.Result = b
	}
	b, err := json.Marshal(d.answer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.c.out, d.redact(string(b)))
	return err
}

func (d *direct) printFindings() {
	for _, line := range findingLines(d.answer.Findings) {
		fmt.Fprintln(d.noteWriter(), d.redact(line))
	}
}

func (d *direct) noteWriter() io.Writer {
	if d.notes != nil {
		return d.notes
	}
	return d.c.out
}

// printTrace says where the trace is, or why it is nowhere.
func (d *direct) printTrace() {
	switch {
	case d.answer.ExecutionID == nil:
	case d.st == nil:
		fmt.Fprintln(d.noteWriter(), "trace: not kept, because no project is here (--results-db PATH keeps it)")
	default:
		fmt.Fprintf(d.noteWriter(), "trace: %s %s\n", d.show, *d.answer.ExecutionID)
	}
}

// redact removes what the kit knows to be secret from what is printed.
func (d *direct) redact(s string) string {
	if d.kit == nil {
		return s
	}
	return d.kit.Redact(s)
}

// text adds a line to the text form, made safe.
func (d *direct) text(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	d.shown = append(d.shown, func() { fmt.Fprintln(d.c.out, report.Clean(d.redact(line))) })
}

// toolError is a result with isError: the tool's answer, and for a shell a failure.
type toolError struct{ tool, text string }

func (e *toolError) Error() string {
	return "the tool " + e.tool + " reported an error" + suffix(": ", strings.TrimSpace(e.text))
}

// Code is the stable machine code.
func (e *toolError) Code() string { return "tool_error" }

// interrupted is what a signal makes of every error that it causes.
type interrupted struct{ signal syscall.Signal }

func (e *interrupted) Error() string {
	if e.signal == syscall.SIGINT {
		return "interrupted"
	}
	return "stopped by " + e.signal.String()
}

// Code is the stable machine code.
func (*interrupted) Code() string { return "cancelled" }

func (e *interrupted) exitCode() int {
	switch e.signal {
	case syscall.SIGTERM:
		return exitTerminated
	case syscall.SIGHUP:
		return exitHangup
	default:
		return exitInterrupted
	}
}

// codeOf is the exit code of an error: 2 for what the user has to change, 1 for what the server did.
func codeOf(err error) int {
	if in, ok := err.(*interrupted); ok {
		return in.exitCode()
	}
	var hinted *hintError
	errors.As(err, &hinted)
	var validation *m3.ValidationError
	var trust *m3.EndpointTrustError
	var transport *m3.TransportError
	if hinted != nil || errors.As(err, &validation) || errors.As(err, &trust) {
		return exitUsage
	}
	if errors.As(err, &transport) && transport.Details["phase"] == "authentication" {
		return exitUsage
	}
	var unsupported *m3.UnsupportedError
	if errors.As(err, &unsupported) && unsupported.Details["feature"] == "protocol" { // no version that m3 knows
		return exitUsage
	}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return exitServer
	}
	return exitUsage
}

func describeError(err error) *answerError {
	e := &answerError{Code: "usage", Message: strings.TrimPrefix(err.Error(), "m3: "), Details: map[string]any{}}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		e.Code = coded.Code()
	}
	stderr := ""
	var (
		transport   *m3.TransportError
		protocol    *m3.ProtocolError
		timeout     *m3.TimeoutError
		cancelled   *m3.CancelledError
		validation  *m3.ValidationError
		unsupported *m3.UnsupportedError
		trust       *m3.EndpointTrustError
		plain       *m3.Error
	)
	switch {
	case errors.As(err, &transport):
		e.Message, e.Details, stderr = transport.Message, transport.Details, transport.Stderr
	case errors.As(err, &protocol):
		e.Message, e.Details, stderr = protocol.Message, protocol.Details, protocol.Stderr
	case errors.As(err, &timeout):
		e.Message, e.Details, stderr = timeout.Message, timeout.Details, timeout.Stderr
	case errors.As(err, &cancelled):
		e.Message, e.Details = cancelled.Message, cancelled.Details
	case errors.As(err, &validation):
		e.Message, e.Details = validation.Message, validation.Details
	case errors.As(err, &unsupported):
		e.Message, e.Details = unsupported.Message, unsupported.Details
	case errors.As(err, &trust):
		e.Message, e.Details = trust.Message, trust.Details
	case errors.As(err, &plain):
		e.Message, e.Details = plain.Message, plain.Details
	}
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	if stderr != "" {
		e.Details["stderr"] = stderr
	}
	return e
}
