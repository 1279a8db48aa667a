// Command scriptedagent is an ACP agent that does what a script says: ACPAGENT_SCRIPT='{"turns":[[{"say":"hello"}]]}', or '@path'. Without a script the prompt has the steps.
package main

import (
	"os"

	"github.com/m3-go/m3/harness/acp/acpagent"
)

func main() { os.Exit(acpagent.Main()) }
