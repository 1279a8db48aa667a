package model_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails when a test leaves a goroutine of this package or of a server behind.
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
			if bytes.Contains(g, []byte("/m3/model.(")) || bytes.Contains(g, []byte("net/http.(*Server)")) || bytes.Contains(g, []byte("net/http.(*conn)")) {
				left = append(append(left, g...), "\n\n"...)
			}
		}
		if left == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // what has just been closed needs a moment to end
	}
	return string(left)
}
