// Package aaa prints when it is loaded, which is before the shim's hook: its path sorts before.
package aaa

import "fmt"

func init() { fmt.Println("registered 3 codecs") }
