// Command server is a server of package proctest as a program of its own, for wrappers such as go run.
package main

import (
	"fmt"
	"os"

	"github.com/m3-go/m3/internal/proc/proctest"
)

func main() {
	proctest.Main()
	fmt.Fprintln(os.Stderr, "server: for tests of m3 only; its arguments come from proctest.Command")
	os.Exit(2)
}
