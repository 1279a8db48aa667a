package shim

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// run starts this test binary in a role.
func run(t *testing.T, role, stdin string) (stdout, stderr string, code int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), RoleEnv+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Run()
	w.Close()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	ready, err := io.ReadAll(r)
	if err != nil || (string(ready) == Ready) != (role == RoleReaper) {
		t.Errorf("role %q was ready with %q, %v", role, ready, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestRoles(t *testing.T) {
	t.Parallel()
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if out, _, code := run(t, "", ""); code != 0 || !strings.Contains(out, "PASS") {
			t.Errorf("without a role it is the test binary: %q, exit code %d", out, code)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		out, errs, code := run(t, "butler", "")
		if code != 2 || out != "" || !strings.Contains(errs, `no role "butler"; unset `+RoleEnv) {
			t.Errorf("stdout %q, stderr %q, exit code %d", out, errs, code)
		}
	})
	t.Run("reaper", func(t *testing.T) {
		t.Parallel()
		for _, stdin := range []string{"", "mark 0123456789abcdef 1\n", "nonsense\nmark 0123456789abcdef 1\ngroup 1 0\ngroup"} {
			if out, errs, code := run(t, RoleReaper, stdin); code != 0 || out+errs != "" {
				t.Errorf("notes %q: stdout %q, stderr %q, exit code %d", stdin, out, errs, code)
			}
		}
	})
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for _, n := range []Note{
		{Verb: NoteMark, Mark: "beef", Start: 12},
		{Verb: NoteGroup, Group: 4711, Start: 99},
		{Verb: NoteGuard, Group: 4712, Start: 100},
		{Verb: NoteForget, Group: 4711},
	} {
		if got, err := ParseNote(n.String()); err != nil || got != n {
			t.Errorf("%q is read as %+v, %v", n.String(), got, err)
		}
	}
	for _, bad := range []string{"", "\n", "mark x", "mark", "group 1 5", "group 0 5", "group -7 5", "group 7", "group 7 -1", "forget 1", "forget x", "kill 7"} {
		if n, err := ParseNote(bad); err == nil || n != (Note{}) {
			t.Errorf("%q is read as %+v", bad, n)
		}
	}
}

func FuzzParseNote(f *testing.F) {
	for _, s := range []string{"mark beef 1\n", "group 4711 99\n", "forget 4711\n", "group 1 1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		n, err := ParseNote(line)
		if err != nil {
			return
		}
		if n.Verb != NoteMark && n.Group < 2 {
			t.Errorf("%q names the group %d", line, n.Group)
		}
		if again, err := ParseNote(n.String()); err != nil || again != n {
			t.Errorf("%q: %+v is read again as %+v, %v", line, n, again, err)
		}
	})
}

func TestMarks(t *testing.T) {
	t.Parallel()
	inner := Mark{"abcd", 2}
	env := inner.Environ(Mark{"0123", 7}.Environ([]string{"A=1", "B=2"}))
	if got, want := strings.Join(env, " "), "A=1 B=2 "+MarkEnv+"=0123.7,abcd.2"; got != want {
		t.Fatalf("environment %q, want %q", got, want)
	}
	raw := []byte(strings.Join(env, "\x00") + "\x00")
	for m, want := range map[Mark]bool{
		inner: true, {"abcd", 0}: true, {"0123", 7}: true,
		{"abcd", 1}: false, {"abcd", 22}: false, {"bcd", 2}: false, {"abc", 0}: false, {"", 0}: false,
	} {
		if got := m.in(raw, 0); got != want {
			t.Errorf("%v in %q: %v", m, raw, got)
		}
	}
	for _, other := range []string{"", "X" + MarkEnv + "=abcd.2", "A=" + MarkEnv + "=abcd.2", MarkEnv, MarkEnv + "=", MarkEnv + "=abcd"} {
		if inner.in([]byte(other), 0) {
			t.Errorf("%v found in %q", inner, other)
		}
	}
}
