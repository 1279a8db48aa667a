//go:build !linux

package endtoend

import "testing"

func smallDisk(t *testing.T) (dir string, grow func(), inside bool) {
	t.Helper()
	t.Skip("a small disk needs Linux's namespaces: TestFileLimit holds the same where files must not grow")
	return "", nil, false
}
