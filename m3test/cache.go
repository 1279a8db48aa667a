package m3test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// go test may answer from its cache instead of running a test again. A recorded run must never be one of those answers, and an
// answer from before recording was asked for must not stand in for a recorded run. go decides by what it saw the test
// process do while its tests ran: the environment variables that it asked for and the files that it opened in its module.
//
// Measured with go 1.26 (cmd/go/internal/test): variables count by name, with the value that the go command itself sees; so asking for a
// variable that is no longer in the environment works. A file counts by its size and modification time, and a result is not
// cached when one of its files was changed less than two seconds before. So a fresh file is not enough: a test of three
// seconds would be cached. A time in the future is always "less than two seconds before".

// consultEnvironment makes go's cache tell runs apart by what they record.
func consultEnvironment() {
	for _, name := range []string{envDatabase, envRunID, envSuite} {
		os.Getenv(name) // gone since init: only the asking counts
	}
}

// mayBeCached reports whether go may cache the result of a test process with these arguments. It never does with -count, which m3 test
// always gives, nor with a flag that it does not know.
func mayBeCached(args []string) bool {
	return !slices.ContainsFunc(args[1:], func(arg string) bool {
		arg = strings.TrimLeft(arg, "-")
		return strings.HasPrefix(arg, "test.count=") || strings.HasPrefix(arg, "m3.db=")
	})
}

// stamp opens .m3/stamp in the module, changed "tomorrow". The file has to stay: go looks at it again after the process has
// ended. Outside a module there is nothing to do, go does not cache there.
func stamp(root string) error {
	if root == "" {
		return nil
	}
	dir := filepath.Join(root, ".m3")
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "stamp"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	tomorrow := time.Now().Add(24 * time.Hour)
	return os.Chtimes(f.Name(), tomorrow, tomorrow)
}

// makeDir makes m3's directory in a project, and keeps its content out of version control.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, serr := os.Stat(dir); serr == nil && info.IsDir() {
			return nil
		}
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600)
}
