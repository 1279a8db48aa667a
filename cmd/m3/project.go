package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
func (c *cli) resultsDB(flag string, proj *project) (string, error) {
	if flag == "" {
		return proj.database()
	}
	if !filepath.IsAbs(flag) {
		flag = filepath.Join(c.dir, flag)
	}
	return filepath.Clean(flag), nil
}

// openDB opens a database for recording; it is made when it is not there.
func openDB(path string) (*sqlite.Store, error) {
	st, err := sqlite.Open(path)
	if err != nil {
		return nil, hint("name another file with --results-db, or move this one away", "open the database %s: %w", path, err)
	}
	return st, nil
}

// showCommandLine is what opens a trace of the database: m3 show, with --results-db where it is not the project's own.
func showCommandLine(flag string) string {
	if flag == "" {
		return "m3 show"
	}
	return "m3 show --results-db " + shellQuote(flag)
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
