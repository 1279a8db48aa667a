package endtoend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv(fullEnv); ok {
		os.Exit(recordUntilFull(path))
	}
	if base, ok := rawserver.Asked(); ok {
		os.Exit(serveNoisily(base))
	}
	code := m.Run()
	built.remove()
	os.Exit(code)
}

// long reports whether the long versions are to run.
func long() bool { return os.Getenv("M3_LONG") != "" }

// modulePath lets the module import the server and the secrets, which are internal.
const modulePath = "github.com/m3-go/m3/endtoend.test"

// newModule makes the module of testdata/module in dir.
func newModule(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	// The requirements of m3 are those of a module that uses it, so go needs to look for nothing.
	text := regexp.MustCompile(`(?m)^(tool|module) .*$`).ReplaceAllString(string(mod), "")
	text = "module " + modulePath + "\n" + text + "\nrequire github.com/m3-go/m3 v0.0.0\nreplace github.com/m3-go/m3 => " + strconv.Quote(root) + "\n"
	err = errors.Join(os.CopyFS(dir, os.DirFS("testdata/module")), os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// binaries is what the tests build once and share.
type binaries struct {
	mu   sync.Mutex
	dir  string
	done map[string]func() (string, error)
}

var built = &binaries{done: map[string]func() (string, error){}}

func (b *binaries) remove() {
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

// get runs go in dir, with -o and a path as its first arguments after the verb, once for each name.
func (b *binaries) get(t *testing.T, name, dir string, verb string, args ...string) string {
	t.Helper()
	b.mu.Lock()
	f := b.done[name]
	if f == nil {
		f = sync.OnceValues(func() (string, error) { return b.build(name, dir, verb, args) })
		b.done[name] = f
	}
	b.mu.Unlock()
	path, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (b *binaries) build(name, dir, verb string, args []string) (string, error) {
	b.mu.Lock()
	var err error
	if b.dir == "" {
		b.dir, err = os.MkdirTemp("", "m3-endtoend-")
	}
	path := filepath.Join(b.dir, name)
	b.mu.Unlock()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", append([]string{verb, "-o", path}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return path, nil
}

// environ is the environment without what m3 test may have told this process, and with more.
func environ(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "M3_") || strings.HasPrefix(kv, "GOFLAGS=") })
	return append(env, more...)
}

// command is a command in dir that is killed when it hangs.
func command(t *testing.T, dir string, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output runs the command and returns all that it said and its exit code.
func output(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &exit):
		return out.String(), exit.ExitCode()
	}
	t.Fatalf("%s: %v\n%s", cmd, err, &out)
	return "", 0
}

// openDB opens a database until the test ends.
func openDB(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// viewOf is the view of an execution in a store.
func viewOf(t *testing.T, r interface {
	Trace(ctx context.Context, id trace.ExecutionID) (*trace.Trace, error)
}, id trace.ExecutionID) trace.View {
	t.Helper()
	tr, err := r.Trace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	v, err := tr.View()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// evidence is what the raw messages of one direction are, put together: frames of messages, no stderr.
func evidence(t *testing.T, read func(ctx context.Context, ref trace.EvidenceRef, maxBytes int64) (bytes []byte, err error), v trace.View, d trace.Direction) []byte {
	t.Helper()
	var all []byte
	for _, m := range v.RawMessages().All() {
		if m.Direction != d || m.Source == "process_stderr" || m.EvidenceRef == nil {
			continue
		}
		if m.Dropped != 0 || len(m.Redactions) != 0 {
			t.Errorf("frame %s: %d bytes dropped, %d replaced", m.EntryID, m.Dropped, len(m.Redactions))
		}
		b, err := read(t.Context(), *m.EvidenceRef, 64<<20)
		if err != nil {
			t.Fatalf("evidence of %s: %v", m.EntryID, err)
		}
		all = append(all, b...)
	}
	return all
}

// diffAt says where two byte strings part.
func diffAt(t *testing.T, what string, want, got []byte) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	n := 0
	for n < len(want) && n < len(got) && want[n] == got[n] {
		n++
	}
	t.Errorf("%s: %d bytes, want %d; they part at %d: %.80q, want %.80q", what, len(got), len(want), n, got[max(0, n-20):], want[max(0, n-20):])
}
