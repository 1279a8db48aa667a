package acp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
)

// garbage is an agent that breaks the protocol in the given way.
func garbage(way string) int {
	in := bufio.NewReader(os.Stdin)
	line := func() string { l, _ := in.ReadString('\n'); return l }
	switch way {
	case "silence":
		_, _ = io.Copy(io.Discard, in)
	case "binary":
		for range 100 {
			os.Stdout.Write([]byte{0, 255, 254, 10, 13, 10, '{', 10})
		}
		_, _ = io.Copy(io.Discard, in)
	case "wrong ids":
		line()
		fmt.Println(`{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":1}}`)
		fmt.Println(`{"jsonrpc":"2.0","id":1.0,"result":{"protocolVersion":1}}`)
		fmt.Println(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`)
		_, _ = io.Copy(io.Discard, in)
	case "neither":
		line()
		fmt.Println(`{"jsonrpc":"2.0","id":1}`)
		_, _ = io.Copy(io.Discard, in)
	case "version 2":
		line()
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2,"info":{},"capabilities":{}}}`)
		_, _ = io.Copy(io.Discard, in)
	case "text version":
		line()
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1"}}`)
		_, _ = io.Copy(io.Discard, in)
	case "no session":
		line()
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`)
		line()
		fmt.Println(`{"jsonrpc":"2.0","id":2,"result":null}`)
		_, _ = io.Copy(io.Discard, in)
	case "flood": // asks and never reads the answers
		line()
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`)
		w := bufio.NewWriter(os.Stdout)
		for i := range floodRequests { // four times what fits into the pipe of the answers
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"toolCall":{},"options":[]}}`+"\n", i)
		}
		w.Flush()
		time.Sleep(time.Minute)
	case "exit":
		return 7
	case "closed output":
		os.Stdout.Close()
		_, _ = io.Copy(io.Discard, in)
	}
	return 0
}

// floodRequests is how many requests the flood has.
const floodRequests = 3000

// worst reports whether an agent has done what it is there for.
func worst(h *fakeHost, way string) bool {
	switch way {
	case "wrong ids":
		return len(h.notices()) == 3
	case "binary":
		return len(h.notices()) >= 100
	case "neither":
		return len(h.notices()) == 1
	case "flood":
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.received == floodRequests+1 // all is read, with the answer to initialize, though no answer to it is
	}
	return h.sent("initialize") != ""
}

func TestHostileAgents(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]string{
		"silence": "did not answer initialize in time", "binary": "did not answer initialize in time", "wrong ids": "did not answer initialize in time",
		"neither": "did not answer initialize in time", "version 2": "answered protocol version 2", "text version": `answered protocol version "1"`,
		"no session": "without a sessionId", "flood": "in time", "exit": "exit code 7", "closed output": "closed its output",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.permission = func(*harness.PermissionRequest) harness.PermissionAnswer { return harness.Allow }
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if strings.Contains(want, "in time") { // the agent will not answer: the test gives up once it has done its worst
				go func() { h.until(func() bool { return worst(h, way) }); cancel() }()
			}
			spec := newSpec(t)
			spec.Servers = nil
			_, err = acp.New(acp.Config{Command: self, Env: map[string]string{garbageVariable: way}}).Open(ctx, spec, h)
			e, ok := errors.AsType[*harness.Error](err)
			if !ok || e.Blame != harness.BlameAgent || !strings.Contains(e.Message, want) {
				t.Errorf("error %v, want %q", err, want)
			}
			if way == "wrong ids" && strings.Join(h.notices(), " ") != "unexpected_response unexpected_response unexpected_response" {
				t.Errorf("notices %v", h.notices())
			}
		})
	}
}
