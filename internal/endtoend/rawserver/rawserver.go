// Package rawserver is an MCP server of the tests that speaks by hand, says exactly the bytes that it is told to, and keeps a log
// of every byte that it wrote and read. It imports nothing of m3, so what it says is a second opinion.
package rawserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Role is the environment variable that makes a test binary a server: its value is the base of the log's two files, or "-" for none.
const Role = "RAWSERVER_LOG"

// Call is one tools/call.
type Call struct {
	ID        json.RawMessage
	Name      string
	Arguments json.RawMessage
}

// Tool answers a call, with [Server.Result] or any bytes that it likes.
type Tool func(s *Server, c *Call)

// Server is one session on a stream. Set the fields, then call [Server.Serve].
type Server struct {
	In  io.Reader
	Out io.Writer
	// Read and Wrote are the logs: bytes are in Read once they were read, and in Wrote before they are written. Nil: none.
	Read, Wrote io.Writer
	Tools       map[string]Tool
	// Greet, if set, is called before the first byte is read.
	Greet func(s *Server)
	// Bye, if set, is called when the input has ended.
	Bye func(s *Server)
	// List is the result of tools/list; empty: no tools.
	List string

	mu sync.Mutex
}

// Asked returns the value of [Role] and whether this process is to be a server.
func Asked() (base string, ok bool) { return os.LookupEnv(Role) }

// Stdio makes a server on the process's own stdin and stdout that logs to files at base.
func Stdio(base string) (*Server, error) {
	s := &Server{In: os.Stdin, Out: os.Stdout}
	if base == "-" {
		return s, nil
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return nil, err
	}
	read, err := open(base + ".read")
	if err != nil {
		return nil, err
	}
	wrote, err := open(base + ".wrote")
	if err != nil {
		return nil, err
	}
	s.Read, s.Wrote = read, wrote
	return s, nil
}

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
}

// Serve serves until the input ends.
func (s *Server) Serve() error {
	in := s.In
	if s.Read != nil {
		in = io.TeeReader(in, s.Read)
	}
	r := bufio.NewReaderSize(in, 64<<10)
	if s.Greet != nil {
		s.Greet(s)
	}
	for {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			s.message(line)
		}
		if err != nil {
			if s.Bye != nil {
				s.Bye(s)
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// Raw writes the bytes, all of them in one write.
func (s *Server) Raw(b string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Wrote != nil {
		if _, err := io.WriteString(s.Wrote, b); err != nil {
			panic(err) // without its log the server is worth nothing
		}
	}
	_, _ = io.WriteString(s.Out, b) // a client that is gone is no news
}

// Result answers with a result, its bytes as given.
func (s *Server) Result(id json.RawMessage, result string) {
	s.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result))
}

// Error answers with an error object, its bytes as given.
func (s *Server) Error(id json.RawMessage, object string) {
	s.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`+"\n", id, object))
}

// Text answers with a text block.
func (s *Server) Text(id json.RawMessage, text string) { s.Result(id, TextResult(text)) }

// TextResult is the result with a text block.
func TextResult(text string) string {
	return `{"content":[{"type":"text","text":` + Quote(text) + `}]}`
}

// Quote is the text as JSON.
func Quote(text string) string {
	b, _ := json.Marshal(text) // a string: cannot fail
	return string(b)
}

func (s *Server) message(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ProtocolVersion string          `json:"protocolVersion"`
			Name            string          `json:"name"`
			Arguments       json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(line, &m); err != nil || m.ID == nil || m.Method == "" {
		return // notifications, and answers to nothing
	}
	switch m.Method {
	case "initialize":
		s.Result(m.ID, Initialize(m.Params.ProtocolVersion))
	case "tools/list":
		list := s.List
		if list == "" {
			list = `{"tools":[]}`
		}
		s.Result(m.ID, list)
	case "tools/call":
		tool := s.Tools[m.Params.Name]
		if tool == nil {
			s.Error(m.ID, `{"code":-32602,"message":"no such tool"}`)
			return
		}
		tool(s, &Call{ID: m.ID, Name: m.Params.Name, Arguments: m.Params.Arguments})
	default:
		s.Error(m.ID, `{"code":-32601,"message":"no such method"}`)
	}
}

// Initialize is the result of initialize for a version.
func Initialize(version string) string {
	if strings.TrimSpace(version) == "" {
		version = "2025-11-25"
	}
	return `{"protocolVersion":` + Quote(version) + `,"capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
}
