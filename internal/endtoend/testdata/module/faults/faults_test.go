// Package faults records while something goes wrong on our own side.
package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/m3test"
)

func TestMain(m *testing.M) {
	if _, ok := rawserver.Asked(); ok {
		os.Exit(serve())
	}
	if limit := os.Getenv("FILE_LIMIT"); limit != "" {
		limitFiles(limit)
	}
	m3test.Main(m, nil)
}

// limitFiles lets no file of this process grow beyond the limit: a write there fails, as on a full disk.
func limitFiles(limit string) {
	n, err := strconv.ParseUint(limit, 10, 64)
	if err != nil {
		panic(err)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ) // which ends a Go program otherwise
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		panic(err)
	}
}

func serve() int {
	s, err := rawserver.Stdio("-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.Tools = map[string]rawserver.Tool{
		"echo": func(s *rawserver.Server, c *rawserver.Call) {
			s.Result(c.ID, `{"content":[],"structuredContent":`+string(c.Arguments)+`}`)
		},
		"hang": func(*rawserver.Server, *rawserver.Call) {},
	}
	if s.Serve() != nil {
		return 1
	}
	return 0
}

func connect(t *testing.T) *m3.Client {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return m3test.Direct(t, m3.StdioServer{Name: "raw", Command: exe, Env: map[string]string{rawserver.Role: "-"}, Inherit: []string{"LEFTOVER"}}, &m3.DirectOptions{Protocol: "2025-11-25"})
}

// call makes a call of about size bytes, and holds its answer to what was sent.
func call(t *testing.T, client *m3.Client, n, size int) {
	t.Helper()
	callIn(t.Context(), t, client, n, size)
}

func callIn(ctx context.Context, t *testing.T, client *m3.Client, n, size int) {
	t.Helper()
	text := fmt.Sprintf("%d:%s", n, strings.Repeat("x", size))
	res, err := client.CallTool(ctx, "echo", m3.Args{"text": text}, nil)
	if err != nil {
		t.Errorf("call %d: %v", n, err)
		return
	}
	var got struct{ Text string }
	if err := json.Unmarshal(res.StructuredContent, &got); err != nil || got.Text != text {
		t.Errorf("call %d: another text came back (%v)", n, err)
	}
}

// TestFill makes more calls than there is room for. Each must succeed all the same.
func TestFill(t *testing.T) {
	client := connect(t)
	for n := range 60 {
		call(t, client, n, 40_000)
	}
	fmt.Println("all calls were answered")
}

// TestGone loses its spool in mid-run.
func TestGone(t *testing.T) {
	client := connect(t)
	for n := range 3 {
		call(t, client, n, 100)
	}
	if err := os.WriteFile(os.Getenv("READY"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for { // until somebody has deleted it
		if left, _ := filepath.Glob(os.Getenv("SPOOL")); len(left) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for n := range 3 {
		call(t, client, 3+n, 100)
	}
	fmt.Println("all calls were answered")
}

// TestMoments is a bit of everything, for whoever interrupts it at some moment.
func TestMoments(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			fmt.Println("at connect", name)
			client := connect(t)
			for n := range 3 {
				call(t, client, n, 100)
			}
			t.Cleanup(func() {
				fmt.Println("at cleanup", name)
				late := connect(t)
				callIn(context.Background(), t, late, 9, 100)
				time.Sleep(50 * time.Millisecond)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			fmt.Println("at call", name)
			if _, err := client.CallTool(ctx, "hang", nil, nil); err == nil {
				t.Error("it was answered")
			}
		})
	}
}
