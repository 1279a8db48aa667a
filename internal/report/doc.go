// Package report tells people and programs what a run was: a line a test while it goes on ([Live]), feedback.json
// ([Build], [Feedback.WriteFile]) and the summary at its end ([Print]). What it says of a finished run comes from a
// store.Reader alone, so a stored run can be reported again with the same bytes.
//
// It is used by cmd/m3.
package report
