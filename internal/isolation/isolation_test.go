package isolation

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHome(t *testing.T) {
	t.Parallel()
	h, err := NewHome()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(h.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	inside := 0
	for _, kv := range h.Env() {
		name, value, _ := strings.Cut(kv, "=")
		if name == "HOME" || name == "TMPDIR" || strings.HasPrefix(name, "XDG_") {
			inside++
			there := name == "HOME" || name == "TMPDIR" || name == "XDG_RUNTIME_DIR" // the others are made by who writes to them
			if info, err := os.Stat(value); !strings.HasPrefix(value, h.Path) || there && (err != nil || !info.IsDir()) {
				t.Errorf("%s is no directory of the home: %v", kv, err)
			}
		}
	}
	if inside != 7 || len(h.Env()) != 11 {
		t.Errorf("environment %q", h.Env())
	}
	locked := filepath.Join(h.Path, "a", "b")
	if err := os.MkdirAll(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(locked, "f"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := h.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(h.Path); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestLeftOut(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{".env": true, ".env.local": true, ".environment.go": true, "credentials.json": true, "Secrets.yaml": true, "id_ed25519.pub": true, "a.pem": true,
		"auth.json": true, "secrets.go": false, "credentials.py": false, "main.go": false, "environment": false, "token.txt": false} {
		if got := LeftOut(name, false); got != want {
			t.Errorf("%s is left out: %t", name, got)
		}
	}
	if !LeftOut(".git", true) || !LeftOut("node_modules", true) || LeftOut("src", true) {
		t.Error("directories")
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, paths := range map[string]string{"*.txt": "a.txt", "out/*": "out/a", "**/x.log": "x.log a/x.log a/b/x.log", "a/**": "a/b a/b/c", "a/**/c": "a/c a/b/c"} {
		if err := CheckPattern(pattern); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		for path := range strings.FieldsSeq("a.txt out/a x.log a/x.log a/b/x.log a/b a/b/c a/c") {
			want := false
			for p := range strings.FieldsSeq(paths) {
				want = want || p == path
			}
			if pattern == "a/**" {
				want = strings.HasPrefix(path, "a/")
			}
			if got := matchAny([]string{pattern}, path); got != want {
				t.Errorf("%s matches %s: %t", pattern, path, got)
			}
		}
	}
	for _, bad := range []string{"", "/etc/passwd", "../x", "a/../../x", "a//b", ".", "..", "[", `a\b`, "a/./b"} {
		if CheckPattern(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestWorkspaceStaysInside: neither links nor patterns lead out of it.
func TestWorkspaceStaysInside(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	for name, target := range map[string]string{"out.txt": outside, "up.txt": "../../x", "in.txt": "real.txt", "hidden": ".env"} {
		if err := os.Symlink(target, filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"real.txt", ".env"} {
		if err := os.WriteFile(filepath.Join(source, name), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Open(context.Background(), Copy, source)
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(w.Dir)
	if err != nil || len(names) != 2 { // in.txt and real.txt
		t.Errorf("copied %v, %v", names, err)
	}
	if err := os.Symlink(outside, filepath.Join(w.Dir, "late.txt")); err != nil {
		t.Fatal(err)
	}
	var kept []string
	if err := w.Collect([]string{"**"}, func(c *Collected) error { kept = append(kept, c.Path+"="+string(c.Data)); return nil }); err != nil {
		t.Fatal(err)
	}
	if strings.Join(kept, " ") != "real.txt=content" {
		t.Errorf("collected %q", kept)
	}
	if c := w.Changes(); len(c.Added) != 1 || c.Added[0].Path != "late.txt" || len(c.Modified)+len(c.Deleted) != 0 {
		t.Errorf("changes %+v", c)
	}
	if err := w.Remove(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.Dir); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := Open(context.Background(), Copy, outside); err == nil {
		t.Error("a file is taken for a directory")
	}
	if _, err := Open(context.Background(), Worktree, source); err == nil {
		t.Error("a directory without git is taken for a repository")
	}
}

// TestReadOnly: nothing can be written, but by who may write anywhere.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Open(context.Background(), ReadOnly, source)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(w.Dir, "a")); err != nil || info.Mode().Perm()&0o222 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := w.Remove(context.Background()); err != nil {
		t.Error(err)
	}
}
