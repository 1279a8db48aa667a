// Package acp drives any agent that speaks the Agent Client Protocol, version 1, on its standard input and output.
//
//	m3.Selection{Harness: acp.New(acp.OpenCode()), Models: …}                          // a preset
//	m3.Selection{Harness: acp.New(acp.Config{Command: "my-agent", Args: []string{"acp"}}), …}
//	m3.Selection{Harness: acp.New(acp.Config{Manifest: manifest}), …}                  // an m3.harness.v1 file
//
// It believes an agent nothing that it can know better. What the agent says is recorded as it came, line by line, and told on as what the agent said; that a tool was
// called, and that a server was reached, is for the wire to say. Of a turn it keeps the agent's own word (end_turn) and, apart from it, why that word may not be true.
//
//	a line ──► Host.Frame ──► envelope (members as raw JSON) ──► answer: pending by raw id
//	                                                         ├─► session/update: one at a time, in order ──► Host.Event
//	                                                         └─► the agent's request: a goroutine each, with a cancel ──► Host.Permission, Host.Elicit, else -32601
//
// No typed decode loses a member: an update, a content block or a notification of a kind that this package does not know is told on whole, as an Activity.
package acp
