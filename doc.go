// Package m3 tests MCP servers, and the agents that use them, from go test.
//
// This is the tutorial. A test connects to a server, calls a tool, and states what it expects:
//
//	var shipping = m3.StdioServer{Name: "shipping", Build: "./server"}
//
//	func TestQuote(t *testing.T) {
//		client := m3test.Direct(t, shipping, nil)
//		quote, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil)
//		if err != nil {
//			t.Fatal(err) // transport, protocol, timeout, cancellation, validation
//		}
//		if quote.IsError { // the tool's own answer: a result, not an error
//			t.Fatalf("tool error: %s", quote.Text())
//		}
//		view := m3test.Finish(t, client)
//		expect.That(t, view).ToolCall("quote", expect.Succeeded())
//	}
//
// # The way data flows
//
//	definition      connection            evidence               verdict           memory          eyes
//	m3.Server ──► direct Client ─► wire frames ─► trace.Trace ─► trace.View ─► expect ─► store ─► report
//	(server.go)   (client.go)      (internal/wire) (trace)        (trace)      (expect)  (store)   (internal/report)
//
// It only ever flows to the right. A server definition is a value that opens nothing. [Kit.Direct] connects: that begins one execution.
// Every frame that passes is evidence, kept as the bytes that passed, after known secrets were taken out of them.
// [Client.Close] finalizes the execution's trace; from then on it never changes, and its view answers questions about it. A verdict
// never reaches back into an execution, and a store never changes what it was given.
//
// # Servers
//
// [StdioServer] is a program, or a Go package that m3 builds. [HTTPServer] is a deployed endpoint. [HandlerServer] is an
// http.Handler, [PipeServer] a function on a stream; package gosdk makes one from a server of the official SDK. Secrets are
// references ([EnvSecret]), resolved at connect and never stored.
//
// # Servers that ask
//
// A server may ask for input during a call. CallOptions.Elicitation is a plan (package elicit) that says what it will ask and answers; without one
// such a call fails with an *elicit.ExpectationError. Sampling and roots are answered by what [DirectOptions] has for them.
//
// # Errors
//
// A tool that reports failure is a [ToolCallResult] with IsError. Everything else that goes wrong is an error of one of these types:
// [*TransportError] (not reached, or gone), [*ProtocolError] (a JSON-RPC error, or an answer that breaks the protocol),
// [*TimeoutError], [*CancelledError], [*ValidationError] (found on this side) and [*UnsupportedError].
//
// # Contexts
//
// A context bounds the call that it is given to. For [Kit.Direct] that is the opening, not the client's life: t.Context() is already
// cancelled when clean-ups run. A client ends with Close, or with its kit.
//
// # Where executions are kept
//
// In memory until the kit closes, unless [Config].Store says otherwise: store/sqlite keeps them in a file, store/spool beside one.
// Under m3 test, or with M3_RESULTS_DB=PATH, package m3test records every execution of a test.
package m3
