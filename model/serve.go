package model

import (
	"bytes"
	"compress/gzip"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

const (
	// maxBody bounds a request's body. A conversation with a result of 24 MB stays below.
	maxBody = 96 << 20
	// keptBody is how much is recorded of a body that is not JSON.
	keptBody = 64 << 10
)

// exchange is one request on its way.
type exchange struct {
	p       *provider
	w       http.ResponseWriter
	r       *http.Request
	path    string // without /v1
	body    []byte
	started time.Time
	events  int // sent of a stream
	rec     harness.ModelExchange
}

// ServeHTTP answers one request of the agent.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		panic(http.ErrAbortHandler) // the provider is closed: there is nobody to answer
	}
	defer p.active.Done()
	path := strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/v1")
	x := &exchange{p: p, w: w, r: r, path: path, started: time.Now()}
	x.rec = harness.ModelExchange{Dialect: p.dialect.kind(), Role: RoleUnknown, Path: p.scrub(r.URL.RequestURI()), Started: x.started}
	defer x.done() // also when the connection is cut by a panic
	x.serve()
}

// done records the exchange.
func (x *exchange) done() {
	x.rec.Elapsed = time.Since(x.started)
	x.rec.Request = x.p.kept(x.body)
	if x.p.record != nil {
		x.p.record(&x.rec)
	}
}

func (x *exchange) serve() {
	if x.probe() {
		return
	}
	if !x.p.knows(x.r.Header) {
		x.p.script.note(Problem{Kind: ProblemKey, Message: fmt.Sprintf("a request for %s came without the key of this execution", x.path)})
		x.refuse(http.StatusUnauthorized, Failure{Message: "The key is not that of this execution."})
		return
	}
	if status, err := x.read(); errors.Is(err, errGone) {
		x.gone()
		return
	} else if err != nil {
		x.bad(status, err.Error())
		return
	}
	switch {
	case x.r.Method == http.MethodPost && x.path == x.p.dialect.path():
		x.answer()
	case x.r.Method == http.MethodPost && x.path == x.p.dialect.path()+"/count_tokens" && x.p.dialect.kind() == harness.AnthropicMessages:
		x.rec.Role = RoleCountTokens
		x.json(http.StatusOK, object{"input_tokens": len(x.body)/4 + 1})
	case x.r.Method == http.MethodGet && (x.path == "/models" || strings.HasPrefix(x.path, "/models/")):
		x.models()
	default:
		x.bad(http.StatusNotFound, fmt.Sprintf("the agent asked for %s %s, which a provider of %s does not have", x.r.Method, x.rec.Path, x.p.dialect.kind()))
	}
}

// probe answers what agents ask to see whether a provider is there. They send no key with it.
func (x *exchange) probe() bool {
	get := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
	switch {
	case get && x.path == "":
		x.rec.Role = RoleProbe
		x.refuse(http.StatusNotFound, Failure{Message: "There is nothing here."})
	case get && x.path == "/api/hello":
		x.rec.Role = RoleProbe
		x.json(http.StatusOK, object{"message": "hello"})
	default:
		return false
	}
	return true
}

func (x *exchange) models() {
	x.rec.Role = RoleModels
	all := x.p.dialect.models(x.p.name)
	if x.path == "/models" {
		x.json(http.StatusOK, all)
		return
	}
	data, _ := all.(object)["data"].([]any)
	one, _ := data[0].(object)
	if strings.TrimPrefix(x.path, "/models/") != one["id"] {
		x.refuse(http.StatusNotFound, Failure{Message: "There is no such model."})
		return
	}
	x.json(http.StatusOK, one)
}

// knows reports whether a request carries the execution's key.
func (p *provider) knows(h http.Header) bool {
	bearer, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	for _, key := range []string{bearer, h.Get("X-Api-Key")} {
		if subtle.ConstantTimeCompare([]byte(key), []byte(p.key)) == 1 {
			return true
		}
	}
	return false
}

// read reads the body, within its limit.
func (x *exchange) read() (status int, err error) {
	var in io.Reader = x.r.Body
	switch enc := x.r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		if in, err = gzip.NewReader(x.r.Body); err != nil {
			return http.StatusBadRequest, fmt.Errorf("the body is not gzip: %w", err)
		}
	default:
		return http.StatusUnsupportedMediaType, fmt.Errorf("the body is compressed as %q, which the provider does not read", enc)
	}
	var buf bytes.Buffer
	if n := x.r.ContentLength; n > 0 && n <= 1<<20 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(in, maxBody+1))
	switch {
	case err != nil && (x.r.Context().Err() != nil || in == io.Reader(x.r.Body)): // on loopback a body breaks off only when its sender does
		return 0, errGone
	case err != nil:
		return http.StatusBadRequest, fmt.Errorf("the body could not be read: %w", err)
	case n > maxBody:
		return http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d MiB", maxBody>>20)
	}
	x.body = buf.Bytes()
	return 0, nil
}

// kept is a body as it is recorded: without the key, and a text where it is not JSON.
func (p *provider) kept(body []byte) trace.JSON {
	if len(body) == 0 {
		return nil
	}
	if bytes.Contains(body, []byte(p.key)) {
		body = bytes.ReplaceAll(body, []byte(p.key), []byte(redacted))
	}
	if json.Valid(body) {
		return body
	}
	text, err := encode(string(body[:min(len(body), keptBody)]))
	if err != nil {
		return nil
	}
	return text
}

const redacted = "[REDACTED]"

func (p *provider) scrub(s string) string { return strings.ReplaceAll(s, p.key, redacted) }

// bad refuses a request that is none, and notes it.
func (x *exchange) bad(status int, msg string) {
	x.p.script.note(Problem{Kind: ProblemRequest, Message: msg})
	x.refuse(status, Failure{Message: msg})
}

// refuse answers with an error in the form of the dialect. The header asks the agent not to try again.
func (x *exchange) refuse(status int, f Failure) {
	x.rec.Error = f.Message
	x.w.Header().Set("X-Should-Retry", "false")
	x.fail(status, f)
}

// fail answers with an error in the form of the dialect.
func (x *exchange) fail(status int, f Failure) {
	id := "req_m3"
	f = x.p.dialect.fill(status, f)
	x.w.Header().Set(x.p.dialect.requestID(), id)
	x.json(status, x.p.dialect.body(f, id))
}

// json answers with a body, and records it.
func (x *exchange) json(status int, v any) {
	b, err := encode(v)
	if err != nil { // only of what the script has: arguments that are no JSON were made texts
		b = []byte("{}")
	}
	x.rec.Status, x.rec.Response = status, b
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return
	}
	if _, err := x.w.Write(b); err != nil {
		x.gone()
	}
}

// errGone is why an answer ends before its time without the script's saying so.
var errGone = errors.New("the agent closed the connection before the answer was complete")

// gone notes that the agent did not wait for the answer.
func (x *exchange) gone() {
	if x.rec.Error != "" {
		return
	}
	x.rec.Error = errGone.Error()
	if x.p.ctx.Err() != nil {
		x.rec.Error = "the execution ended before the answer was complete"
	}
}
