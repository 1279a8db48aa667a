package gotest

import (
	"os"
	"strconv"
	"strings"
)

// groupAlive reports whether a process of the group still runs. Zombies do not count: in a container whose first process
// does not reap, an orphan stays one for ever and keeps its group.
func groupAlive(pgid int) bool {
	dir, err := os.Open("/proc")
	if err != nil {
		return groupExists(pgid)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return groupExists(pgid)
	}
	want := strconv.Itoa(pgid)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		b, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // gone in the meantime
		}
		// pid (name) state ppid pgrp …: the name may hold anything, so count from its last parenthesis.
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) > 2 && f[2] == want && f[0] != "Z" && f[0] != "X" {
			return true
		}
	}
	return false
}
