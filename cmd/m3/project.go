package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store/sqlite"
)

// project is where m3 keeps things: the folder of the nearest m3.toml, else of the nearest go.mod.
type project struct {
	root   string
	module string // the module's path, empty without a go.mod
}

// errNoProject is returned where neither file is found.
var errNoProject = errors.New("no project: neither m3.toml nor go.mod is here or in a folder above")

// findProject looks for the project that dir belongs to.
func findProject(dir string) (*project, error) {
	for _, name := range []string{"m3.toml", "go.mod"} {
		if root := above(dir, name); root != "" {
			return &project{root: root, module: modulePath(filepath.Join(root, "go.mod"))}, nil
		}
	}
	return nil, errNoProject
}

// above is the nearest folder, from dir upwards, that holds a file of that name; empty when there is none.
func above(dir, name string) string {
	for {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func modulePath(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "module "); ok {
			rest, _, _ = strings.Cut(rest, "//")
			return strings.Trim(strings.TrimSpace(rest), "\"`")
		}
	}
	return ""
}

// database is the path of the project's database, absolute. m3's own folder is made, and hidden from git.
func (p *project) database() (string, error) {
	dir := filepath.Join(p.root, ".m3")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("m3 keeps its runs in %s, which cannot be made: %w", dir, cause(err))
	}
	ignore := filepath.Join(dir, ".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte("*\n"), 0o644); err != nil {
			return "", fmt.Errorf("m3 keeps its runs in %s, which cannot be written: %w", dir, cause(err))
		}
	}
	return filepath.Join(dir, "executions.sqlite"), nil
}

// cause drops the path that the sentence around it names already.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// resultsDB is the database that a command uses: --results-db, else the project's. proj may be nil with --results-db.
func (c *cli) resultsDB(flag dbFlag, proj *project) (string, error) {
	if flag == "" {
		return proj.database()
	}
	return filepath.Clean(c.path(string(flag))), nil
}

// dbFlag is the value of --results-db. Empty is an error, and not the default: it is what a shell makes of a variable that is not set.
type dbFlag string

// String is the path.
func (f *dbFlag) String() string { return string(*f) }

// Type is the placeholder in the usage.
func (f *dbFlag) Type() string { return "PATH" }

// Set takes the path of the command line.
func (f *dbFlag) Set(path string) error {
	if path == "" {
		return errors.New("the path is empty: name a file, or leave the flag away for the database of the project")
	}
	*f = dbFlag(path)
	return nil
}

// lockPatience is how long a database may be locked by somebody else before m3 gives up, unless cli.patience says otherwise.
const lockPatience = 30 * time.Second

// openDB opens a database for recording; it is made when it is not there. It waits for one that is locked.
func (c *cli) openDB(ctx context.Context, path string) (*sqlite.Store, error) {
	type opened struct {
		st  *sqlite.Store
		err error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		o.err = c.patiently(ctx, path, func() (err error) {
			o.st, err = sqlite.Open(path)
			return err
		})
		done <- o
	}()
	var st *sqlite.Store
	var err error
	select {
	case o := <-done:
		st, err = o.st, o.err
	case <-ctx.Done():
		go func() { // it ends by itself, if this process does not end before
			if o := <-done; o.st != nil {
				_ = o.st.Close()
			}
		}()
		err = context.Cause(ctx)
	}
	switch {
	case locked(err):
		return nil, hint(lockedHint, "open the database %s: %w", path, err)
	case err != nil:
		return nil, hint("name another file with --results-db, or move this one away", "open the database %s: %w", path, err)
	}
	return st, nil
}

const lockedHint = "another program has the database locked (sqlite3 in a transaction, or a copy tool): end that, or name another file with --results-db"

// patiently tries again as long as the database is locked, at most lockPatience, and says that it waits.
func (c *cli) patiently(ctx context.Context, path string, do func() error) error {
	patience := lockPatience
	if c.patience > 0 {
		patience = c.patience
	}
	end := time.Now().Add(patience)
	err := do()
	if !locked(err) {
		return err
	}
	fmt.Fprintf(c.err, "m3: the database %s is locked by another program: waiting for it, up to %s\n", report.Clean(path), patience)
	for locked(err) && time.Now().Before(end) && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		err = do()
	}
	return err
}

// locked tells SQLite's "somebody else writes", which it says after it has waited for some seconds itself.
func locked(err error) bool {
	return err != nil && (errors.Is(err, sqlite.ErrLocked) || strings.Contains(err.Error(), "SQLITE_BUSY") || strings.Contains(err.Error(), "database is locked"))
}

// showCommandLine is what opens a trace of the database: m3 show, with --results-db where it is not the project's own.
func showCommandLine(flag dbFlag) string {
	if flag == "" {
		return "m3 show"
	}
	return "m3 show --results-db " + shellQuote(string(flag))
}

func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./=:@,+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
