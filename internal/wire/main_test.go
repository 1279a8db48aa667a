package wire

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails when a test leaves a goroutine of these packages behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leaked(); left != "" {
			fmt.Fprintln(os.Stderr, "goroutines were left behind:\n"+left)
			code = 1
		}
	}
	os.Exit(code)
}

func leaked() string {
	var left []byte
	for range 100 {
		buf := make([]byte, 1<<20)
		left = nil
		for _, g := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
			for _, pkg := range []string{"/internal/wire.(", "/internal/rpc.(", "/internal/wiretest.("} {
				if bytes.Contains(g, []byte(pkg)) {
					left = append(append(left, g...), "\n\n"...)
					break
				}
			}
		}
		if left == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // what has just been closed needs a moment to end
	}
	return string(left)
}
