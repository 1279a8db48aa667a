// Command suiteclient is m3 as the client of the public MCP conformance suite. It speaks the suite's contract: the address of the scenario's server is the
// last argument; the environment names the scenario (MCP_CONFORMANCE_SCENARIO), the protocol version (MCP_CONFORMANCE_PROTOCOL_VERSION) and, for some
// scenarios, what to do as JSON (MCP_CONFORMANCE_CONTEXT).
//
// Everything goes through m3's public API, as a user's program would. The verdict is the suite's; this program fails on its own when an operation does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/m3-go/m3"
)

// limit bounds the whole program, below the minute that the test lets the suite wait; patience bounds one operation.
const (
	limit    = 45 * time.Second
	patience = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "suiteclient:", err)
		os.Exit(1)
	}
}

// job is one scenario to play.
type job struct {
	url      string
	scenario string
	protocol string // empty: the newest that both sides speak
	context  json.RawMessage
}

func run(ctx context.Context, args []string, env func(string) string) error {
	if len(args) == 0 {
		return errors.New("usage: suiteclient URL, with MCP_CONFORMANCE_SCENARIO set; the conformance suite runs it")
	}
	j := &job{url: args[len(args)-1], scenario: env("MCP_CONFORMANCE_SCENARIO"), protocol: env("MCP_CONFORMANCE_PROTOCOL_VERSION"),
		context: json.RawMessage(env("MCP_CONFORMANCE_CONTEXT"))}
	sc, ok := scenarios[j.scenario]
	if !ok {
		return fmt.Errorf("scenario %q is not known here: add it to scenarios.go", j.scenario)
	}
	kit, err := m3.New(m3.Config{})
	if err != nil {
		return err
	}
	return errors.Join(play(ctx, kit, j, sc), kit.Close())
}

// play connects as the scenario wants, and does its work.
func play(ctx context.Context, kit *m3.Kit, j *job, sc scenario) error {
	opts := &m3.DirectOptions{Protocol: j.protocol, Case: j.scenario, Timeout: patience}
	if sc.options != nil {
		sc.options(opts)
	}
	c, err := kit.Direct(ctx, m3.HTTPServer{Name: "suite", URL: j.url, Transport: m3.StreamableHTTP}, opts)
	if err != nil {
		return err
	}
	err = errors.Join(sc.work(ctx, c, j), c.Close())
	for _, f := range c.Findings() { // the suite's servers have defects too; they are no verdict on the client
		fmt.Fprintf(os.Stderr, "finding: %s %s: %s\n", f.Severity, f.Code, f.Message)
	}
	return err
}
