package rpc_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// discard is a sink that keeps nothing, so that a benchmark shows what recording costs besides the store.
type discard struct{}

func (discard) AppendEvent(int64, trace.Kind, []byte) error { return nil }
func (discard) PutBlob(string, []byte) error                { return nil }

const answerRest = `,"result":{"content":[{"type":"text","text":"hello"}],"structuredContent":{"text":"hello"}}}`

var callParams = []byte(`{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`)

// echo answers every line at once.
func echo(in io.Reader, out io.Writer) {
	r := bufio.NewReader(in)
	var b []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		b = append(append(append(b[:0], `{"jsonrpc":"2.0","id":`...), idOf(line)...), answerRest...)
		if _, err := out.Write(append(b, '\n')); err != nil {
			return
		}
	}
}

func idOf(line []byte) []byte {
	_, rest, _ := bytes.Cut(line, []byte(`"id":`))
	id, _, _ := bytes.Cut(rest, []byte(","))
	return id
}

func newConn() *rpc.Conn {
	return rpc.New(&rpc.Config{Tape: evidence.NewTape("x", discard{}, evidence.NewRedactor(nil), nil), Server: "s", Connection: "c1"})
}

// BenchmarkCallPipe is one call over operating system pipes, the server in the same process.
func BenchmarkCallPipe(b *testing.B) {
	inR, inW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	go func() { echo(inR, outW); outW.Close(); inR.Close() }()
	c := newConn()
	c.Start(wire.NewStream(outR, inW, c, nil))
	defer c.Close()
	benchCalls(b, c)
}

// BenchmarkCallMemory is one call over an in-memory pipe: mostly the work of this package and of the tape.
func BenchmarkCallMemory(b *testing.B) {
	client, server := net.Pipe()
	go echo(server, server)
	c := newConn()
	c.Start(wire.NewStream(client, client, c, nil))
	defer c.Close()
	benchCalls(b, c)
}

// BenchmarkCallHTTP is one call over loopback HTTP, the server in the same process.
func BenchmarkCallHTTP(b *testing.B) {
	for _, via := range []string{"direct", "nethttp"} {
		b.Run(via, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s%s`, idOf(body), answerRest)
			})}
			go srv.Serve(l)
			defer srv.Close()
			cfg := &wire.HTTPConfig{}
			if via == "nethttp" {
				cfg.Client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
			}
			c := newConn()
			h, err := wire.NewHTTP("http://"+l.Addr().String()+"/mcp", c, cfg)
			if err != nil {
				b.Fatal(err)
			}
			c.Start(h)
			defer c.Close()
			benchCalls(b, c)
		})
	}
}

func benchCalls(b *testing.B, c *rpc.Conn) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	req := &rpc.Request{Method: "tools/call", Params: callParams, Name: "echo"}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := c.Call(ctx, req)
		if err != nil || len(resp.Result) == 0 {
			b.Fatal(err)
		}
	}
}
