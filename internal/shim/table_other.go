//go:build !linux

package shim

import (
	"os"
	"slices"
	"strconv"
)

// On macOS the table comes from ps. Its -E shows the environment of a process of the same user; for programs that the
// system protects (those under /bin and /usr/bin, and hardened ones) it shows none, so such a process is found by its
// group and its parents only. Start has the resolution of a second.

const (
	cheapFind    = false
	envSeparator = ' '
)

func table(_ int, others func(group int) bool) ([]Proc, error) {
	procs, err := readPS("-axEww", "-o", psColumns)
	if others != nil {
		procs = slices.DeleteFunc(procs, func(p Proc) bool { return others(p.Group) })
	}
	return procs, err
}

func find(pid int) (Proc, bool) {
	procs, _ := readPS("-ww", "-o", psColumns, "-p", strconv.Itoa(pid))
	if len(procs) != 1 {
		return Proc{}, false
	}
	return procs[0], true
}

func environ(p Proc, _ []byte) []byte { return p.text }

func writers(*os.File) []Proc { return nil }
