package endtoend

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/endtoend/planted"
	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/trace"
)

// offFlags link redaction out, for the control run.
const offFlags = "-ldflags=-X github.com/m3-go/m3.redaction=off"

// redactionRun is one m3 test over the package that plants the secrets, with everything that it writes below one directory.
type redactionRun struct {
	root, module string
	env          []string
	w            *watcher
	cli          string
	output       string
}

func newRedactionRun(t *testing.T, off bool) *redactionRun {
	t.Helper()
	r := &redactionRun{root: t.TempDir()}
	core := rand.Text()[:9]
	secrets := planted.New(core)
	r.w = newWatcher(r.root, core, secrets)
	r.module = newModule(t, filepath.Join(r.root, "project"))
	for _, dir := range []string{"tmp", "home", "out"} {
		if err := os.Mkdir(filepath.Join(r.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.env = environ(append(goEnvironment(t), "TMPDIR="+filepath.Join(r.root, "tmp"), "HOME="+filepath.Join(r.root, "home"), "NO_COLOR=1",
		planted.Env+"="+secrets.Encode(), "SHOP_TOKEN="+secrets[planted.Environment], "API_TOKEN="+secrets[planted.Environment])...)
	name, args := "m3", []string{"-ldflags=-s -w", "../../cmd/m3"}
	if off {
		name, args[0] = "m3-off", offFlags+" -s -w"
	}
	r.cli = built.get(t, name, ".", "build", args...)
	return r
}

// run runs m3 in the project and looks through all that it says.
func (r *redactionRun) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, code := output(t, command(t, r.module, r.env, r.cli, args...))
	r.w.look("the terminal: m3 "+args[0], []byte(out))
	r.output += out
	return out, code
}

// test runs everything under the watcher's eyes.
func (r *redactionRun) test(t *testing.T, flags ...string) {
	t.Helper()
	stop := r.w.watch(t)
	args := append([]string{"test", "./redaction", "--", "-vet=off", "-v", "-artifacts", "-outputdir=" + filepath.Join(r.root, "out")}, flags...)
	out, code := r.run(t, args...)
	if code != 1 || !strings.Contains(out, "TestStdio") || !strings.Contains(out, "TestDead") || !strings.Contains(out, "TestHTTP") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	r.direct(t)
	for _, id := range r.executions(t) {
		if shown, code := r.run(t, "show", string(id)); code != 0 {
			t.Errorf("show: exit code %d:\n%s", code, shown)
		}
	}
	stop()
	for _, kind := range []string{"spool", "blob", ".sqlite", ".sqlite-wal", ".sqlite-shm", "artifact", "feedback"} {
		if !r.w.kinds[kind] {
			t.Errorf("no %s was read: the watcher read %v in %d reads", kind, r.w.kinds, r.w.reads)
		}
	}
}

// direct runs the other commands on the server, which record into the same database.
func (r *redactionRun) direct(t *testing.T) {
	t.Helper()
	server := built.get(t, "redaction.test", newModule(t, t.TempDir()), "test", "-c", "./redaction")
	flags := []string{"--command", server, "--env", rawserver.Role + "=-", "--env", planted.Env, "--env", "API_TOKEN", "--protocol", "2025-11-25", "--timeout", "1"}
	password := `{"password":` + rawserver.Quote(r.w.secrets[planted.Argument]) + `}`
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"inspect"}, 0},
		{[]string{"call", "environment"}, 0},
		{[]string{"call", "argument", password}, 0},
		{[]string{"call", "url", "--json"}, 0},
		{[]string{"call", "result", "--json"}, 0},
		{[]string{"call", "stderr"}, 0},
		{[]string{"call", "error", "--json"}, 1},
		{[]string{"call", "broken"}, 1},
		{[]string{"inspect", "--env", rawserver.Role + "=die"}, 1},
	} {
		args := slices.Insert(slices.Clone(c.args), 1, flags...)
		if out, code := r.run(t, args...); code != c.code {
			t.Errorf("m3 %q: exit code %d, want %d:\n%s", c.args, code, c.code, out)
		}
	}
}

func (r *redactionRun) database() string { return filepath.Join(r.module, ".m3", "executions.sqlite") }

func (r *redactionRun) executions(t *testing.T) (ids []trace.ExecutionID) {
	t.Helper()
	infos, err := openDB(t, r.database()).Executions(t.Context(), nil)
	if err != nil || len(infos) != 3+9 {
		t.Fatalf("%d executions, %v", len(infos), err)
	}
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

// Of twelve secrets that are planted, none is in any byte that is written anywhere, at any time.
func TestRedaction(t *testing.T) {
	t.Parallel()
	r := newRedactionRun(t, false)
	r.test(t)
	for name, where := range r.w.found {
		for i, path := range where {
			where[i] = strings.TrimPrefix(path, r.root)
		}
		t.Errorf("%s was found in %q", name, where)
	}
	if t.Failed() {
		t.Logf("m3 said:\n%s", r.output)
	}
	if n := strings.Count(r.output, "[REDACTED]"); n < 12 {
		t.Errorf("the terminal shows only %d replacements:\n%s", n, r.output)
	}
	r.holdCatalogue(t)
}

// holdCatalogue: a schema with a property called password is no secret.
func (r *redactionRun) holdCatalogue(t *testing.T) {
	t.Helper()
	db := openDB(t, r.database())
	lists := 0
	for _, id := range r.executions(t) {
		for _, m := range viewOf(t, db, id).RawMessages().All() {
			ev, err := db.ReadRawEvidence(t.Context(), *m.EvidenceRef, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(ev.Bytes, []byte(`"inputSchema"`)) {
				continue
			}
			lists++
			if !bytes.Contains(ev.Bytes, []byte(planted.Catalogue)) || len(ev.Redactions) > 0 {
				t.Errorf("the catalogue was changed: %+v\n%s\nwant\n%s", ev.Redactions, ev.Bytes, planted.Catalogue)
			}
		}
	}
	if lists != 2 { // the test, and m3 inspect
		t.Errorf("%d catalogues in the evidence, want 2", lists)
	}
}

// With redaction linked out the same search finds all twelve: it would have found them above.
func TestRedactionControl(t *testing.T) {
	t.Parallel()
	r := newRedactionRun(t, true)
	r.test(t, offFlags)
	for _, name := range planted.Names {
		where := r.w.found[name]
		if !slices.ContainsFunc(where, func(path string) bool { return strings.HasPrefix(path, r.root) }) {
			t.Errorf("the control run does not find %s in any file: %q", name, where)
		}
	}
}
