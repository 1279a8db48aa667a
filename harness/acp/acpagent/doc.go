// Package acpagent is an agent of the Agent Client Protocol that does what a script says, without any model: for tests of m3, of its drivers, and of whatever is built upon them, and for
// examples that anybody can run. It connects to the servers that it is given, by stdio and by HTTP, and really calls their tools; and it can lie about it in every way that
// a real agent might: other arguments, another result, another status, a call that was never made, one that it hides, ids that are swapped.
//
//	func TestMain(m *testing.M) {
//		if acpagent.Active() { // this process was started as the agent
//			os.Exit(acpagent.Main())
//		}
//		os.Exit(m.Run())
//	}
//
//	script := &acpagent.Script{Turns: [][]acpagent.Step{{
//		{Call: &acpagent.Call{Server: "calc", Tool: "add", Arguments: json.RawMessage(`{"a":2,"b":3}`)}},
//		{Say: "The answer is {{result}}."},
//	}}}
//	selection := m3.Selection{Harness: acp.New(acpagent.Config("", script))}
//
// A script with no turns takes the steps of each turn out of the prompt, as a JSON array.
package acpagent
