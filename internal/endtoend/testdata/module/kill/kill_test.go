// Package kill is killed while it calls. What it says on its fourth descriptor has happened.
package kill

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/m3test"
)

func TestMain(m *testing.M) {
	if base, ok := rawserver.Asked(); ok {
		s, err := rawserver.Stdio(base)
		if err == nil {
			s.Tools = map[string]rawserver.Tool{"echo": func(s *rawserver.Server, c *rawserver.Call) {
				s.Raw("noise before " + string(c.ID) + "\r\n")
				s.Result(c.ID, `{"content":[],"structuredContent":`+string(c.Arguments)+`}`)
			}}
			err = s.Serve()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	m3test.Main(m, nil)
}

// acks is the pipe to whoever holds m3 to its word; go test itself hands none on.
var acks = struct {
	sync.Mutex
	f *os.File
}{f: os.NewFile(3, "acknowledgements")}

// acknowledge says that a test was told that the call has succeeded.
func acknowledge(t *testing.T, ack map[string]any) {
	b, err := json.Marshal(ack)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("ACKNOWLEDGE") == "" {
		return
	}
	acks.Lock()
	defer acks.Unlock()
	if _, err := acks.f.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
}

// TestCalls makes so many calls with each of so many clients at once: WRITERS and CALLS.
func TestCalls(t *testing.T) {
	writers, err := strconv.Atoi(os.Getenv("WRITERS"))
	if err != nil {
		t.Fatal(err)
	}
	calls, err := strconv.Atoi(os.Getenv("CALLS"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { write(t, w, calls) })
	}
	wg.Wait()
}

func write(t *testing.T, w, calls int) {
	exe, err := os.Executable()
	if err != nil {
		t.Error(err)
		return
	}
	base := filepath.Join(os.Getenv("LOGS"), strconv.Itoa(w))
	client, err := m3test.Kit(t).Direct(t.Context(), m3.StdioServer{Name: "raw", Command: exe, Env: map[string]string{rawserver.Role: base}},
		&m3.DirectOptions{Protocol: "2025-11-25", Case: strconv.Itoa(w)})
	if err != nil {
		t.Error(err)
		return
	}
	for n := range calls {
		pad := n * 331 % 3000
		if n == 1 {
			pad = 80_000 // a blob
		}
		text := fmt.Sprintf("%d/%d%s", w, n, strings.Repeat(".", pad))
		res, err := client.CallTool(t.Context(), "echo", m3.Args{"text": text}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		sum := sha256.Sum256(res.Raw) // a short line is written whole or not at all
		acknowledge(t, map[string]any{"execution": client.ExecutionID(), "writer": w, "call": n, "sequence": res.Sequence, "result": hex.EncodeToString(sum[:])})
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	acknowledge(t, map[string]any{"execution": client.ExecutionID(), "writer": w, "closed": true})
}
