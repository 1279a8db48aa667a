// Package plain is a package of tests that has no TestMain. m3's own tests run it with go test, in a module made for the occasion.
package plain

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/m3-go/m3"
)

// Server answers every call at once, but for that of the tool hang, which it never answers.
var Server = m3.PipeServer{Name: "fixture", Serve: serve}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

func serve(_ context.Context, stream io.ReadWriteCloser) error {
	lines := bufio.NewScanner(stream)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		answer := ""
		switch {
		case m.ID == nil || m.Params.Name == "hang":
			continue
		case m.Method == "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fixture","version":"1"}}`
		case m.Method == "tools/call":
			answer = fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, m.Params.Name)
		default:
			answer = `"error":{"code":-32601,"message":"no such method"}`
		}
		if _, err := fmt.Fprintf(stream, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}
