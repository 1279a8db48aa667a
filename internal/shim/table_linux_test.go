package shim

import (
	"os/exec"
	"slices"
	"testing"
)

// TestOrdered: the list that begins at a pid has what the whole list has from there on.
func TestOrdered(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if !ordered() {
		t.Skip("/proc of this system is not in the order of pids: it is read as a whole")
	}
	var whole, part []int
	if err := eachPID(0, func(pid int) { whole = append(whole, pid) }); err != nil {
		t.Fatal(err)
	}
	from := cmd.Process.Pid
	if err := eachPID(from, func(pid int) { part = append(part, pid) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(part, from) || !slices.Contains(whole, 1) || slices.Contains(part, 1) && from > 1000 {
		t.Errorf("from %d: %v, of all: %v", from, part, whole)
	}
}
