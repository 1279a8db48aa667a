package isolation

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of a copy.
const (
	maxCopyBytes = 1 << 30
	maxCopyFiles = 100_000
)

// Directories that are never copied: version control, build output, caches, and where programs keep credentials.
var leftOutDirs = []string{
	".git", ".hg", ".svn", ".jj", ".bzr",
	"node_modules", "target", "dist", "build", "__pycache__", ".venv", "venv", ".tox", ".gradle", ".cache", ".m3",
	".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".gcloud",
}

// Files that are never copied, as patterns of lower-case names.
var leftOutFiles = []string{
	".env*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
	".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "auth.json", "service-account*.json", "service_account*.json",
	"credential", "credential.*", "credentials", "credentials.*", "secret", "secrets", "secret.*", "secrets.*", ".credentials*", ".secrets*",
}

// sourceCode are endings of files that are kept whatever they are called: secrets.go is code.
var sourceCode = []string{".go", ".py", ".js", ".ts", ".tsx", ".jsx", ".rs", ".java", ".c", ".h", ".cc", ".cpp", ".rb", ".md"}

// LeftOut reports whether a file or directory of that name is left out of copies.
func LeftOut(name string, dir bool) bool {
	if dir {
		return slices.Contains(leftOutDirs, name)
	}
	name = strings.ToLower(name)
	if slices.Contains(sourceCode, filepath.Ext(name)) && !strings.HasPrefix(name, ".env") {
		return false
	}
	return slices.ContainsFunc(leftOutFiles, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the patterns are ours
		return ok
	})
}

// copier copies a tree within its bounds.
type copier struct {
	ctx      context.Context
	from, to string
	bytes    int64
	files    int
}

// copyTree copies what is not left out. Of symbolic links those stay that lead to something within the tree.
func copyTree(ctx context.Context, from, to string) error {
	c := &copier{ctx: ctx, from: from, to: to}
	return filepath.WalkDir(from, c.visit)
}

func (c *copier) visit(p string, d os.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	rel, err := filepath.Rel(c.from, p)
	if err != nil || rel == "." {
		return err
	}
	if LeftOut(d.Name(), d.IsDir()) {
		if d.IsDir() {
			return filepath.SkipDir
		}
		return nil
	}
	if c.files++; c.files > maxCopyFiles {
		return fmt.Errorf("%s has more than %d files: choose a smaller directory", c.from, maxCopyFiles)
	}
	target := filepath.Join(c.to, rel)
	switch {
	case d.IsDir():
		return os.Mkdir(target, 0o700)
	case d.Type()&os.ModeSymlink != 0:
		return c.link(p, target)
	case d.Type().IsRegular():
		return c.file(p, target)
	}
	return nil // a socket, a pipe, a device: nothing to work with
}

// link copies a link that stays within the tree; another would lead the agent out of its workspace.
func (c *copier) link(p, target string) error {
	to, err := os.Readlink(p)
	if err != nil || filepath.IsAbs(to) {
		return err
	}
	rel, err := filepath.Rel(c.from, filepath.Join(filepath.Dir(p), to))
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return nil
	}
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		if LeftOut(part, true) || LeftOut(part, false) {
			return nil
		}
	}
	return os.Symlink(to, target)
}

func (c *copier) file(p, target string) error {
	src, err := os.Open(p)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(dst, io.LimitReader(src, maxCopyBytes-c.bytes+1))
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if c.bytes += n; err == nil && c.bytes > maxCopyBytes {
		return fmt.Errorf("%s has more than %d bytes: choose a smaller directory", c.from, int64(maxCopyBytes))
	}
	return err
}
