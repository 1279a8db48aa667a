// Package isolation makes the places in which an agent lives for one execution: a home of its own with a minimal environment, and a workspace whose changes
// and files can be told afterwards. It knows nothing of agents, servers or traces.
package isolation
