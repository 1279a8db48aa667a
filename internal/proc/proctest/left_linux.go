package proctest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Left returns the living processes that have the tag in their arguments or their environment, but this one. It looks for
// itself, not through what it tests.
func Left(tag string) []Leftover {
	dirs, _ := filepath.Glob("/proc/[1-9]*")
	var left []Leftover
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(dir + "/cmdline")
		env, _ := os.ReadFile(dir + "/environ") // both are empty for a zombie
		if bytes.Contains(args, []byte(tag)) || bytes.Contains(env, []byte(tag)) {
			left = append(left, Leftover{pid, strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))})
		}
	}
	return left
}
