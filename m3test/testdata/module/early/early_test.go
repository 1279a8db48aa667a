// Package early makes kits with m3.New alone: one before its tests begin, and others in them.
package early

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/store/memory"

	"example.test/module/plain"
)

var early *m3.Kit

func TestMain(m *testing.M) {
	var err error
	if early, err = m3.New(m3.Config{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	use(early, "early")
	m3test.Main(m, &m3test.Config{Suite: "mornings"})
}

func use(k *m3.Kit, name string) {
	c, err := k.Direct(context.Background(), plain.Server, &m3.DirectOptions{Case: name})
	if err != nil {
		panic(err)
	}
	if _, err := c.CallTool(context.Background(), "ok", nil, nil); err != nil {
		panic(err)
	}
	if err := c.Close(); err != nil {
		panic(err)
	}
	fmt.Println("ran", name)
}

func TestKits(t *testing.T) {
	for name, cfg := range map[string]m3.Config{"plain": {}, "own store": {Store: memory.New(nil)}, "own run": {RunID: "mine", Suite: "evenings"}} {
		k, err := m3.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		use(k, name)
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
