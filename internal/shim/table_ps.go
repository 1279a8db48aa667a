package shim

import (
	"bytes"
	"os/exec"
	"strconv"
	"time"
)

// psColumns are what parsePS reads; the command, with the environment behind it, must come last.
const psColumns = "pid=,ppid=,pgid=,stat=,lstart=,command="

// readPS reads the process table from ps. Systems without /proc offer nothing better without cgo.
func readPS(args ...string) ([]Proc, error) {
	cmd := exec.Command("/bin/ps", args...)
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var procs []Proc
	for line := range bytes.Lines(out) {
		if p, alive := parsePS(line); alive {
			procs = append(procs, p)
		}
	}
	return procs, nil
}

// parsePS reads one line of ps. It reports false for a zombie and for what it cannot read.
func parsePS(line []byte) (Proc, bool) {
	var f [9][]byte // pid, ppid, pgid, stat, and lstart: Mon Jan 2 15:04:05 2006
	for i := range f {
		line = bytes.TrimLeft(line, " \t")
		n := bytes.IndexAny(line, " \t\n")
		if n < 0 {
			n = len(line)
		}
		f[i], line = line[:n], line[n:]
	}
	if len(f[3]) == 0 || f[3][0] == 'Z' {
		return Proc{}, false
	}
	began, err := time.Parse("Jan 2 15:04:05 2006", string(bytes.Join(f[5:], []byte{' '})))
	if err != nil {
		return Proc{}, false
	}
	p := Proc{Start: uint64(max(began.Unix(), 0)), text: bytes.TrimRight(line, "\n")}
	var errs [3]error
	p.PID, errs[0] = strconv.Atoi(string(f[0]))
	p.Parent, errs[1] = strconv.Atoi(string(f[1]))
	p.Group, errs[2] = strconv.Atoi(string(f[2]))
	return p, errs == [3]error{} && p.PID > 0
}
