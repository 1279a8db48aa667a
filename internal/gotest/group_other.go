//go:build !linux

package gotest

// groupAlive reports whether a process of the group still runs.
func groupAlive(pgid int) bool { return groupExists(pgid) }
