package proc_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/shim"
)

func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o644)
	noShebang := file("data", "\x00\x01\x02", 0o755)
	lost := file("lost", "#!/no/such/interpreter -x\n", 0o755)
	for _, c := range []struct {
		name string
		spec proc.Spec
		is   error
		text string
	}{
		{"empty", proc.Spec{}, fs.ErrInvalid, "name the program"},
		{"not in its PATH", proc.Spec{Path: "nope", Env: []string{"PATH=bin:" + dir}}, exec.ErrNotFound,
			`not found in the PATH of its own environment, PATH=bin:` + dir + `; install it, or give its path; relative directories in PATH are not searched: "bin"`},
		{"not in our PATH", proc.Spec{Path: "m3-no-such-command"}, exec.ErrNotFound, "PATH of the test process"},
		{"in PATH, not executable", proc.Spec{Path: "plain", Env: []string{"PATH=" + dir}}, exec.ErrNotFound, plain + " is there but not executable: chmod +x"},
		{"no such file", proc.Spec{Path: dir + "/none"}, fs.ErrNotExist, dir + "/none does not exist; install it or correct"},
		{"no such relative file", proc.Spec{Path: "./none", Dir: dir}, fs.ErrNotExist, dir + "/none does not exist (the command is a path relative"},
		{"not executable", proc.Spec{Path: plain}, fs.ErrPermission, "is not executable: chmod +x"},
		{"directory", proc.Spec{Path: dir}, fs.ErrPermission, "is a directory"},
		{"no program", proc.Spec{Path: noShebang}, syscall.ENOEXEC, "not a program for this system"},
		{"lost interpreter", proc.Spec{Path: lost}, fs.ErrNotExist, `the interpreter of its first line does not: "/no/such/interpreter -x"`},
		{"no directory", proc.Spec{Path: "sh", Dir: dir + "/none"}, fs.ErrNotExist, "working directory \"" + dir + "/none\" does not exist; create"},
		{"file as directory", proc.Spec{Path: "sh", Dir: plain}, syscall.ENOTDIR, "is not a directory"},
		{"NUL in an argument", proc.Spec{Path: "sh", Args: []string{"a", "b\x00"}}, fs.ErrInvalid, "argument 2 contains a NUL"},
		{"NUL in the environment", proc.Spec{Path: "sh", Env: []string{"SECRET=x\x00y"}}, fs.ErrInvalid, `"SECRET" contains a NUL`},
		{"too long", proc.Spec{Path: "sh", Args: []string{strings.Repeat("x", 8<<20)}}, syscall.E2BIG, "too long for this system"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := proc.Start(t.Context(), &c.spec)
			var se *proc.StartError
			switch {
			case err == nil:
				p.End(nil)
				t.Fatal("it started")
			case !errors.As(err, &se) || se.Path != c.spec.Path:
				t.Errorf("error %#v is no *StartError for %q", err, c.spec.Path)
			case !errors.Is(err, c.is):
				t.Errorf("error %q is not %q", err, c.is)
			case !strings.Contains(err.Error(), c.text):
				t.Errorf("error %q\ndoes not say   %q", err, c.text)
			}
		})
	}
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := proc.Start(ctx, &proc.Spec{Path: "sh"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start with a cancelled context: %v", err)
	}
}

// TestStartOutlivesContext ends the context of a start and finds the process alive.
func TestStartOutlivesContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := proc.Start(ctx, &proc.Spec{Path: "cat"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.WriteString(p.Stdin(), "still here"); err != nil {
		t.Error(err)
	}
	if e := p.End(patient); e.Step != proc.StepEOF {
		t.Errorf("End() = %+v", e)
	}
	if b, _ := io.ReadAll(p.Stdout()); string(b) != "still here" {
		t.Errorf("cat said %q", b)
	}
	p.Stdout().Close()
}

// TestEnvironment is complete, but for the mark, which is unique.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 2 {
		p, err := proc.Start(t.Context(), &proc.Spec{
			Path: "env", Dir: t.TempDir(),
			Env: []string{"A=1", shim.RoleEnv + "=reaper", shim.MarkEnv + "=outer.1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(p.Stdout())
		p.End(nil)
		p.Stdout().Close()
		first, mark, _ := strings.Cut(string(b), "\n")
		if first != "A=1" || !strings.HasPrefix(mark, shim.MarkEnv+"=outer.1,") || strings.Count(mark, "\n") != 1 || seen[mark] {
			t.Errorf("environment:\n%s", b)
		}
		seen[mark] = true
	}
}

// TestDescriptors starts many processes at once. Each has its three pipes and nothing else: the fourth below is the
// directory that ls reads.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			p, err := proc.Start(t.Context(), &proc.Spec{Path: "ls", Args: []string{"/dev/fd/"}})
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(p.Stdout())
			p.End(nil)
			p.Stdout().Close()
			if got := strings.Fields(string(b)); strings.Join(got, " ") != "0 1 2 3" {
				t.Errorf("descriptors %v; stderr %s", got, p.StderrTail())
			}
		})
	}
	wg.Wait()
}

// TestFreshExecutable writes a program and starts it at once, while others fork.
func TestFreshExecutable(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	dir := t.TempDir()
	for i := range 20 {
		wg.Go(func() {
			path := filepath.Join(dir, string(rune('a'+i)))
			if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 7\n"), 0o755); err != nil {
				t.Error(err)
				return
			}
			p, err := proc.Start(t.Context(), &proc.Spec{Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			<-p.Exited()
			if e := p.End(nil); e.Exit.Code != 7 {
				t.Errorf("End() = %+v", e)
			}
			p.Stdout().Close()
		})
	}
	wg.Wait()
}

// TestSession: a process may have a session of its own, whose id is the process's, and then no terminal.
func TestSession(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		p, err := proc.Start(t.Context(), &proc.Spec{Path: "cat", Env: os.Environ(), Session: own})
		if err != nil {
			t.Fatal(err)
		}
		sid, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(p.PID()), 0, 0)
		if errno != 0 || (int(sid) == p.PID()) != own {
			t.Errorf("session %t: its id is %d, the process %d, %v", own, sid, p.PID(), errno)
		}
		if e := p.End(nil); e.Step != proc.StepEOF || len(e.Survivors) != 0 {
			t.Errorf("session %t: ended %+v", own, e)
		}
	}
}
