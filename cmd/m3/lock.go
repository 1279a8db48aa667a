package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/m3-go/m3/internal/catalog"
	"github.com/m3-go/m3/internal/report"
)

// lockFlags are those of m3 lock.
type lockFlags struct {
	directFlags
	out   string
	check string
}

func (c *cli) lockCommand() *cobra.Command {
	var f lockFlags
	cmd := &cobra.Command{
		Use:   "lock SERVER",
		Short: "Write a server's tools to a file that people review, or compare them with it",
		Long: `Write a server's tools (names, descriptions, schemas, annotations, as on the wire) to a
file that people review, or compare them with it. In a test, m3test.Locked compares.

Without --out the file is printed. --check FILE writes nothing: it lists what changed
since, classed as breaking, risky, additive or wording, and the exit code is 1 when
anything did.

SERVER is --command CMD --arg ARG … or --url URL.`,
		Example: "  m3 lock --command ./server --out testdata/shipping.lock\n  m3 lock --command ./server --check testdata/shipping.lock",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.direct(cmd.Context(), &f.directFlags, func() (work, error) { return c.lock(&f, args) })
		},
	}
	f.register(c, cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "file to write (default: print it)")
	cmd.Flags().StringVar(&f.check, "check", "", "file to compare with, instead of writing")
	return cmd
}

// lock checks the flags, reads what is to be compared, and returns the work.
func (c *cli) lock(f *lockFlags, args []string) (work, error) {
	switch {
	case len(args) > 0:
		return nil, hint("name the server as --command CMD --arg ARG …, or as --url URL", "m3 lock takes flags only, and got %q", args[0])
	case f.out != "" && f.check != "":
		return nil, hint("use one of them", "--out writes the lock and --check compares with it")
	case f.check == "":
		return func(ctx context.Context, d *direct) error { return d.writeLock(ctx, f) }, nil
	}
	b, err := os.ReadFile(c.path(f.check))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint("write it with m3 lock … --out "+f.check, "there is no lock file %s", f.check)
	}
	if err != nil {
		return nil, fmt.Errorf("the lock file cannot be read: %w", err)
	}
	locked, err := catalog.Decode(b)
	if err != nil {
		return nil, hint("write it anew with m3 lock … --out "+f.check, "the lock file %s cannot be used: %w", f.check, err)
	}
	return func(ctx context.Context, d *direct) error { return d.checkLock(ctx, f, locked) }, nil
}

func (d *direct) writeLock(ctx context.Context, f *lockFlags) error {
	c, err := catalog.Of(ctx, d.client)
	if err != nil {
		return err
	}
	text, err := c.Encode()
	if err != nil {
		return err
	}
	d.answer.Result = text
	if f.out == "" {
		d.text("%s", strings.TrimSuffix(string(text), "\n"))
		d.notes = d.c.err // the output is the file, and nothing else
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(d.c.path(f.out)), 0o755); err != nil {
		return fmt.Errorf("the lock file cannot be written: %w", err)
	}
	if err := os.WriteFile(d.c.path(f.out), text, 0o644); err != nil {
		return fmt.Errorf("the lock file cannot be written: %w", err)
	}
	d.text("%s locked in %s", toolsOf(len(c.Tools), orElse(c.Server, d.client.Server())), f.out)
	return nil
}

func (d *direct) checkLock(ctx context.Context, f *lockFlags, locked *catalog.Catalog) error {
	now, err := catalog.Of(ctx, d.client)
	if err != nil {
		return err
	}
	changes := catalog.Compare(locked, now)
	if changes == nil {
		changes = []catalog.Change{}
	}
	if d.answer.Result, err = json.Marshal(map[string]any{"changes": changes}); err != nil {
		return err
	}
	if len(changes) == 0 {
		d.text("the %s as locked in %s", toolsOf(len(now.Tools), orElse(now.Server, d.client.Server())), f.check)
		return nil
	}
	for _, c := range changes {
		d.text("%s", report.CleanLine(c.String()))
	}
	return &driftError{f.check, catalog.Tally(changes)}
}

// driftError says that the tools are not as locked.
type driftError struct{ file, tally string }

func (e *driftError) Error() string {
	return fmt.Sprintf("the tools are not as locked in %s: %s", e.file, e.tally)
}

// Code is the stable machine code.
func (*driftError) Code() string { return "tools_drifted" }

// toolsOf is "2 tools of shipping are".
func toolsOf(n int, server string) string {
	if n == 1 {
		return "1 tool of " + server + " is"
	}
	return fmt.Sprintf("%d tools of %s are", n, server)
}
