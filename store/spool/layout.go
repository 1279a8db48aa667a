package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The names in a run's directory. A spool appears under its final name only when it is locked and has its header, so nobody
// takes one that is being made for that of a dead writer.
const (
	suffix   = ".jsonl"
	blobsDir = "blobs"
)

// Dir is where the spools of a database are: one directory a run.
func Dir(database string) string { return database + ".spool" }

// runDir is the name of a run's directory. The header has the run's id itself.
func runDir(run string) string {
	name := url.PathEscape(run)
	if len(name) > 150 {
		sum := sha256.Sum256([]byte(run))
		name = name[:100] + "-" + hex.EncodeToString(sum[:8])
	}
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	return name
}

// File is a spool on disk.
type File struct {
	ID   string // unique
	Path string
}

// Blob is where the spool's writer put the bytes of a blob.
func (f File) Blob(sha256 string) string {
	return filepath.Join(filepath.Dir(f.Path), blobsDir, sha256)
}

// List lists the spools of a database, in the order of their names. None is no error.
func List(database string) ([]File, error) {
	paths, err := listNames(Dir(database))
	var out []File
	for _, run := range paths {
		dir := filepath.Join(Dir(database), run)
		names, e := listNames(dir)
		if e != nil && !errors.Is(e, syscall.ENOTDIR) {
			err = errors.Join(err, e)
		}
		for _, n := range names {
			if id, ok := strings.CutSuffix(n, suffix); ok && !strings.HasPrefix(n, ".") {
				out = append(out, File{ID: id, Path: filepath.Join(dir, n)})
			}
		}
	}
	if err != nil {
		return out, fmt.Errorf("spool: list the spools of %s: %w", database, err)
	}
	return out, nil
}

// listNames is the sorted names in a directory; none when it is not there (or gone meanwhile).
func listNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Remove deletes a spool whose writer is gone and whose records are kept elsewhere. Its blobs go with [Sweep].
func Remove(f File) error {
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("spool: remove: %w", err)
	}
	return nil
}

// SetAside takes a spool out of the list without deleting it: it holds lines that could not be read.
func SetAside(f File) error {
	if err := os.Rename(f.Path, f.Path+".bad"); err != nil {
		return fmt.Errorf("spool: set aside: %w", err)
	}
	return nil
}

// Sweep deletes the directories, with their blobs, of runs that have no spool left and no writer alive.
func Sweep(database string) error {
	runs, err := listNames(Dir(database))
	if err != nil || runs == nil {
		return err
	}
	var errs []error
	for _, run := range runs {
		errs = append(errs, sweepRun(filepath.Join(Dir(database), run)))
	}
	// Not empty, or gone: somebody else's business.
	_ = os.Remove(Dir(database))
	return errors.Join(errs...)
}

func sweepRun(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("spool: sweep: %w", err)
	}
	defer d.Close()
	if info, err := d.Stat(); err != nil || !info.IsDir() {
		return err // not of ours
	}
	// Every writer holds this lock shared for its life, and takes it before it makes anything.
	if ok, err := tryLock(d, syscall.LOCK_EX); !ok {
		return err
	}
	names, err := listNames(dir)
	if err != nil {
		return fmt.Errorf("spool: sweep: %w", err)
	}
	for _, n := range names {
		if n != blobsDir && !strings.HasPrefix(n, ".") {
			return nil
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("spool: sweep: %w", err)
	}
	return nil
}

// WriterGone reports whether the writer of an open spool is gone. If so, the caller holds the lock until it closes the file.
func WriterGone(f *os.File) (bool, error) { return tryLock(f, syscall.LOCK_EX) }

func tryLock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("spool: lock %s: %w", f.Name(), err)
		}
	}
}

// Lock takes the lock (LOCK_EX or LOCK_SH of flock) of an open file, waiting for whoever holds it until ctx ends.
func Lock(ctx context.Context, f *os.File, how int) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if ok, err := tryLock(f, how); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("spool: %s is locked by another process: %w", f.Name(), ctx.Err())
		case <-time.After(wait):
		}
	}
}

// enter makes the run's directory and holds it open and locked, so that nobody sweeps it.
func enter(ctx context.Context, dir string) (*os.File, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		d, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept between the two calls
		}
		if err != nil {
			return nil, err
		}
		if err := Lock(ctx, d, syscall.LOCK_SH); err != nil {
			d.Close()
			return nil, err
		}
		if same(d, dir) {
			return d, nil
		}
		d.Close() // swept before we had the lock
	}
}

func same(d *os.File, path string) bool {
	a, err := d.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}
