// Package answer is what the tests of required evaluations share: a server, and an evaluator.
package answer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/m3test"
)

// Evaluator decides by the text that is its subject.
const Evaluator = "answer.v1"

// Kit is the test's kit, with the evaluator. It kills the process instead of deciding about "kill".
func Kit(t *testing.T) *m3.Kit {
	kit := m3test.Kit(t)
	err := kit.RegisterEvaluator(Evaluator, func(_ context.Context, e eval.Context) (eval.Decision, error) {
		if string(e.Subject) == `"kill"` {
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
			select {}
		}
		return eval.PassIf(string(e.Subject) == `"good"`, "the answer is "+string(e.Subject)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kit
}

// Client is connected to a server. Declare makes the evaluator required of its execution.
func Client(t *testing.T, declare bool) *m3.Client {
	return m3test.Direct(t, server, &m3.DirectOptions{Protocol: "2025-11-25", Evaluations: []eval.Registration{{Name: Evaluator, Required: declare}}})
}

var server = m3.PipeServer{Name: "answers", Serve: func(_ context.Context, stream io.ReadWriteCloser) error {
	lines := bufio.NewScanner(stream)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		if m.Method == "initialize" {
			fmt.Fprintf(stream, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"answers","version":"1"}}}`+"\n", m.ID)
		}
	}
	return lines.Err()
}}
