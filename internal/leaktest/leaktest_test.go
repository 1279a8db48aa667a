package leaktest_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/leaktest"
)

func waitForever(c chan struct{}) { <-c }

// What is left is found, and named: it must not be parallel, since it counts what the whole process has.
func TestFindsWhatIsLeft(t *testing.T) {
	cfg := &leaktest.Config{Goroutines: []string{"leaktest_test.waitForever"}, Processes: true, Descriptors: 1, Settle: 100 * time.Millisecond}
	run := func(tests func() int) (string, int) {
		var said bytes.Buffer
		code := leaktest.Run(&said, tests, cfg)
		return said.String(), code
	}
	if said, code := run(func() int { return 0 }); code != 0 || said != "" {
		t.Errorf("nothing is left: %d, %s", code, said)
	}
	if said, code := run(func() int { return 3 }); code != 3 || said != "" {
		t.Errorf("tests that fail: %d, %s", code, said)
	}
	c := make(chan struct{})
	said, code := run(func() int { go waitForever(c); return 0 })
	close(c)
	if code != 1 || !strings.Contains(said, "waitForever") {
		t.Errorf("a goroutine: %d, %s", code, said)
	}
	var files []*os.File
	said, code = run(func() int {
		for range 5 {
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		return 0
	})
	for _, f := range files {
		f.Close()
	}
	if code != 1 || !strings.Contains(said, "file descriptors") {
		t.Errorf("descriptors: %d, %s", code, said)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return // only Linux can tell processes
	}
	cmd := exec.Command("sleep", "60")
	said, code = run(func() int {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return 0
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if code != 1 || !strings.Contains(said, "process ") {
		t.Errorf("a process: %d, %s", code, said)
	}
}
