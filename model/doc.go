// Package model has models that are scripts: an agent, the real binary, is pointed at a provider on loopback that answers as the script says. There is no
// key, no cost and no chance in it; what is tested is the agent with the MCP servers.
//
//	script := model.Script{
//		model.Call("math:add", m3.Args{"a": 2, "b": 3}).When(model.Text("add")),
//		model.Say("The answer is 5.").When(model.Result("5")),
//	}
//	selection := m3.Selection{Harness: opencode.New(opencode.Config{}), Models: []m3.Model{model.Scripted("booking", script)}}
//
// A [Step] is one answer of the model: reasoning, text, tool calls, how it stops, and what is wrong with it. Each request of the agent for its next answer
// takes the next step. A request that does not contain what the step demands, one beyond the script, a tool that is not offered, and a step that was never
// asked for are failures that name the step ([UnmetError]). What agents ask besides (titles, summaries, reviews of a call by a second model, counts of tokens,
// lists of models) is recognised, answered and recorded, and takes no step.
//
// The provider speaks the protocols of OpenAI Responses, OpenAI Chat Completions and Anthropic Messages, streaming or not, whichever the agent prefers. Every execution has a
// provider of its own, with its own port, key and progress. Every request is recorded: it shows what the model was shown.
//
// Package model/modelfile reads scripts from YAML and JSON files.
package model
