// Command command serves the example shop: on stdio, or with -http ADDRESS over streamable HTTP.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3/examples/internal/exampleserver"
)

func main() {
	log.SetFlags(0)
	address := flag.String("http", "", "serve streamable HTTP at `address` (127.0.0.1:8080) instead of stdio")
	flag.Parse()
	if *address != "" {
		log.Printf("serving MCP on http://%s", *address)
		srv := &http.Server{Addr: *address, Handler: exampleserver.Handler(), ReadHeaderTimeout: 10 * time.Second}
		log.Fatal(srv.ListenAndServe())
	}
	log.SetOutput(os.Stderr) // stdout is the protocol's
	log.Print("the example shop is open")
	if err := exampleserver.New().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
