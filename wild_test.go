package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/internal/wiretest"
	"github.com/m3-go/m3/trace"
)

// rulesVariable makes this test binary a server that plays the rules in it.
const rulesVariable = "M3_WILD_RULES"

// verdictTime is how long after the deciding byte, or after its own deadline, a verdict may take.
const verdictTime = 500 * time.Millisecond

// wildCase is a file of testdata/wild. Its file case has options and the steps of a session, one a line; without steps they are list, call, ping.
//
//	transport stdio|process|http|sse|any...   each is played; default stdio, http and sse. With any the client must find out
//	                                          which it is, with anysse as well, and the server speaks HTTP+SSE
//	protocol VERSION|auto                     default 2025-11-25
//	timeout 300ms                             of each operation, default 3s; start 300ms is that of the handshake; extra 3s
//	                                          is how long a step may take by deadlines of the case (a probe, an idle connection)
//	sampling, roots, validate                 what the client offers and does
//	elicits                                   it declares elicitation, of both modes; plan JSON is the plan of each call
//	alone                                     not beside other cases: its payload is large
//	maxframe N
//	list | listall | call TOOL ARGS | progress TOOL | both TOOL | cancel TOOL | ping | settle 50ms
//
// Its file must was written from the case, before anything was run:
//
//	STEP ok [TEXT] | STEP fails [TEXT]        STEP is connect, or a verb with .2 for its second use; TEXT is in its outcome
//	finding CODE [TEXT] | none CODE
//	came METHOD N                             the server got N such messages (GET, POST and DELETE count too)
//	raw TEXT                                  the trace has these bytes of the server
//	sent TEXT | never TEXT                    the trace has, or has not, these bytes of the client
//	took METHOD 300ms                         from request to answer it took at least so long, as the trace tells it
//	header NAME: VALUE                        a POST had this header, as the trace tells it
//	twin STEP fails [TEXT]                    what is so on the repaired twin as well
type wildCase struct {
	id, title  string
	c          *wiretest.Case
	transports []string
	protocol   string
	timeout    time.Duration
	start      time.Duration
	maxFrame   int64
	sampling   bool
	roots      bool
	elicits    bool
	plan       *elicit.Plan
	validate   bool
	alone      bool
	extra      time.Duration // that a step may take by the case's own deadlines
	steps      []string
	must       []string
}

func loadWild(t *testing.T) []*wildCase {
	t.Helper()
	paths, err := filepath.Glob("testdata/wild/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no wild cases", err)
	}
	var all []*wildCase
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := parseWild(path, b)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, w)
	}
	return all
}

func parseWild(path string, b []byte) (*wildCase, error) {
	c := wiretest.ParseCase(b)
	name := strings.TrimSuffix(filepath.Base(path), ".txtar")
	id, title, _ := strings.Cut(name, "-")
	w := &wildCase{id: id, title: title, c: c, protocol: "2025-11-25", timeout: 3 * time.Second, start: 3 * time.Second}
	for _, file := range []string{"must", "server", "twin"} {
		if !c.Has[file] {
			return nil, fmt.Errorf("no file %s", file)
		}
	}
	for line := range strings.Lines(c.Plan) {
		if err := w.option(strings.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	if w.transports == nil {
		w.transports = []string{"stdio", "http", "sse"}
	}
	if w.steps == nil {
		w.steps = []string{"list", `call echo {"text":"hi"}`, "ping"}
	}
	for line := range strings.Lines(c.Must) {
		if line = strings.TrimSpace(line); line != "" {
			w.must = append(w.must, line)
		}
	}
	return w, nil
}

func (w *wildCase) option(line string) (err error) {
	line = strings.ReplaceAll(line, "${200K}", `{"text":"`+strings.Repeat("x", 200<<10)+`"}`)
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "":
	case "transport":
		w.transports = strings.Fields(rest)
	case "protocol":
		w.protocol = strings.TrimPrefix(rest, "auto")
	case "timeout":
		w.timeout, err = time.ParseDuration(rest)
	case "start":
		w.start, err = time.ParseDuration(rest)
	case "extra":
		w.extra, err = time.ParseDuration(rest)
	case "maxframe":
		w.maxFrame, err = strconv.ParseInt(rest, 10, 64)
	case "sampling":
		w.sampling = true
	case "roots":
		w.roots = true
	case "elicits":
		w.elicits = true
	case "plan":
		w.plan, err = elicit.Parse([]byte(rest))
	case "alone":
		w.alone = true
	case "validate":
		w.validate = true
	case "list", "listall", "call", "progress", "both", "cancel", "ping", "settle":
		w.steps = append(w.steps, line)
	default:
		err = fmt.Errorf("unknown line %q", line)
	}
	return err
}

// played is a server of a case at work.
type played struct {
	w      *wiretest.Wild
	server m3.Server
	url    string // of an HTTP server
	rules  string
	close  func()
}

func startWild(t *testing.T, rules, transport string) *played {
	t.Helper()
	w, err := wiretest.ParseWild(rules)
	if err != nil {
		t.Fatal(err)
	}
	p := &played{w: w, rules: rules, close: func() {}}
	switch transport {
	case "stdio":
		p.server = m3.PipeServer{Name: "wild", Serve: func(_ context.Context, s io.ReadWriteCloser) error { w.ServeStream(s); return nil }}
	case "process":
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p.server = m3.StdioServer{Name: "wild", Command: exe, Env: map[string]string{rulesVariable: rules, "GORACE": "atexit_sleep_ms=0"}}
	case "http", "sse", "any", "anysse":
		h, err := w.ServeHTTP(strings.HasSuffix(transport, "sse"))
		if err != nil {
			t.Fatal(err)
		}
		kind := map[string]m3.HTTPTransport{"http": m3.StreamableHTTP, "sse": m3.LegacySSE, "any": m3.AnyHTTP, "anysse": m3.AnyHTTP}[transport]
		p.server, p.url, p.close = m3.HTTPServer{Name: "wild", URL: h.URL, Transport: kind}, h.URL, h.Close
	default:
		t.Fatalf("unknown transport %q", transport)
	}
	return p
}

// stepOutcome is what became of one step.
type stepOutcome struct {
	name, text string
	code       string // of the error; empty when there was none
}

func (s stepOutcome) String() string {
	if s.code == "" {
		return s.name + " ok"
	}
	return s.name + " " + s.code
}

// session is what became of a whole session.
type session struct {
	steps    []stepOutcome
	findings []trace.Finding
	raw      []byte                   // from the server
	sent     []byte                   // by the client
	took     map[string]time.Duration // the first request of a method to its answer, as the trace tells it
	headers  []string                 // of its POSTs
	verdicts []verdict
	slow     []string
}

// verdict is when a step ended. The trace tells when what it is about had come.
type verdict struct {
	verb      string
	began, at time.Time
	deadline  time.Time // the step's own, when that is what ended it
}

func (s *session) add(verb, text, code string) {
	n := 1
	for _, st := range s.steps {
		if st.name == verb || strings.HasPrefix(st.name, verb+".") {
			n++
		}
	}
	if n > 1 {
		verb = fmt.Sprintf("%s.%d", verb, n)
	}
	s.steps = append(s.steps, stepOutcome{verb, text, code})
}

func (s *session) codes() []string {
	var codes []string
	for _, f := range s.findings {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func (s *session) has(code, text string) bool {
	return slices.ContainsFunc(s.findings, func(f trace.Finding) bool { return f.Code == code && strings.Contains(f.Message, text) })
}

func (s *session) failed() bool {
	return slices.ContainsFunc(s.steps, func(st stepOutcome) bool { return st.code != "" })
}

// summary is the outcome in a few words.
func (s *session) summary() string {
	if !s.failed() {
		return "all ok"
	}
	var words []string
	for _, st := range s.steps {
		words = append(words, st.String())
	}
	return strings.Join(words, ", ")
}

// playOurs plays the session with m3's client.
func (w *wildCase) playOurs(t *testing.T, p *played) *session {
	t.Helper()
	s := &session{}
	var id trace.ExecutionID
	kit, err := m3.New(m3.Config{OnExecution: func(e trace.ExecutionID) { id = e }})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Close()
	opts := &m3.DirectOptions{Protocol: w.protocol, Timeout: w.timeout, StartTimeout: w.start, ValidateSchemas: w.validate, MaxFrame: w.maxFrame}
	if w.sampling {
		opts.Sampling = func(context.Context, *m3.SamplingRequest) (*m3.SamplingResult, error) {
			return &m3.SamplingResult{Model: "m", Text: "sampled"}, nil
		}
	}
	if w.roots {
		opts.Roots = []m3.Root{}
	}
	if w.elicits {
		opts.Elicitation = m3.ElicitForm | m3.ElicitURL
	}
	began := time.Now()
	client, err := kit.Direct(t.Context(), p.server, opts)
	w.judgeTime(s, p, "connect", began, w.start, err)
	s.addError("connect", "", err)
	if err == nil {
		for _, step := range w.steps {
			w.stepOurs(t, s, p, client, step)
		}
		if err := client.Close(); err != nil {
			t.Error("close:", err)
		}
	}
	s.read(t, kit, id, w.verdictTime())
	s.judgeByTrace(t, kit, id, w.verdictTime()+w.extra)
	return s
}

// judgeByTrace notes the verdicts that came late as the stored trace tells it, whatever the transport: after the last thing that came from the server, its
// end included, or where the time was up, after that.
func (s *session) judgeByTrace(t *testing.T, kit *m3.Kit, id trace.ExecutionID, bound time.Duration) {
	t.Helper()
	tr, err := kit.Store().Trace(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	var came []time.Time
	for ev, err := range tr.All() {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ev.Frame != nil && ev.Frame.Direction == trace.ServerToClient, ev.Kind == trace.KindProcessStarted, ev.Kind == trace.KindProcessExited,
			ev.Kind == trace.KindTransportConnected, ev.Kind == trace.KindTransportDisconnected:
			came = append(came, ev.Time)
		}
	}
	for _, v := range s.verdicts {
		decided := v.deadline
		if decided.IsZero() {
			decided = v.began
			for _, at := range came {
				if at.After(decided) && !at.After(v.at) {
					decided = at
				}
			}
		}
		if d := v.at.Sub(decided); d > bound {
			s.slow = append(s.slow, fmt.Sprintf("%s: %v after the trace had what decides it", v.verb, d))
		}
	}
}

func (s *session) addError(verb, text string, err error) {
	code := ""
	var coded interface{ Code() string }
	switch {
	case errors.As(err, &coded):
		code, text = coded.Code(), err.Error()
	case err != nil:
		code, text = "untyped", err.Error()
	}
	s.add(verb, text, code)
}

// judgeTime notes a verdict that came late: after the server's last act, or, where the time was up, after that.
func (w *wildCase) judgeTime(s *session, p *played, verb string, began time.Time, bound time.Duration, err error) {
	now, from := time.Now(), began
	if last := p.w.LastAct(); last.After(from) {
		from = last
	}
	v := verdict{verb: verb, began: began, at: now}
	if errors.Is(err, context.DeadlineExceeded) {
		from = began.Add(bound)
		v.deadline = from
	}
	s.verdicts = append(s.verdicts, v)
	if _, process := p.server.(m3.StdioServer); process && !errors.Is(err, context.DeadlineExceeded) {
		return // the acts are in another process: see judgeByTrace
	}
	if d := now.Sub(from) - w.extra; d > w.verdictTime() {
		s.slow = append(s.slow, fmt.Sprintf("%s: %v (%v)", verb, d, err))
	}
}

func (w *wildCase) stepOurs(t *testing.T, s *session, p *played, client *m3.Client, step string) {
	verb, rest, _ := strings.Cut(step, " ")
	began := time.Now()
	text, err := w.doOurs(t.Context(), client, verb, rest)
	if verb == "settle" {
		return
	}
	w.judgeTime(s, p, verb, began, w.timeout, err)
	s.addError(verb, text, err)
}

func (w *wildCase) doOurs(ctx context.Context, client *m3.Client, verb, rest string) (string, error) {
	tool, args, _ := strings.Cut(rest, " ")
	switch verb {
	case "list":
		page, err := client.ListTools(ctx, nil)
		if err != nil {
			return "", err
		}
		return toolNames(page.Items), nil
	case "listall":
		tools, err := client.ListAllTools(ctx, nil)
		return toolNames(tools), err
	case "call":
		return w.callOurs(ctx, client, tool, args)
	case "progress":
		return callWithProgress(ctx, client, tool)
	case "both":
		return twice(func() (string, error) { return w.callOurs(ctx, client, tool, "{}") })
	case "cancel":
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
		return w.callOurs(ctx, client, tool, "{}")
	case "ping":
		return "", client.Ping(ctx, nil)
	case "settle":
		d, err := time.ParseDuration(rest)
		time.Sleep(d)
		return "", err
	}
	return "", errors.New("unknown step")
}

func toolNames(tools []m3.ToolInfo) string {
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, ",")
}

func (w *wildCase) callOurs(ctx context.Context, client *m3.Client, tool, args string) (string, error) {
	res, err := client.CallTool(ctx, tool, json.RawMessage(args), &m3.CallOptions{Elicitation: w.plan})
	if err != nil {
		return "", err
	}
	text := res.Text()
	if res.IsError {
		text = "tool error: " + text
	}
	return text + " " + string(res.StructuredContent), nil
}

// callWithProgress asks for progress, and tells the values that came.
func callWithProgress(ctx context.Context, client *m3.Client, tool string) (string, error) {
	var mu sync.Mutex
	var values []string
	_, err := client.CallTool(ctx, tool, nil, &m3.CallOptions{Progress: func(p m3.Progress) {
		mu.Lock()
		defer mu.Unlock()
		values = append(values, strconv.FormatFloat(p.Progress, 'g', -1, 64))
	}})
	mu.Lock()
	defer mu.Unlock()
	return strings.Join(values, ","), err
}

// twice runs fn two times at once.
func twice(fn func() (string, error)) (string, error) {
	var wg sync.WaitGroup
	var texts [2]string
	var errs [2]error
	for i := range 2 {
		wg.Go(func() { texts[i], errs[i] = fn() })
	}
	wg.Wait()
	slices.Sort(texts[:])
	return strings.Join(texts[:], "+"), errors.Join(errs[:]...)
}

// read takes from the stored trace what it tells of the session.
func (s *session) read(t *testing.T, kit *m3.Kit, id trace.ExecutionID, bound time.Duration) {
	t.Helper()
	tr, err := kit.Store().Trace(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	at, asked := map[int64]time.Duration{}, map[trace.RPCID]trace.Event{}
	s.took = map[string]time.Duration{}
	received := time.Duration(0)
	for ev, err := range tr.All() {
		if err != nil {
			t.Fatal(err)
		}
		at[ev.Sequence] = ev.Offset
		if ev.Frame != nil && ev.Frame.Direction == trace.ServerToClient {
			s.raw = append(s.raw, ev.Frame.Bytes...)
			received = ev.Offset
			if ask, ok := asked[ev.RPCID]; ok && s.took[ask.Method] == 0 {
				s.took[ask.Method] = ev.Offset - ask.Offset
			}
		}
		if ev.Kind == trace.KindMCPRequest && ev.Frame != nil && ev.Frame.Direction == trace.ClientToServer {
			asked[ev.RPCID] = ev
		}
		if ev.Frame != nil && ev.Frame.Direction == trace.ClientToServer {
			s.sent = append(s.sent, ev.Frame.Bytes...)
			if h := ev.Frame.HTTP; h != nil && h.Method == "POST" {
				for _, field := range h.Header {
					s.headers = append(s.headers, field.Name+": "+field.Value)
				}
			}
		}
		switch {
		case ev.Kind == trace.KindFinding:
			var f trace.Finding
			if err := json.Unmarshal(ev.Payload, &f); err != nil {
				t.Fatal(err)
			}
			s.findings = append(s.findings, f)
			if d := ev.Offset - max(at[f.Sequence], received); f.Sequence >= 0 && d > bound {
				s.slow = append(s.slow, fmt.Sprintf("finding %s: %v after its frame", f.Code, d))
			}
		case ev.Kind == trace.KindProcessExited:
			received = ev.Offset
		}
	}
}

// check holds what must be true of the session.
func (w *wildCase) check(t *testing.T, s *session, p *played, twin bool) {
	t.Helper()
	for _, line := range w.must {
		verb, rest, _ := strings.Cut(line, " ")
		if twin != (verb == "twin") {
			if twin && verb == "finding" {
				code, _, _ := strings.Cut(rest, " ")
				if s.has(code, "") {
					t.Errorf("the repaired twin has the finding %s", code)
				}
			}
			continue
		}
		if twin {
			line = rest
			verb, rest, _ = strings.Cut(line, " ")
		}
		if problem := s.holds(p, verb, rest); problem != "" {
			t.Errorf("%s: %s", line, problem)
		}
	}
	for _, slow := range s.slow {
		t.Errorf("a verdict came late: %s", slow)
	}
	if twin {
		w.checkTwin(t, s)
	}
	if t.Failed() {
		for _, st := range s.steps {
			t.Logf("%s: %.300s", st, st.text)
		}
		for _, f := range s.findings {
			t.Logf("%s %s: %s", f.Severity, f.Code, f.Message)
		}
	}
}

// checkTwin: on the repaired twin nothing fails, and nothing worse than a note is found, but for what the case says.
func (w *wildCase) checkTwin(t *testing.T, s *session) {
	t.Helper()
	for _, st := range s.steps {
		allowed := slices.ContainsFunc(w.must, func(l string) bool { return strings.HasPrefix(l, "twin "+st.name+" fails") })
		if st.code != "" && !allowed {
			t.Errorf("the repaired twin: %s: %s", st, st.text)
		}
	}
	for _, f := range s.findings {
		allowed := slices.ContainsFunc(w.must, func(l string) bool { return strings.HasPrefix(l, "twin finding "+f.Code) })
		if f.Severity != trace.SeverityNote && !allowed {
			t.Errorf("the repaired twin: %s: %s", f.Code, f.Message)
		}
	}
}

// holds returns what is wrong with a line of must.
func (s *session) holds(p *played, verb, rest string) string {
	switch verb {
	case "finding":
		code, text, _ := strings.Cut(rest, " ")
		if !s.has(code, text) {
			return "no such finding"
		}
		return ""
	case "none":
		if s.has(rest, "") {
			return "there is one"
		}
		return ""
	case "came":
		method, n, _ := strings.Cut(rest, " ")
		if got := p.w.Came(method); strconv.Itoa(got) != n {
			return fmt.Sprintf("it came %d times", got)
		}
		return ""
	case "sent":
		if !strings.Contains(string(s.sent), rest) {
			return "it was not sent"
		}
		return ""
	case "took":
		method, least, _ := strings.Cut(rest, " ")
		if d, err := time.ParseDuration(least); err != nil || s.took[method] < d {
			return fmt.Sprintf("it took %v", s.took[method])
		}
		return ""
	case "never":
		if strings.Contains(string(s.sent), rest) {
			return "it was sent"
		}
		return ""
	case "header":
		if !slices.Contains(s.headers, rest) {
			return "no POST had it"
		}
		return ""
	case "raw":
		if !strings.Contains(string(s.raw), rest) {
			return "the trace lacks it"
		}
		return ""
	}
	want, text, _ := strings.Cut(rest, " ")
	for _, st := range s.steps {
		if st.name == verb {
			if (st.code == "") != (want == "ok") || !strings.Contains(st.code+" "+st.text, text) {
				return fmt.Sprintf("it is %s: %s", st, st.text)
			}
			return ""
		}
	}
	return "there was no such step"
}

// wildTime is how long all of it may take.
const wildTime = 60 * time.Second

// TestWild plays every case of testdata/wild and its repaired twin. It is not beside other tests: it takes the time of verdicts, and of the whole.
func TestWild(t *testing.T) {
	began := time.Now()
	t.Cleanup(func() { // after all of them
		took := time.Since(began)
		t.Logf("all of it took %v", took.Round(time.Millisecond))
		if took > slowness*wildTime {
			t.Errorf("all of it took %v, more than %v", took, slowness*wildTime)
		}
	})
	for _, w := range loadWild(t) {
		for _, transport := range w.transports {
			t.Run(w.id+"/"+transport, func(t *testing.T) {
				w.beside(t)
				p := startWild(t, w.c.Server, transport)
				defer p.close()
				w.check(t, w.playOurs(t, p), p, false)
			})
			t.Run(w.id+"/"+transport+"/twin", func(t *testing.T) {
				w.beside(t)
				p := startWild(t, w.c.Twin, transport)
				defer p.close()
				w.check(t, w.playOurs(t, p), p, true)
			})
		}
	}
}

// beside lets the case run beside others, unless it must be alone.
func (w *wildCase) beside(t *testing.T) {
	if !w.alone {
		t.Parallel()
	}
}

// verdictTime is the bound of this case: large payloads are slower under the race detector.
func (w *wildCase) verdictTime() time.Duration {
	if w.alone {
		return slowness * verdictTime
	}
	return verdictTime
}
