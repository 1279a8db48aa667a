package m3test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/m3-go/m3"
)

// connectMessage is what a test says when it cannot connect: what happened, what to do, and where the evidence is.
func connectMessage(server m3.Server, err error, command string) string {
	name := "nil"
	if server != nil {
		name = server.ServerName()
	}
	// What the error says of the operation, the line says already.
	reason := err.Error()
	for _, prefix := range []string{"m3: ", "connect to " + name + ": ", "connect: "} {
		reason = strings.TrimPrefix(reason, prefix)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "m3: cannot connect to %s: %s", name, reason)
	if fix := connectFix(server, err); fix != "" {
		b.WriteString("\n  fix: " + fix)
	}
	if command != "" {
		b.WriteString("\n  evidence: " + command)
	}
	return b.String()
}

// connectFix says what to try, for the kinds of failure whose own text does not.
func connectFix(server m3.Server, err error) string {
	var (
		transport   *m3.TransportError
		protocol    *m3.ProtocolError
		timeout     *m3.TimeoutError
		cancelled   *m3.CancelledError
		unsupported *m3.UnsupportedError
		trust       *m3.EndpointTrustError
	)
	switch {
	case errors.As(err, &trust):
		return "if you mean to test at that address, set Trust: m3.TrustedPrivate on the HTTPServer"
	case errors.As(err, &unsupported):
		return "leave Protocol empty for the newest version that both sides speak, or name one that the server has"
	case errors.As(err, &timeout):
		return "see whether the server answers at all: " + inspect(server) + "; one that is slow to start needs a longer DirectOptions.StartTimeout"
	case errors.As(err, &cancelled):
		return "the test's context ended while it was connecting; connect with a context that lives longer"
	case errors.As(err, &protocol):
		return "see what the server says: " + inspect(server) + "; if it is not an MCP server, or wants arguments to be one, correct the definition"
	case errors.As(err, &transport):
		return transportFix(server, transport)
	default:
		return "" // validation: the text says what to change
	}
}

func transportFix(server m3.Server, err *m3.TransportError) string {
	phase, _ := err.Details["phase"].(string)
	_, isHTTP := server.(m3.HTTPServer)
	switch {
	case phase == "build":
		return "make the package of StdioServer.Build compile"
	case phase == "authentication":
		return "" // the text names the variable
	case isHTTP:
		return "check the URL, and that the server is running: " + inspect(server)
	case phase == "start":
		return "check Command, Args and Dir of the StdioServer"
	default:
		return "start the server by hand and read what it prints: " + inspect(server)
	}
}

// inspect is the command that shows the same from a terminal. Arguments and URLs may hold secrets: they are left to who knows them.
func inspect(server m3.Server) string {
	switch s := server.(type) {
	case m3.StdioServer:
		if s.Build != "" {
			return "m3 inspect --server stdio --command go --arg run --arg " + s.Build
		}
		command := "m3 inspect --server stdio --command " + s.Command
		if len(s.Args) > 0 {
			command += " --arg …"
		}
		return command
	case m3.HTTPServer:
		return "m3 inspect --server http --url URL"
	default:
		return "look at its stderr, which stands in this test's output"
	}
}
