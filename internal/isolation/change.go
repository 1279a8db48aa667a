package isolation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of what is looked at for changes.
const (
	maxListedFiles = 100_000
	maxListedBytes = 4 << 30
)

// File is one file of a workspace.
type File struct {
	Path   string // in the workspace, with slashes
	SHA256 string // lower-case hexadecimal; of a symbolic link that of its target's name
	Size   int64
}

// Change is what became different in a workspace. The lists are sorted by path.
type Change struct {
	Added, Modified, Deleted []File
	// Incomplete says why something may be missing; empty when nothing is.
	Incomplete string
}

// Changes compares the workspace with what it was when it was opened. Directories of version control are not looked at.
func (w *Workspace) Changes() *Change {
	after := list(w.Dir)
	c := &Change{Incomplete: w.before.incomplete}
	if c.Incomplete == "" {
		c.Incomplete = after.incomplete
	}
	for path, f := range after.files {
		old, was := w.before.files[path]
		switch {
		case !was:
			c.Added = append(c.Added, f)
		case old != f:
			c.Modified = append(c.Modified, f)
		}
	}
	for path, f := range w.before.files {
		if _, is := after.files[path]; !is {
			c.Deleted = append(c.Deleted, f)
		}
	}
	for _, l := range [][]File{c.Added, c.Modified, c.Deleted} {
		slices.SortFunc(l, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	}
	return c
}

// listing is every file of a tree at one moment.
type listing struct {
	files      map[string]File
	bytes      int64
	incomplete string
}

// list looks at everything below dir. What cannot be read makes the listing incomplete, and is no error.
func list(dir string) *listing {
	l := &listing{files: map[string]File{}}
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		rel, rerr := filepath.Rel(dir, p)
		switch {
		case err != nil || rerr != nil:
			l.lacks("a directory could not be read")
			return nil
		case d.Name() == ".git" && rel != ".":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case len(l.files) == maxListedFiles || l.bytes > maxListedBytes:
			l.lacks(fmt.Sprintf("the workspace has more than %d files or %d bytes", maxListedFiles, int64(maxListedBytes)))
			return filepath.SkipAll
		}
		l.add(p, filepath.ToSlash(rel), d)
		return nil
	})
	return l
}

func (l *listing) lacks(why string) {
	if l.incomplete == "" {
		l.incomplete = why
	}
}

func (l *listing) add(p, rel string, d os.DirEntry) {
	f := File{Path: rel}
	h := sha256.New()
	switch {
	case d.Type()&os.ModeSymlink != 0:
		target, err := os.Readlink(p)
		if err != nil {
			l.lacks("a link could not be read")
			return
		}
		f.Size = int64(len(target))
		io.WriteString(h, target)
	case d.Type().IsRegular():
		src, err := os.Open(p)
		if err != nil {
			l.lacks("a file could not be read")
			return
		}
		f.Size, err = io.Copy(h, src)
		src.Close()
		if err != nil {
			l.lacks("a file could not be read")
			return
		}
	default:
		return
	}
	l.bytes += f.Size
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	l.files[rel] = f
}
