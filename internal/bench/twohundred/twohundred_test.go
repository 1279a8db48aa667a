// Package twohundred is what BenchmarkRecordedRun runs: 200 tests of 5 calls each, as a user would write them.
package twohundred

import (
	"context"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/m3test"
)

type echo struct {
	Text string `json:"text"`
}

var server = gosdk.Server("echo", func() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, echo, error) {
		return nil, in, nil
	})
	return s
})

func TestCalls(t *testing.T) {
	for i := range 200 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			client := m3test.Direct(t, server, nil)
			for j := range 5 {
				res, err := client.CallTool(t.Context(), "echo", m3.Args{"text": fmt.Sprint(i, j)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				var out echo
				if err := res.Decode(&out); err != nil || out.Text != fmt.Sprint(i, j) {
					t.Fatalf("got %q, %v", out.Text, err)
				}
			}
		})
	}
}
