// Command tamper runs a server and replaces one text by another in all that it says: a planted defect, so that a test can be seen
// to fail.
//
//	tamper OLD NEW COMMAND [ARG ...]
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: tamper OLD NEW COMMAND [ARG ...]")
		os.Exit(2)
	}
	if err := run([]byte(os.Args[1]), []byte(os.Args[2]), os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "tamper:", err)
		os.Exit(1)
	}
}

func run(old, replacement []byte, command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for r := bufio.NewReaderSize(out, 1<<20); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			os.Stdout.Write(bytes.ReplaceAll(line, old, replacement))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	return cmd.Wait()
}
