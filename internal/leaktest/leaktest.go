// Package leaktest finds what tests leave behind: goroutines, processes, file descriptors. It is for tests of m3 only, and imports nothing of it.
package leaktest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Config says what counts. The zero value looks for nothing.
type Config struct {
	// Goroutines are those with one of these texts in their stack: the name of a package, say.
	Goroutines []string
	// But are texts of goroutines that may stay.
	But []string
	// Processes looks for processes that this one started and that still run, but for those in a session of their own, as the reaper is. Only Linux can tell.
	Processes bool
	// Descriptors is how many more open files there may be than before the tests: pipes of the reaper, the poller, what the runtime opens. 0: they are not counted.
	Descriptors int
	// Settle is how long what has just been closed may take to be gone. 0: 3 s.
	Settle time.Duration
}

// Run runs the tests and returns their exit code, or 1 when they passed and have left something behind, which is written to w.
func Run(w io.Writer, run func() int, cfg *Config) int {
	before := Descriptors()
	if code := run(); code != 0 {
		return code
	}
	settle := cfg.Settle
	if settle == 0 {
		settle = 3 * time.Second
	}
	left := Settled(settle, func() string { return cfg.left(before) })
	if left == "" {
		return 0
	}
	fmt.Fprintln(w, "the tests left behind:\n"+left)
	return 1
}

// Settled asks until nothing is left, for so long at most, and returns the last answer.
func Settled(d time.Duration, left func() string) string {
	for deadline := time.Now().Add(d); ; time.Sleep(20 * time.Millisecond) {
		if found := left(); found == "" || time.Now().After(deadline) {
			return found
		}
	}
}

func (c *Config) left(before int) string {
	var left strings.Builder
	left.WriteString(Goroutines(c.Goroutines, c.But))
	if c.Processes {
		for _, child := range Children() {
			fmt.Fprintf(&left, "process %s\n", child)
		}
	}
	if now := Descriptors(); c.Descriptors > 0 && now > before+c.Descriptors {
		fmt.Fprintf(&left, "%d file descriptors, %d before\n", now, before)
	}
	return left.String()
}

// Goroutines are the stacks that contain one of the texts, and none of but.
func Goroutines(texts, but []string) string {
	var left strings.Builder
	buf := make([]byte, 4<<20)
	for _, g := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		if containsAny(g, texts) && !containsAny(g, but) {
			left.Write(append(g, "\n\n"...))
		}
	}
	return left.String()
}

func containsAny(b []byte, texts []string) bool {
	for _, text := range texts {
		if bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// Children are the processes that this one started and that still run, each with its id and state, but for those in a session of their own. Only Linux can tell.
func Children() []string {
	var found []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // a pattern without error
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		pid, rest, _ := strings.Cut(string(b), " (")
		_, rest, _ = strings.Cut(rest[strings.LastIndexByte(rest, ')'):], ") ")
		f := strings.Fields(rest) // state, parent, group, session
		if len(f) > 3 && f[1] == strconv.Itoa(os.Getpid()) && f[3] != pid {
			found = append(found, pid+" "+rest[:1])
		}
	}
	return found
}

// Descriptors counts the open files of this process; 0 where it cannot be told.
func Descriptors() int {
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(files)
}

// Counts are what must be equal before and after.
type Counts struct{ Processes, Descriptors, Goroutines, Temp int }

// Count counts the processes, descriptors and goroutines of this process, and the entries of a directory for temporary files. To be of use nothing else may run.
func Count(temp string) Counts {
	entries, _ := os.ReadDir(temp) // none, when it is not there
	return Counts{len(Children()), Descriptors(), runtime.NumGoroutine(), len(entries)}
}
