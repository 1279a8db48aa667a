// Command printing is a program with m3 in it and a package that prints when it is loaded.
package main

import (
	_ "github.com/m3-go/m3/internal/relay/testdata/printing/aaa"
	_ "github.com/m3-go/m3/internal/shim"
)

func main() {}
