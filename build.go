package m3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// builds holds what this process has built: a StdioServer's Build is built once a process.
var builds = &buildCache{done: map[string]*built{}}

type buildCache struct {
	mu   sync.Mutex
	done map[string]*built
}

type built struct {
	done chan struct{}
	path string // path and err are there when done is closed
	err  error
}

// get returns the binary of the Go package pkg, as seen from the working directory.
func (c *buildCache) get(ctx context.Context, pkg string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	key := dir + "\x00" + pkg
	c.mu.Lock()
	b := c.done[key]
	if b == nil {
		b = &built{done: make(chan struct{})}
		c.done[key] = b
		// The build belongs to the process, not to the first caller: its ctx must not end it for the others.
		go func() {
			defer close(b.done)
			b.path, b.err = build(context.WithoutCancel(ctx), key, pkg)
		}()
	}
	c.mu.Unlock()
	select {
	case <-b.done:
		return b.path, b.err
	case <-ctx.Done():
		return "", fmt.Errorf("go build %s has not finished: %w", pkg, context.Cause(ctx))
	}
}

// build links into m3's cache, so that go's own up-to-date check saves the linking when nothing changed and no file is left
// behind in a temporary directory. The binary that runs is another name of the file, because a running file cannot be written.
func build(ctx context.Context, key, pkg string) (string, error) {
	sum := sha256.Sum256([]byte(key))
	dir, err := cacheDir(hex.EncodeToString(sum[:8]))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	defer unlock()
	fresh := filepath.Join(dir, "fresh")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", fresh, pkg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", &TransportError{Message: fmt.Sprintf("go build %s failed: %v", pkg, err), Stderr: out.String(), Details: map[string]any{"phase": "build"}, Err: err}
	}
	if info, err := os.Stat(fresh); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", validationf("StdioServer: Build %q is not a main package: go build made no program", pkg)
	}
	return runnable(dir, fresh)
}

// runnable gives the freshly built file a name by its content.
func runnable(dir, fresh string) (string, error) {
	f, err := os.Open(fresh)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	name := filepath.Join(dir, "run-"+hex.EncodeToString(h.Sum(nil)[:12]))
	if _, err := os.Stat(name); err == nil {
		now := time.Now()
		return name, os.Chtimes(name, now, now)
	}
	prune(dir)
	// A copy, not a link: go build rewrites its output in place.
	tmp := name + ".new"
	dst, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o700)
	if err != nil {
		return "", err
	}
	if _, err = f.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(dst, f)
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", err
	}
	return name, os.Rename(tmp, name)
}

// prune removes binaries that nobody has used for a day.
func prune(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, "run-*"))
	for _, name := range old {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(name)
		}
	}
}

func cacheDir(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("m3-cache-%d", os.Getuid()))
	}
	dir := filepath.Join(base, "m3", "build", name)
	return dir, os.MkdirAll(dir, 0o700)
}

func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
