package spool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Hold is a run's directory that is kept while it is held: [Sweep] leaves it alone, also while no spool is in it. Whoever leads a run, and is no test
// process, puts there what the run's processes share. Files whose names begin with a dot are no spools, and go with the directory.
type Hold struct {
	dir string
	f   *os.File
}

// HoldRun makes the directory of a run beside a database, and holds it. When the process dies the hold ends.
func HoldRun(ctx context.Context, database, run string) (*Hold, error) {
	dir := filepath.Join(Dir(database), runDir(run))
	f, err := enter(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("spool: the directory of the run beside %s cannot be made: %w", database, err)
	}
	return &Hold{dir: dir, f: f}, nil
}

// Dir is the directory.
func (h *Hold) Dir() string { return h.dir }

// Release ends the hold; the next Sweep removes the directory if nothing else needs it. Of a nil Hold it does nothing.
func (h *Hold) Release() {
	if h != nil {
		_ = h.f.Close() // it was only read
	}
}
