package isolation

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// MaxArtifact is the most bytes that one artifact may have.
const MaxArtifact = 64 << 20

// maxArtifacts is the most that are collected.
const maxArtifacts = 1000

// CheckPattern refuses a pattern that is none, or that leads out of the workspace.
func CheckPattern(pattern string) error {
	switch {
	case pattern == "" || path.IsAbs(pattern) || strings.Contains(pattern, "\\") || strings.ContainsRune(pattern, 0):
		return fmt.Errorf("%q is not a relative path with slashes", pattern)
	case path.Clean(pattern) != pattern || strings.HasPrefix(pattern, "../") || pattern == ".." || pattern == ".":
		return fmt.Errorf("%q is not a plain path within the workspace", pattern)
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("%q is not a pattern: %w", pattern, err)
		}
	}
	return nil
}

// Collected is one file that a pattern names.
type Collected struct {
	Path string
	Data []byte
	// Skipped says why Data is not there; empty when it is.
	Skipped string
}

// Collect reads the regular files that the patterns name, in the order of their paths, and hands each to keep, which must not hold on to Data. Nothing is followed out
// of the workspace.
func (w *Workspace) Collect(patterns []string, keep func(c *Collected) error) error {
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	n := 0
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // what cannot be read is no artifact; the changes say that something is missing
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular() || !matchAny(patterns, p):
			return nil
		}
		if n++; n > maxArtifacts {
			return fmt.Errorf("more than %d files match the declared artifacts", maxArtifacts)
		}
		return keep(collect(root, p))
	})
}

func collect(root *os.Root, p string) *Collected {
	c := &Collected{Path: p}
	f, err := root.Open(p)
	if err != nil {
		c.Skipped = "it cannot be opened"
		return c
	}
	defer f.Close()
	if c.Data, err = io.ReadAll(io.LimitReader(f, MaxArtifact+1)); err != nil {
		c.Data, c.Skipped = nil, "it cannot be read"
	} else if len(c.Data) > MaxArtifact {
		c.Data, c.Skipped = nil, fmt.Sprintf("it has more than %d bytes", MaxArtifact)
	}
	return c
}

func matchAny(patterns []string, p string) bool {
	parts := strings.Split(p, "/")
	for _, pattern := range patterns {
		if matchParts(strings.Split(pattern, "/"), parts) {
			return true
		}
	}
	return false
}

// matchParts matches name by name; ** stands for any number of them.
func matchParts(pattern, parts []string) bool {
	for i, want := range pattern {
		if want == "**" {
			for skip := 0; skip <= len(parts)-i; skip++ {
				if matchParts(pattern[i+1:], parts[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(parts) {
			return false
		}
		if ok, _ := path.Match(want, parts[i]); !ok {
			return false
		}
	}
	return len(pattern) == len(parts)
}
