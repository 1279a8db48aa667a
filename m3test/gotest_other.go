//go:build !linux

package m3test

import (
	"os/exec"
	"strconv"
	"strings"
)

// executable is the path of a process's program, empty when it may not be read.
func executable(pid int) string {
	out, _ := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	return strings.TrimSpace(string(out))
}

// bootID is not needed where the process table gives a start as a date.
func bootID() string { return "" }
