// Package harness is the seam between m3 and an agent: what a driver implements, and what the kit offers it while it runs.
// It is for authors of drivers; test authors use one (opencode.New, acp.New) in an m3.Selection.
//
//	m3.Agent ──► Driver.Open(spec, host) ──► Session ──► Send, Send, …, Close
//	                              │                         │
//	         kit: servers, relay, │ Host: Event, Frame, Permission, Elicit, Start
//	              workspace, tape ◄─────────────────────────┘
//
// The kit owns everything that is not the agent itself: the real servers and what passes between them and the agent, the workspace, the
// environment, the model endpoint, the tape, deadlines. A driver starts its agent with what a [Spec] gives it, says what the agent says
// ([Host.Event], [Host.Frame]), and asks the kit what the agent asks ([Host.Permission], [Host.Elicit]). It writes no trace entry, pairs no
// call with the wire, filters no tool for m3, invents nothing that the agent did not say, and keeps nothing of its own between executions.
//
// Package harness/harnesstest is the suite that every driver passes.
package harness
