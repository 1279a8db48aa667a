package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/shim"
)

// ShimEnv names the variable that says which executable stands for servers, when it is not the current one.
const ShimEnv = "M3_SHIM"

const (
	helloBound = 10 * time.Second // from the connection to its hello, and from the first of a shim's two connections to the second
	maxPath    = 100              // of a socket; macOS has 104 bytes, with the zero
)

// Hello is what a shim says of itself.
type Hello = shim.Hello

// Executable returns the executable that is started as a shim: $M3_SHIM, else the current one.
func Executable() (string, error) {
	if exe := os.Getenv(ShimEnv); exe != "" {
		return filepath.Abs(exe)
	}
	return os.Executable()
}

// Listener is the socket to which the shims of one endpoint connect.
type Listener struct {
	ln      *net.UnixListener
	release func() // gives up the socket's directory
	token   string
	agents  chan arrived
	done    chan struct{}
	once    sync.Once
	group   sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{} // connections without a hello yet
	half  map[string]*half
	ended bool
}

type arrived struct {
	agent *Agent
	hello Hello
}

// half is a shim of whose two connections one is there.
type half struct {
	data, control net.Conn
	rest          []byte // what came with the hello
	hello         Hello
	timer         *time.Timer
}

// Listen opens a socket, mode 0600, in a directory of this process's own, mode 0700, below dir; empty is the system's for temporary files. An empty token is a
// new one. Only shims that know the token are accepted.
func Listen(dir, token string) (*Listener, error) {
	if token == "" {
		token = rand.Text()
	}
	if dir == "" {
		if dir = os.TempDir(); len(dir) > maxPath/2 {
			dir = "/tmp" // a socket's path is short
		}
	}
	path, release, err := openSocketDir(dir)
	if err != nil {
		return nil, fmt.Errorf("relay: no directory for the socket of the agents: %w", err)
	}
	if len(path) > maxPath {
		release()
		return nil, fmt.Errorf("relay: the path %s is too long for a socket; set TMPDIR to a shorter one", path)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		if ln != nil {
			ln.Close()
		}
		release()
		return nil, fmt.Errorf("relay: no socket for the agents: %w", err)
	}
	l := &Listener{ln: ln, release: release, token: token, agents: make(chan arrived), done: make(chan struct{}), open: map[net.Conn]struct{}{}, half: map[string]*half{}}
	l.group.Go(l.run)
	return l, nil
}

// Env returns the variables, NAME=value, that make the executable a shim of this listener.
func (l *Listener) Env() []string {
	return []string{shim.RoleEnv + "=" + shim.RolePump, shim.PumpEnv + "=" + l.Path(), shim.TokenEnv + "=" + l.token,
		"GOMAXPROCS=1", "GOGC=off"} // a pump needs no more, and its runtime starts in three quarters of the time
}

// Path is the socket's.
func (l *Listener) Path() string { return l.ln.Addr().String() }

// Accept waits for a shim. It may be called again and again: an agent may start a server twice.
func (l *Listener) Accept(ctx context.Context) (*Agent, Hello, error) {
	select {
	case a := <-l.agents:
		return a.agent, a.hello, nil
	case <-l.done:
		return nil, Hello{}, ErrClosed
	case <-ctx.Done():
		return nil, Hello{}, ctx.Err()
	}
}

// Close closes the socket and removes it. Agents that were accepted stay. It is idempotent.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.ln.Close()
		l.mu.Lock()
		l.ended = true
		for c := range l.open {
			c.Close()
		}
		for _, h := range l.half {
			h.close()
		}
		clear(l.half)
		l.mu.Unlock()
		l.group.Wait()
		l.release()
	})
	return nil
}

func (l *Listener) run() {
	for {
		c, err := l.ln.AcceptUnix()
		if err != nil {
			return // it was closed; nothing else fails here for good
		}
		l.mu.Lock()
		if l.ended {
			c.Close()
		} else {
			l.open[c] = struct{}{}
			l.group.Go(func() { l.greet(c) })
		}
		l.mu.Unlock()
	}
}

// greet reads the hello. Who says none, or knows no token, is dropped.
func (l *Listener) greet(c *net.UnixConn) {
	hello, rest, err := readHello(c)
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
	if err != nil || subtle.ConstantTimeCompare([]byte(hello.Token), []byte(l.token)) != 1 {
		c.Close()
		return
	}
	if a := l.pair(c, hello, rest); a != nil {
		select {
		case l.agents <- *a:
		case <-l.done:
			a.agent.drop()
		}
	}
}

func readHello(c net.Conn) (Hello, []byte, error) {
	c.SetReadDeadline(time.Now().Add(helloBound))
	defer c.SetReadDeadline(time.Time{})
	r := bufio.NewReader(io.LimitReader(c, shim.MaxHello))
	line, err := r.ReadBytes('\n')
	if err != nil {
		return Hello{}, nil, err
	}
	hello, err := shim.ParseHello(line)
	rest, _ := r.Peek(r.Buffered()) // is there already: cannot fail
	return hello, bytes.Clone(rest), err
}

// pair puts the two connections of a shim together. It returns nil for the first of them.
func (l *Listener) pair(c *net.UnixConn, hello Hello, rest []byte) *arrived {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		c.Close()
		return nil
	}
	h := l.half[hello.ID]
	if h == nil {
		h = &half{}
		l.half[hello.ID] = h
		h.timer = time.AfterFunc(helloBound, func() { l.forget(hello.ID) })
	}
	switch {
	case hello.Control && h.control == nil:
		h.control = c
	case !hello.Control && h.data == nil:
		h.data, h.hello, h.rest = c, hello, rest
	default:
		c.Close()
		return nil
	}
	if h.data == nil || h.control == nil {
		return nil
	}
	h.timer.Stop()
	delete(l.half, hello.ID)
	h.hello.Token = ""
	return &arrived{newAgent(h), h.hello}
}

func (l *Listener) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.half[id]; h != nil {
		h.close()
		delete(l.half, id)
	}
}

func (h *half) close() {
	h.timer.Stop()
	for _, c := range []net.Conn{h.data, h.control} {
		if c != nil {
			c.Close()
		}
	}
}

// Agent is a shim that connected: what an agent writes to its server is read from it, what is written to it is the server's output.
type Agent struct {
	*net.UnixConn
	rest    []byte // read with the hello
	control net.Conn
	gone    chan struct{}
	signals chan syscall.Signal
	once    sync.Once
}

func newAgent(h *half) *Agent {
	a := &Agent{UnixConn: h.data.(*net.UnixConn), rest: h.rest, control: h.control, gone: make(chan struct{}), signals: make(chan syscall.Signal, 8)}
	go a.listen()
	return a
}

// listen reads the control connection until the shim is gone.
func (a *Agent) listen() {
	defer close(a.gone)
	defer close(a.signals)
	lines := bufio.NewScanner(a.control)
	for lines.Scan() {
		var c shim.Control
		if json.Unmarshal(lines.Bytes(), &c) != nil || c.Signal == 0 {
			continue
		}
		select {
		case a.signals <- syscall.Signal(c.Signal):
		default: // nobody listens; the shim ends by itself
		}
	}
}

// Read reads what the agent wrote.
func (a *Agent) Read(b []byte) (int, error) {
	if len(a.rest) > 0 {
		n := copy(b, a.rest)
		a.rest = a.rest[n:]
		return n, nil
	}
	return a.UnixConn.Read(b)
}

// Gone is closed when the shim's process has ended, or the agent was closed.
func (a *Agent) Gone() <-chan struct{} { return a.gone }

// Signals gives the signals that the agent sent to what it takes for its server. The shim ends by itself 3 s after the first. It is
// closed when the shim is gone.
func (a *Agent) Signals() <-chan syscall.Signal { return a.signals }

// Exit says with which code the shim is to exit, once it has passed on everything that was written before [Agent.CloseWrite] or Close. The first
// call counts.
func (a *Agent) Exit(code int) error {
	err := errors.New("relay: the shim was told already")
	a.once.Do(func() {
		line, _ := json.Marshal(shim.Control{Exit: &code})
		a.control.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = a.control.Write(append(line, '\n'))
	})
	return err
}

// Close ends the shim, with code 0 when no other was given. It waits until the shim is gone, for a second at most.
func (a *Agent) Close() error {
	_ = a.Exit(0) // told already, or gone
	a.UnixConn.CloseWrite()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-a.gone:
	case <-timer.C: // its reader stands still
	}
	a.drop()
	<-a.gone
	return nil
}

// drop closes the connections.
func (a *Agent) drop() {
	a.UnixConn.Close()
	a.control.Close()
}
