package contracts

import (
	"testing"

	"github.com/m3-go/m3/m3test"
)

// The tools are those of testdata/shop.lock, which stands in the repository: a change of a name, a description or a schema fails here, and says whether
// it breaks callers. M3_UPDATE=1 go test -run TestToolsAreLocked writes the file anew.
func TestToolsAreLocked(t *testing.T) {
	t.Parallel()
	m3test.Locked(t, m3test.Direct(t, shop, nil), "testdata/shop.lock")
}
