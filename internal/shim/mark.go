package shim

import (
	"bytes"
	"strconv"
	"strings"
)

// MarkEnv is the environment variable by which a process that m3 started is found again, wherever it went. Its value is a
// list of marks, outermost first: a test process that runs under another one adds its own.
const MarkEnv = "M3_INTERNAL_MARK"

// Mark names what one test process started (N is 0), or one process of it and its descendants.
type Mark struct {
	ID string // unique for the test process: hexadecimal digits
	N  int    // counts from 1 within the test process
}

// String returns the mark as it stands in the environment.
func (m Mark) String() string { return m.ID + "." + strconv.Itoa(m.N) }

// Environ returns env with the mark added to the marks that it has already, to the end of them. env is not changed.
func (m Mark) Environ(env []string) []string {
	out := make([]string, 0, len(env)+1)
	value := m.String()
	for _, e := range env {
		if outer, ok := strings.CutPrefix(e, MarkEnv+"="); ok {
			value = outer + "," + m.String()
			continue
		}
		out = append(out, e)
	}
	return append(out, MarkEnv+"="+value)
}

// in reports whether an environment carries the mark. sep is what stands between its entries.
func (m Mark) in(env []byte, sep byte) bool {
	value, ok := lookup(env, sep, MarkEnv)
	for ok && len(value) > 0 {
		var one []byte
		one, value, _ = bytes.Cut(value, []byte{','})
		id, n, found := strings.Cut(string(one), ".")
		if found && id == m.ID && (m.N == 0 || n == strconv.Itoa(m.N)) {
			return true
		}
	}
	return false
}

// lookup returns the value of a variable in the raw text of an environment.
func lookup(env []byte, sep byte, name string) ([]byte, bool) {
	for len(env) > 0 {
		var entry []byte
		entry, env, _ = bytes.Cut(env, []byte{sep})
		if len(entry) > len(name) && entry[len(name)] == '=' && string(entry[:len(name)]) == name {
			return entry[len(name)+1:], true
		}
	}
	return nil, false
}
