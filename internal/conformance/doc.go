// Package conformance checks what passes on the wire against the official JSON Schemas of the protocol, and against the rules that stand in its
// prose only. It is for this module's own tests: a package calls [Run] from its TestMain, and then every message that m3 sends in any of its tests
// is checked, whatever the test is about. The schemas lie beside the repository; where they are missing nothing is checked, and a line says so.
//
// A schema that refuses nothing proves nothing. So each definition that a message was checked by is also shown to refuse mutated copies of
// that message, in the same run.
package conformance
