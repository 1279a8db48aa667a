// Package gosdk makes a server built with the official Go SDK an m3.Server: it runs in the test's own process, and m3 speaks
// to it over a pipe as it would over stdio. It is for authors of servers in Go.
package gosdk

import (
	"context"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
)

// Server describes an in-process server. build is called once a client, so that no state leaks from one connection to the
// next; it must not return the same server twice if its tools keep state.
func Server(name string, build func() *mcp.Server) m3.PipeServer {
	return m3.PipeServer{Name: name, Serve: func(ctx context.Context, stream io.ReadWriteCloser) error {
		return build().Run(ctx, &mcp.IOTransport{Reader: stream, Writer: stream})
	}}
}
