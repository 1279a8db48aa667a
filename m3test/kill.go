package m3test

import (
	"os"
	"strconv"
	"syscall"
)

// killAfter names an environment variable that holds the number of the write after which the process kills itself. It is set only in
// binaries that this module's own tests link so (-ldflags "-X github.com/m3-go/m3/m3test.killAfter=NAME"), to show that whatever was
// acknowledged survives. Nothing at run time can switch it on.
var killAfter string

// killHook is the spool's hook in such binaries, nil in all others.
func killHook() func(n int64) {
	if killAfter == "" {
		return nil
	}
	at, err := strconv.ParseInt(os.Getenv(killAfter), 10, 64)
	if err != nil {
		return nil
	}
	return func(n int64) {
		if n == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}
