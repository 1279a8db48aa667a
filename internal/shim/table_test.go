package shim

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " 1 4242 4242 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 3821568 90 18446744073709551615"
	for _, c := range []struct {
		in   string
		want Proc
	}{
		{"4243 (sh) S" + rest, Proc{PID: 4243, Parent: 1, Group: 4242, Start: 987654}},
		{"4243 (a) R 9 (b) S" + rest, Proc{PID: 4243, Parent: 1, Group: 4242, Start: 987654}},
		{"4243 (\n) ) S" + rest, Proc{PID: 4243, Parent: 1, Group: 4242, Start: 987654}},
		{"4243 (dead) Z" + rest, Proc{}},
		{"4243 (sh) S 1 2 3", Proc{}},
		{"(sh) S" + rest, Proc{}},
		{"", Proc{}},
	} {
		got, ok := parseStat([]byte(c.in))
		if ok != (c.want.PID != 0) || ok && !cmp.Equal(got, c.want, cmpopts.IgnoreUnexported(Proc{})) {
			t.Errorf("%q is read as %+v, %v", c.in, got, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("4243 (a) b) S 1 4242 4242 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 3821568"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(b); ok && p.PID <= 0 {
			t.Errorf("%q is read as %+v", b, p)
		}
	})
}

func TestParsePS(t *testing.T) {
	t.Parallel()
	line := " 4243     1  4242 Ss   Fri Nov  3 09:05:07 2023     /bin/server -x A=1 " + MarkEnv + "=abcd.2 B=3\n"
	p, ok := parsePS([]byte(line))
	began := time.Date(2023, 11, 3, 9, 5, 7, 0, time.UTC)
	if !ok || p.PID != 4243 || p.Parent != 1 || p.Group != 4242 || p.Start != uint64(began.Unix()) {
		t.Errorf("%q is read as %+v, %v", line, p, ok)
	}
	if !(Mark{"abcd", 2}).in(p.text, ' ') {
		t.Errorf("no mark in %q", p.text)
	}
	for _, bad := range []string{"", "\n", "1 2 3 Z Fri Nov  3 09:05:07 2023 x", "1 2 3 S Fri Nov", "x 2 3 S Fri Nov  3 09:05:07 2023 x"} {
		if p, ok := parsePS([]byte(bad)); ok {
			t.Errorf("%q is read as %+v", bad, p)
		}
	}
}

func FuzzParsePS(f *testing.F) {
	f.Add([]byte(" 4243     1  4242 Ss   Fri Nov  3 09:05:07 2023     /bin/server -x A=1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parsePS(b); ok && p.PID <= 0 {
			t.Errorf("%q is read as %+v", b, p)
		}
	})
}

// TestReadPS compares the table that other systems have with this one's.
func TestReadPS(t *testing.T) {
	t.Parallel()
	args := []string{"-axEww", "-o", psColumns}
	if runtime.GOOS == "linux" {
		args[0] = "axeww" // procps has its own letter for the environment
	}
	pid := sleeper(t, Mark{"feed", 3})
	procs, err := readPS(args...)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system has no /bin/ps; only systems without /proc need it")
	}
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(procs, func(p Proc) bool { return p.PID == pid })
	if i < 0 {
		t.Fatalf("%d is not among %d processes", pid, len(procs))
	}
	if p := procs[i]; p.Parent != os.Getpid() || p.Group != pid || !(Mark{"feed", 3}).in(p.text, ' ') {
		t.Errorf("our sleeper is %+v with %q", p, p.text)
	}
}

// sleeper starts a process in a group of its own with a mark.
func sleeper(t *testing.T, m Mark) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.Env = m.Environ(nil)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestTree(t *testing.T) {
	t.Parallel()
	pid := sleeper(t, Mark{"cafe", 5})
	self, ok := Find(pid)
	if !ok {
		t.Fatalf("Find(%d) finds nothing", pid)
	}
	for _, c := range []struct {
		name string
		tree Tree
		in   bool
	}{
		{"mark of the process", Tree{Mark: Mark{"cafe", 5}}, true},
		{"mark of the test process", Tree{Mark: Mark{"cafe", 0}}, true},
		{"another mark", Tree{Mark: Mark{"cafe", 6}}, false},
		{"group", Tree{Groups: map[int]uint64{pid: self.Start}}, true},
		{"group, start not known", Tree{Groups: map[int]uint64{pid: 0}}, true},
		{"a group whose number was used again", Tree{Groups: map[int]uint64{pid: self.Start - 1}}, false},
		{"a group that is younger", Tree{Groups: map[int]uint64{pid: self.Start + 1}}, false},
		{"kin", Tree{kin: map[int]uint64{pid: self.Start}}, true},
		{"a pid that was used again", Tree{kin: map[int]uint64{pid: self.Start - 1}}, false},
		{"mark, from its pid on", Tree{From: pid, Mark: Mark{"cafe", 5}}, true},
		{"mark, only pids that were not given yet", Tree{From: 1 << 29, Mark: Mark{"cafe", 5}}, true},
		{"older than the tree", Tree{Since: self.Start + 1, Mark: Mark{"cafe", 5}}, false},
	} {
		living, err := c.tree.Living()
		if err != nil {
			t.Fatal(err)
		}
		in := slices.ContainsFunc(living, func(p Proc) bool { return p.PID == pid })
		if in != c.in || len(living) > 1 {
			t.Errorf("%s: %v, want %v", c.name, living, c.in)
		}
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	// No such processes, so no environments: pids beyond what a system gives.
	p := func(pid, parent int) Proc { return Proc{PID: 1<<30 + pid, Parent: 1<<30 + parent} }
	got := descendants([]Proc{p(1, 0)}, []Proc{p(4, 3), p(2, 1), p(3, 2), p(5, 9), p(6, 1)})
	if diff := cmp.Diff([]Proc{p(2, 1), p(6, 1), p(3, 2), p(4, 3)}, got, cmpopts.IgnoreUnexported(Proc{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestWriters finds who writes to a pipe, but not who reads from it.
func TestWriters(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows the descriptors of processes without cgo")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var pids [2]int
	for i, end := range []*os.File{r, w} {
		cmd := exec.Command("sleep", "60")
		cmd.ExtraFiles = []*os.File{end}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		pids[i] = cmd.Process.Pid
	}
	w.Close() // as for a child's stderr, ours is closed; before that everything that is being forked has it, too
	var got []int
	for _, p := range Writers(r) {
		got = append(got, p.PID)
	}
	if !slices.Equal(got, pids[1:]) {
		t.Errorf("Writers() = %v, want %d and not the reader %d", got, pids[1], pids[0])
	}
}

// TestSignal does not hit a process that got the pid of another one.
func TestSignal(t *testing.T) {
	t.Parallel()
	pid := sleeper(t, Mark{"babe", 1})
	self, _ := Find(pid)
	other := self
	other.Start--
	if err := other.Signal(syscall.SIGKILL); cheapFind && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a process that is gone: %v", err)
	}
	if cheapFind {
		if _, alive := Find(pid); !alive {
			t.Error("the wrong process was hit")
		}
	}
	if err := self.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// TestOthers: what is in a group that somebody else ends is not of the tree, whatever mark it has.
func TestOthers(t *testing.T) {
	t.Parallel()
	mark := Mark{"0ther5", 1}
	mine, other := sleeper(t, mark), sleeper(t, mark)
	of := func(pid int) int {
		p, ok := Find(pid)
		if !ok {
			t.Fatalf("process %d is gone", pid)
		}
		return p.Group
	}
	group := of(other)
	if of(mine) == group {
		t.Fatal("the sleepers have one group")
	}
	tree := Tree{Mark: mark, Others: func(g int) bool { return g == group }}
	living, err := tree.Living()
	if err != nil || !slices.ContainsFunc(living, func(p Proc) bool { return p.PID == mine }) || slices.ContainsFunc(living, func(p Proc) bool { return p.PID == other }) {
		t.Errorf("%v, %v; want %d and not %d", living, err, mine, other)
	}
}

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		procs, err := table(0, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(procs)), "processes")
	}
}

func BenchmarkLiving(b *testing.B) {
	tree := Tree{Mark: Mark{"cafe", 5}, From: os.Getpid()}
	for b.Loop() {
		if _, err := tree.Living(); err != nil {
			b.Fatal(err)
		}
	}
}
