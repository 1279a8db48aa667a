package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inProcess runs m3 in this process, in a fresh folder.
func inProcess(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	c := &cli{in: strings.NewReader(""), out: &o, err: &e, dir: t.TempDir()}
	code = c.run(t.Context(), args)
	return code, o.String(), e.String()
}

func TestInspectHTTP(t *testing.T) {
	const token = "hunter2hunter2"
	t.Setenv("SHIPPING_TOKEN", token) // no t.Parallel with it
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return shippingServer() }, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("X-Plain") != "yes" {
			http.Error(w, "who are you, "+r.Header.Get("Authorization")+"?", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer srv.Close()
	headers := []string{"--header", "Authorization: Bearer $SHIPPING_TOKEN", "--header", "X-Plain: yes"}

	code, out, errs := inProcess(t, append([]string{"inspect", "--url", srv.URL}, headers...)...)
	if code != 0 || !strings.Contains(out, "quote(weight_kg, city?)") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = inProcess(t, append([]string{"call", "--server", "http", "--url", srv.URL, "quote", `{"weight_kg": 2}`}, headers...)...)
	if code != 0 || !strings.Contains(out, `"price": 6`) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	// The refusal echoes the token: it must not be printed.
	for _, flags := range [][]string{{"--json"}, nil} {
		args := append([]string{"inspect", "--url", srv.URL, "--header", "Authorization: Bearer ${SHIPPING_TOKEN}"}, flags...)
		code, out, errs = inProcess(t, args...)
		if code != exitServer || !strings.Contains(out+errs, "401") || strings.Contains(out+errs, token) {
			t.Errorf("exit %d, want 1, a 401 and no token\n%s%s", code, out, errs)
		}
	}
}

func TestSecretsMustBeThere(t *testing.T) {
	t.Parallel()
	code, out, errs := inProcess(t, "inspect", "--url", "http://127.0.0.1:1/mcp", "--header", "Authorization: Bearer $NOSUCH_TOKEN")
	if code != exitUsage || !strings.Contains(errs, "NOSUCH_TOKEN") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = inProcess(t, "inspect", "--url", "http://192.0.2.1:1/mcp", "--trust", "nosuch")
	if code != exitUsage || !strings.Contains(errs, `unknown trust "nosuch"`) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// Flags that cannot be read are an error like any other: with --json, an object.
func TestBadFlagsInJSON(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string // of the message; empty: no JSON was asked for
	}{
		{[]string{"call", "--json", "--nosuch", "quote"}, "unknown flag: --nosuch"},
		{[]string{"inspect", "--nosuch", "--json"}, "unknown flag: --nosuch"},
		{[]string{"inspect", "--timeout", "-1", "--json=true"}, "want a positive number"},
		{[]string{"call", "--json", "--server", "ftp"}, "stdio or http"},
		{[]string{"inspect", "--json", "--results-db", ""}, "the path is empty"},
		{[]string{"inspect", "--json", "--arg"}, "flag needs an argument"},
		{[]string{"inspect", "--arg", "--json", "--nosuch"}, ""},
		{[]string{"call", "--nosuch", "--", "--json"}, ""},
		{[]string{"call", "--json=false", "--nosuch"}, ""},
	} {
		code, out, errs := inProcess(t, tc.args...)
		var a answer
		err := json.Unmarshal([]byte(out), &a)
		switch {
		case code != exitUsage:
			t.Errorf("%q: exit code %d", tc.args, code)
		case tc.want == "" && (out != "" || !strings.Contains(errs, "m3: unknown flag")):
			t.Errorf("%q: %s%s", tc.args, out, errs)
		case tc.want != "" && (err != nil || errs != "" || a.Error.Code != "usage" || !strings.Contains(a.Error.Message, tc.want)):
			t.Errorf("%q: %v: %s%s", tc.args, err, out, errs)
		}
	}
}

// A signal ends a call at once, with its code, and leaves no server.
func TestInterruptCall(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		t.Run(sig.String(), func(t *testing.T) { t.Parallel(); interruptCall(t, sig, code) })
	}
}

func interruptCall(t *testing.T, sig syscall.Signal, want int) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(exe, "inspect", "--json", "--command", exe, "--env", asSilent+"="+ready)
	cmd.Env = append(os.Environ(), asM3+"=1")
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(ready); err != nil { // until the server has opened it, and closed it again
		t.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != want || time.Since(start) > 5*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(start))
	}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil || a.OK || a.Error == nil || a.Error.Code != "cancelled" {
		t.Errorf("%v: %s", err, out.String())
	}
}

// The exit codes of m3 probe: 0 clean, 1 an error found, 2 usage.
func TestProbeExitCodes(t *testing.T) {
	t.Parallel()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return shippingServer() }, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Content-Type"), "charset") {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer srv.Close()
	for _, tc := range []struct {
		want int
		text string
		args []string
	}{
		{0, "1 clean", []string{"--url", srv.URL, "--only", "text-id"}},
		{1, "error content-type-charset", []string{"--url", srv.URL, "--only", "content-type-charset"}},
		{2, "no probe", []string{"--url", srv.URL, "--only", "nosuch"}},
		{2, "no server", nil},
	} {
		code, out, errs := inProcess(t, append([]string{"probe"}, tc.args...)...)
		if code != tc.want || !strings.Contains(out+errs, tc.text) {
			t.Errorf("%v: exit %d, want %d with %q\n%s%s", tc.args, code, tc.want, tc.text, out, errs)
		}
	}
}

// A 401 shows the chain that the server offers, as text and as JSON (case G02 of the public reports).
func TestInspectProtected(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer srv.Close()
	code, out, errs := inProcess(t, "inspect", "--url", srv.URL+"/mcp")
	for _, want := range []string{"1. the server's answer: " + srv.URL + "/mcp → 401 Unauthorized: WWW-Authenticate: Bearer\n", "oauth-protected-resource/mcp → 404 Not Found\n", "hint: --header 'Authorization", "warning oauth-challenge-without-metadata: "} {
		if code != exitServer || !strings.Contains(out+errs, want) {
			t.Errorf("exit %d, want 1 and %q\n%s%s", code, want, out, errs)
		}
	}
	_, out, _ = inProcess(t, "inspect", "--json", "--url", srv.URL+"/mcp")
	var a struct {
		Error struct {
			Details struct {
				Authorization struct {
					Steps []struct {
						URL    string `json:"url"`
						Status int    `json:"status"`
					} `json:"steps"`
				} `json:"authorization"`
			} `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil || len(a.Error.Details.Authorization.Steps) != 4 || a.Error.Details.Authorization.Steps[3].Status != 404 {
		t.Errorf("%v: %s", err, out)
	}
}
