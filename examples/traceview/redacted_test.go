package traceview

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// A secret never reaches a store. In the test itself matchers see the real value; in what was reopened its place reads redacted, and then
// the answer to a question about it is "cannot tell".
func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	path := filepath.Join(t.TempDir(), "executions.sqlite")
	kit := m3test.NewKit(t, &m3test.KitOptions{Store: open(t, path)})
	server := shop
	server.Env = map[string]string{"SHOP_PASSWORD": secret} // a plain value under a sensitive name is a secret
	client, err := kit.Direct(t.Context(), server, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": secret}, nil); err != nil {
		t.Fatal(err)
	}
	expect.That(t, m3test.Finish(t, client)).ToolCall("echo", expect.WithArguments(m3.Args{"text": secret}))

	reopened := reopen(t, path, client.ExecutionID())
	call := reopened.ToolCalls().At(0)
	if call.Arguments.State != trace.Redacted || call.Arguments.Reason != trace.ReasonRedactedByPolicy {
		t.Errorf("the arguments read %s (%s), want redacted", call.Arguments.State, call.Arguments.Reason)
	}
	if strings.Contains(string(encode(t, reopened)), secret) {
		t.Error("the secret is in the reopened view")
	}
}
