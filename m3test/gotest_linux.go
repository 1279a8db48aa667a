package m3test

import (
	"fmt"
	"os"
	"strings"
)

// executable is the path of a process's program, empty when it may not be read.
func executable(pid int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return path
}

// bootID tells one boot of the machine from the next.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it the host and the start must do
	return strings.TrimSpace(string(b))
}
