package shim

import (
	"bytes"
	"strconv"
)

// parseStat reads one /proc/PID/stat (proc(5)). It reports false for a zombie and for what it cannot read.
func parseStat(b []byte) (Proc, bool) {
	// The second field is the name in parentheses, and may itself hold spaces and parentheses.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return Proc{}, false
	}
	f := bytes.Fields(b[end+1:])
	const state, parent, group, start = 0, 1, 2, 19 // fields 3, 4, 5 and 22
	if len(f) <= start || len(f[state]) != 1 {
		return Proc{}, false
	}
	switch f[state][0] {
	case 'Z', 'X', 'x':
		return Proc{}, false
	}
	var p Proc
	var err [4]error
	p.PID, err[0] = strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	p.Parent, err[1] = strconv.Atoi(string(f[parent]))
	p.Group, err[2] = strconv.Atoi(string(f[group]))
	p.Start, err[3] = strconv.ParseUint(string(f[start]), 10, 64)
	return p, err == [4]error{} && p.PID > 0
}
