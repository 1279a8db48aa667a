package shim

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// RolePump is the role of the byte pump that agents start in the place of a server: see [Pump].
const RolePump = "pump"

// What the pump's environment holds beside [RoleEnv].
const (
	PumpEnv  = "M3_INTERNAL_PUMP"  // the path of the kit's socket
	TokenEnv = "M3_INTERNAL_TOKEN" // what the kit knows the pump by
)

// Hello is the first line of each of the two connections that a pump makes. The data connection has nothing but the server's bytes after it. The
// control connection says what bytes cannot: a [Control] a line, both ways, and that the pump is gone, by its end.
type Hello struct {
	Token string `json:"token"`
	// ID is the same on both connections of one pump.
	ID      string   `json:"id"`
	Control bool     `json:"control,omitempty"`
	PID     int      `json:"pid"`
	Cwd     string   `json:"cwd,omitempty"` // on the data connection, like Env
	Env     []string `json:"env,omitempty"` // the names of its variables, without values
}

// MaxHello bounds a hello line, in bytes.
const MaxHello = 256 << 10

// ParseHello reads a hello line, with or without its line break.
func ParseHello(line []byte) (Hello, error) {
	var h Hello
	if len(line) > MaxHello {
		return h, errors.New("shim: the hello is too long")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return Hello{}, fmt.Errorf("shim: not a hello: %w", err)
	}
	if len(bytes.TrimSpace(line[d.InputOffset():])) > 0 {
		return Hello{}, errors.New("shim: not a hello: something follows it")
	}
	if h.Token == "" || h.ID == "" || h.PID <= 0 {
		return Hello{}, errors.New("shim: not a hello: token, id or pid is missing")
	}
	return h, nil
}

// Control is one line of the control connection: a signal that the pump got, or the code that it is to exit with.
type Control struct {
	Signal int  `json:"signal,omitempty"`
	Exit   *int `json:"exit,omitempty"`
}

// signalGrace is how long a pump that got a signal waits for the kit to end it, before it ends as the signal would have ended it.
const signalGrace = 3 * time.Second

// Pump is the byte pump: it connects to the kit, says hello, and moves bytes both ways. The end of stdin is passed on, and that of the server's
// output; then the pump exits with the code that the kit names. Without one, because the kit went away, the code is 1. Signals are passed to the
// kit, which ends the server.
func Pump(stdin, stdout *os.File, stderr io.Writer) int {
	p, err := connect()
	if err != nil {
		fmt.Fprintf(stderr, "m3: this process stands for a server that a test owns, and cannot reach the test: %v\n", err)
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	exit := make(chan int, 1)
	go func() { exit <- p.awaitExit() }()
	go p.pass(signals)
	go func() {
		move(p.data, stdin)
		p.data.CloseWrite()
	}()
	move(stdout, p.data)
	stdout.Close()
	return <-exit
}

// pump is the two connections of a Pump.
type pump struct{ data, control *net.UnixConn }

func connect() (*pump, error) {
	path := os.Getenv(PumpEnv)
	if path == "" {
		return nil, fmt.Errorf("%s is not set; start it only as an agent's server that m3 configured", PumpEnv)
	}
	h := Hello{Token: os.Getenv(TokenEnv), ID: rand.Text(), PID: os.Getpid(), Control: true}
	control, err := dial(path, h)
	if err != nil {
		return nil, err
	}
	h.Control = false
	h.Cwd, _ = os.Getwd() // a directory that was removed has no name
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		h.Env = append(h.Env, name)
	}
	data, err := dial(path, h)
	if err != nil {
		return nil, err
	}
	return &pump{data, control}, nil
}

func dial(path string, h Hello) (*net.UnixConn, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	line, _ := json.Marshal(h) // strings and numbers: cannot fail
	if _, err := c.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	return c, nil
}

// move copies bytes as they come. Unlike io.Copy it tries no shortcut of the kernel's: they cost more than they save on short messages.
func move(w io.Writer, r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// awaitExit waits for the code to exit with.
func (p *pump) awaitExit() int {
	lines := bufio.NewScanner(p.control)
	for lines.Scan() {
		var c Control
		if json.Unmarshal(lines.Bytes(), &c) == nil && c.Exit != nil {
			return *c.Exit
		}
	}
	return 1
}

// pass tells the kit of signals. The first one also sets a term.
func (p *pump) pass(signals <-chan os.Signal) {
	first := true
	for s := range signals {
		n, _ := s.(syscall.Signal)
		line, _ := json.Marshal(Control{Signal: int(n)})
		p.control.Write(append(line, '\n'))
		if first {
			first = false
			time.AfterFunc(signalGrace, func() { syscall.Exit(128 + int(n)) })
		}
	}
}
