package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Mode is how a workspace is made.
type Mode string

// The modes.
const (
	Temporary Mode = "temporary"    // empty
	Copy      Mode = "copy"         // a copy of a directory, without what is left out (see leftOut)
	Worktree  Mode = "git_worktree" // of a repository, at its HEAD
	ReadOnly  Mode = "read_only"    // a copy without write permission
	InPlace   Mode = "in_place"     // the directory itself
)

// Workspace is a directory that an agent works in.
type Workspace struct {
	// Dir is absolute.
	Dir  string
	mode Mode

	repository string // of a worktree
	owned      string // what Remove removes
	before     *listing
}

// Open makes a workspace. Source is the directory that it is made of; a temporary one has none.
func Open(ctx context.Context, mode Mode, source string) (*Workspace, error) {
	w := &Workspace{mode: mode}
	if err := w.open(ctx, source); err != nil {
		_ = w.Remove(context.WithoutCancel(ctx))
		return nil, err
	}
	w.before = list(w.Dir)
	return w, nil
}

func (w *Workspace) open(ctx context.Context, source string) error {
	if w.mode != Temporary {
		abs, err := filepath.Abs(source)
		if err != nil {
			return err
		}
		if source, err = filepath.EvalSymlinks(abs); err != nil {
			return err
		}
		if info, err := os.Stat(source); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a directory", source)
		}
	}
	if w.mode == InPlace {
		w.Dir = source
		return nil
	}
	dir, err := tempDir("m3-work-")
	if err != nil {
		return err
	}
	w.owned, w.Dir = dir, dir
	switch w.mode {
	case Copy:
		return copyTree(ctx, source, dir)
	case ReadOnly:
		if err := copyTree(ctx, source, dir); err != nil {
			return err
		}
		return lock(dir)
	case Worktree:
		return w.checkOut(ctx, source)
	}
	return nil
}

// checkOut makes the worktree in a directory below the owned one, for git wants to make it itself.
func (w *Workspace) checkOut(ctx context.Context, repository string) error {
	w.Dir = filepath.Join(w.owned, "tree")
	if err := git(ctx, repository, "worktree", "add", "--quiet", "--detach", w.Dir, "HEAD"); err != nil {
		return err
	}
	w.repository = repository
	return nil
}

// Remove removes what was made; a directory that is used in place stays.
func (w *Workspace) Remove(ctx context.Context) error {
	var err error
	if w.repository != "" {
		err = git(ctx, w.repository, "worktree", "remove", "--force", w.Dir)
	}
	if w.owned != "" {
		err = errors.Join(err, removeAll(w.owned))
	}
	return err
}

// git runs a command of git's. Variables that would point it elsewhere, as in a hook, are left out, and it asks nobody for anything.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, firstLine(out))
	}
	return nil
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

// lock takes write permission away.
func lock(dir string) error {
	return filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(p, info.Mode().Perm()&^0o222)
	})
}
