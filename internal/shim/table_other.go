//go:build !linux

package shim

import (
	"os"
	"strconv"
)

// On macOS the table comes from ps. Its -E shows the environment of a process of the same user; for programs that the
// system protects (those under /bin and /usr/bin, and hardened ones) it shows none, so such a process is found by its
// group and its parents only. Start has the resolution of a second.

const (
	cheapFind    = false
	envSeparator = ' '
)

func table(int) ([]Proc, error) { return readPS("-axEww", "-o", psColumns) }

func find(pid int) (Proc, bool) {
	procs, _ := readPS("-ww", "-o", psColumns, "-p", strconv.Itoa(pid))
	if len(procs) != 1 {
		return Proc{}, false
	}
	return procs[0], true
}

func environ(p Proc, _ []byte) []byte { return p.text }

func writers(*os.File) []Proc { return nil }
