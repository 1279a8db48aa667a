package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

type showFlags struct {
	resultsDB dbFlag
	json, raw bool
}

func (c *cli) showCommand() *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show EXECUTION_ID",
		Short: "Print the trace of a stored execution",
		Long: `Print the trace of a stored execution: what happened, in order.

The id may be cut short as long as one execution begins with it.`,
		Args: exactly(1, "an execution id: m3 test prints one below each failure"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.show(cmd.Context(), &f, args[0]) },
	}
	cmd.Flags().Var(&f.resultsDB, "results-db", "database to read (default .m3/executions.sqlite of the project)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole view as JSON")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "print every frame as it passed, too")
	return cmd
}

// exactly is cobra.ExactArgs with an error that names what is missing.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return hint("m3 "+cmd.Name()+" --help shows how", "%s takes %s, and got %s", cmd.CommandPath(), what, count(len(args), "argument"))
	}
}

func (c *cli) show(ctx context.Context, f *showFlags, id string) error {
	path, err := c.existingDB(f.resultsDB)
	if err != nil {
		return err
	}
	st, err := c.openDB(ctx, path)
	if err != nil {
		return err
	}
	defer st.Close()
	info, err := findExecution(ctx, st, id)
	if err != nil {
		return err
	}
	tr, err := st.Trace(ctx, info.ID)
	if err != nil {
		return err
	}
	view, err := tr.View()
	if errors.Is(err, trace.ErrNotFinalized) {
		view, err = tr.Snapshot()
	}
	if err != nil {
		return err
	}
	if f.json {
		b, err := json.MarshalIndent(view, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "%s\n", b)
		return err
	}
	printView(c.out, info, view, f.raw)
	return nil
}

// existingDB is the database to read. Where neither it nor a spool for it is there it is not made: nothing could be in it.
func (c *cli) existingDB(flag dbFlag) (string, error) {
	var path string
	if flag != "" {
		path = c.path(string(flag))
	} else {
		proj, err := findProject(c.dir)
		if err != nil {
			return "", hint("name the database with --results-db", "%w", err)
		}
		path = filepath.Join(proj.root, ".m3", "executions.sqlite")
	}
	_, err := os.Stat(path)
	if err == nil {
		return path, nil
	}
	// A plain go test has written its spool beside where the database will be: opening it takes that in.
	if _, serr := os.Stat(path + ".spool"); serr == nil && errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return "", hint("m3 test makes one", "there is no database at %s: %w", path, cause(err))
}

// findExecution finds an execution by its id, or by the beginning of one.
func findExecution(ctx context.Context, r store.Reader, id string) (*store.ExecutionInfo, error) {
	info, err := r.Execution(ctx, trace.ExecutionID(id))
	if err == nil {
		return &info, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	all, err := r.Executions(ctx, nil)
	if err != nil {
		return nil, err
	}
	var found []store.ExecutionInfo
	for _, e := range all {
		if strings.HasPrefix(string(e.ID), id) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return &found[0], nil
	case 0:
		return nil, hint("feedback.json lists the executions of a run", "no execution %q is in the database, which holds %d", id, len(all))
	default:
		return nil, hint("write more of the id", "%d executions begin with %q", len(found), id)
	}
}

// printView prints an execution's head and its timeline.
func printView(w io.Writer, info *store.ExecutionInfo, v trace.View, raw bool) {
	fmt.Fprintf(w, "execution %s  %s\n", info.ID, orElse(string(info.Outcome), "open"))
	for _, kv := range [][2]string{{"run", info.RunID}, {"suite", info.Suite}, {"case", info.Case}, {"servers", strings.Join(info.Servers, ", ")}} {
		if kv[1] != "" {
			fmt.Fprintf(w, "%s %s\n", kv[0], report.CleanLine(kv[1]))
		}
	}
	for _, l := range v.Limitations() {
		fmt.Fprintf(w, "incomplete: %s: %s\n", report.CleanLine(l.Code), report.CleanLine(l.Message))
	}
	fmt.Fprintln(w)
	for _, e := range v.Timeline().All() {
		if line := describe(e, raw); line != "" {
			b := e.Common()
			fmt.Fprintf(w, "%10.3fs  %s\n", b.Timing.StartOffset.Seconds(), report.CleanLine(line))
		}
	}
}
