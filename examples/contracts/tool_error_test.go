// Package contracts shows what to expect of a server that is told something wrong, or that is wrong itself.
package contracts

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// A tool that fails has answered: the call returns a result with IsError, not an error. Errors are for calls that got no answer.
func TestAssertAnExpectedToolError(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	r, err := client.CallTool(t.Context(), "fail", m3.Args{"message": "out of stock"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.IsError {
		t.Error("the tool's failure does not show")
	}
	expect.That(t, r).TextContaining("out of stock")
	expect.That(t, m3test.Finish(t, client)).ToolCall("fail", expect.ToolError())
}
