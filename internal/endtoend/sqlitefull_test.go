package endtoend

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// fullEnv makes this test binary a program whose own SQLite store, at the path in it, gets no more room after a while.
const fullEnv = "ENDTOEND_FULL_SQLITE"

// recordUntilFull is that program. It prints the execution, and the reason that Close gives.
func recordUntilFull(path string) int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ) // which ends a Go program otherwise
	st, err := sqlite.Open(path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer st.Close()
	kit, err := m3.New(m3.Config{Store: st})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	client, err := kit.Direct(context.Background(), m3.PipeServer{Name: "echo", Serve: func(_ context.Context, s io.ReadWriteCloser) error {
		return (&rawserver.Server{In: s, Out: s, Tools: map[string]rawserver.Tool{"echo": func(s *rawserver.Server, c *rawserver.Call) {
			s.Result(c.ID, `{"content":[],"structuredContent":`+string(c.Arguments)+`}`)
		}}}).Serve()
	}}, &m3.DirectOptions{Protocol: "2025-11-25"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for n := range 40 {
		if n == 10 {
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1_500_000, Max: 1_500_000}); err != nil {
				fmt.Println(err)
				return 1
			}
		}
		if _, err := client.CallTool(context.Background(), "echo", m3.Args{"text": fmt.Sprintf("%d:%s", n, strings.Repeat("x", 40_000))}, nil); err != nil {
			fmt.Println("call", n, err)
			return 1
		}
	}
	fmt.Println("execution", client.ExecutionID())
	fmt.Println("close:", client.Close())
	_ = kit.Close() // the same again
	return 0
}

// A program's own SQLite store whose files must not grow any more: every call is answered, Close gives the reason, and what was acknowledged before is in the
// database, with an end, or readable as what it is: an execution without one.
func TestSQLiteFull(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "db.sqlite")
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), fullEnv+"="+path)
	out, err := cmd.CombinedOutput()
	said := string(out)
	if err != nil || !strings.Contains(said, "close: ") || strings.Contains(said, "close: <nil>") {
		t.Fatalf("%v\n%s", err, said)
	}
	reason := said[strings.Index(said, "close: "):]
	if !strings.Contains(reason, "sqlite: write to "+path) {
		t.Errorf("Close does not name the database: %s", reason)
	}
	_, rest, _ := strings.Cut(said, "execution ")
	id := trace.ExecutionID(strings.Fields(rest)[0])
	db := openDB(t, path)
	tr, err := db.Trace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for ev, err := range tr.All() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Method == "tools/call" && ev.Frame != nil && ev.Frame.Direction == trace.ClientToServer {
			if !strings.Contains(string(ev.Frame.Bytes), fmt.Sprintf(`"%d:xxx`, calls)) {
				t.Errorf("call %d is %.100s", calls, ev.Frame.Bytes)
			}
			calls++
		}
	}
	if calls < 10 || calls > 39 {
		t.Errorf("%d calls were kept", calls)
	}
	if tr.Finalized() {
		if why := limited(viewOf(t, db, id), "persistence_failed"); why == "" {
			t.Error("the trace does not say what it lacks")
		}
	}
}
