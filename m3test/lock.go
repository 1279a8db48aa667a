package m3test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/catalog"
)

// envUpdate is the variable that makes [Locked] rewrite its files.
const envUpdate = "M3_UPDATE"

// Locked checks that the server's tools (names, descriptions, schemas, annotations, as on the wire) are those of the lock file at path, which is
// relative to the test's package. A difference fails the test and lists what changed, classed as breaking, risky, additive or wording. It returns whether
// the tools are as locked.
//
// The file is written by m3 lock, or by running the test with M3_UPDATE=1, which rewrites it and passes. The order in which tools are listed is no difference; what is secret is
// replaced before the file is written and before it is compared.
func Locked(t T, client *m3.Client, path string) bool {
	t.Helper()
	if client == nil {
		t.Fatalf("m3: Locked: the client is nil: did Direct fail?")
		return false
	}
	now, err := catalog.Of(t.Context(), client)
	if err != nil {
		t.Errorf("m3: the tools of %s cannot be listed for %s: %v", client.Server(), path, err)
		return false
	}
	if os.Getenv(envUpdate) == "1" {
		if err := writeLock(path, now); err != nil {
			t.Errorf("m3: the lock file cannot be written: %v", err)
			return false
		}
		return true
	}
	locked, err := readLock(path)
	if err != nil {
		t.Errorf("m3: %v", err)
		return false
	}
	changes := catalog.Compare(locked, now)
	if len(changes) == 0 {
		return true
	}
	t.Errorf("m3: the tools of %s are not as locked in %s: %s\n%s  if this is meant: %s=1 go test -run '^%s$'", client.Server(), path, catalog.Tally(changes),
		client.Redact(catalog.Text(changes)), envUpdate, t.Name())
	return false
}

func readLock(path string) (*catalog.Catalog, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no lock file %s yet: write it with %s=1 go test, or with m3 lock", path, envUpdate)
	}
	if err != nil {
		return nil, fmt.Errorf("the lock file cannot be read: %w", err)
	}
	c, err := catalog.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("the lock file %s cannot be used: %w; write it anew with %s=1 go test", path, err, envUpdate)
	}
	return c, nil
}

func writeLock(path string, c *catalog.Catalog) error {
	text, err := c.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
