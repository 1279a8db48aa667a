//go:build !linux

package proctest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Left returns the living processes that have the tag in their arguments, or in what ps shows of their environment, but
// this one.
func Left(tag string) []Leftover {
	out, err := exec.Command("/bin/ps", "-axEww", "-o", "pid=,stat=,command=").Output()
	if err != nil {
		panic(err) // a test that cannot look must not pass
	}
	var left []Leftover
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.Contains(line, tag) || strings.HasPrefix(f[1], "Z") {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil && pid != os.Getpid() {
			left = append(left, Leftover{pid, strings.Join(f[2:], " ")})
		}
	}
	return left
}
