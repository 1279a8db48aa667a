package model

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// answer answers a request for an answer.
func (x *exchange) answer() {
	req, err := x.p.dialect.parse(x.body)
	if err != nil {
		x.bad(http.StatusBadRequest, fmt.Sprintf("the agent's request for %s is none: %s", x.rec.Path, plain(err)))
		return
	}
	x.rec.Role = roleOf(req, x.r.Header)
	if x.rec.Role == RoleProbe {
		x.send(&taken{step: probeStep, id: "m3_probe"}, req)
		return
	}
	t, err := x.p.script.take(x.rec.Role, req, x.p.names)
	if err != nil {
		x.refuse(http.StatusBadRequest, Failure{Message: err.Error()})
		return
	}
	x.rec.Step = t.label
	x.send(t, req)
}

// probeStep is the one token that a probe for quota asks for.
var probeStep = func() *Step { s := Say("ok").Stop(MaxTokens); return &s }()

// send sends the answer of a step, with its waits and its fault.
func (x *exchange) send(t *taken, req *request) {
	s := t.step
	if !x.wait(s.after) {
		return
	}
	if s.fault != nil {
		x.retryAfter(s.fault.RetryAfter)
	}
	if f := s.fault; f != nil && f.Kind == FailStatus {
		x.scripted(f)
		x.fail(f.Status, *f)
		return
	}
	a := answerOf(s, t.id, req, t.calls, func(i int) string { return x.p.dialect.callID(t.id, i) })
	x.w.Header().Set(x.p.dialect.requestID(), "req_"+t.id)
	if f := s.fault; f != nil && f.Kind == FailHang && len(a.parts) == 0 {
		x.hang(f)
		return
	}
	if req.stream {
		x.stream(a, s)
		return
	}
	x.whole(a, s.fault)
}

func (x *exchange) scripted(f *Failure) {
	what := string(f.Kind)
	if f.Kind == FailStatus {
		what = fmt.Sprintf("%s %d", f.Kind, f.Status)
	}
	x.rec.Error = "scripted fault: " + what
}

func (x *exchange) retryAfter(d time.Duration) {
	if d <= 0 {
		return
	}
	x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
	x.w.Header().Set("Retry-After-Ms", strconv.FormatInt(max(d.Milliseconds(), 1), 10))
}

// wait waits, and reports false when the agent or the execution ends before.
func (x *exchange) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		x.gone()
		return false
	}
}

// hang waits for the agent to give up, or for the end of the execution.
func (x *exchange) hang(f *Failure) {
	x.scripted(f)
	<-x.r.Context().Done()
	panic(http.ErrAbortHandler) // no end of the answer, as if the provider had gone
}

// cut cuts the connection.
func (x *exchange) cut(f *Failure) {
	x.scripted(f)
	panic(http.ErrAbortHandler)
}

// whole sends an answer without a stream.
func (x *exchange) whole(a *answer, f *Failure) {
	d := x.p.dialect
	if f == nil {
		x.json(http.StatusOK, d.whole(a))
		return
	}
	x.scripted(f)
	if f.Kind == FailError {
		status := f.Status
		if status == 0 {
			status = http.StatusInternalServerError
		}
		x.fail(status, *f)
		return
	}
	b, err := encode(d.whole(a))
	if err != nil {
		b = []byte("{}")
	}
	half := b[:len(b)/2]
	x.rec.Status, x.rec.Response = http.StatusOK, x.p.kept(half)
	x.w.Header().Set("Content-Type", "application/json")
	if f.Kind != FailMalformed {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	_, _ = x.w.Write(half) // the answer is to be broken anyway
	_ = http.NewResponseController(x.w).Flush()
	switch f.Kind {
	case FailHang:
		x.hang(f)
	case FailCut:
		x.cut(f)
	}
}

// stream sends an answer as events.
func (x *exchange) stream(a *answer, s *Step) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.Header().Set("Cache-Control", "no-cache")
	x.w.WriteHeader(http.StatusOK)
	x.rec.Status = http.StatusOK
	g := gather(a)
	defer func() { // also when the connection is cut by a panic
		if b, err := encode(x.p.dialect.whole(&g.got)); err == nil {
			x.rec.Response = b
		}
	}()
	var fault *Failure
	ok := true
	x.p.dialect.frames(a, func(f frame) bool {
		if f.end && s.fault != nil {
			fault = s.fault
			return false
		}
		if f.part >= 0 && !x.wait(s.pace) {
			ok = false
			return false
		}
		ok = x.event(f)
		if ok {
			g.add(f)
		}
		return ok
	})
	if fault != nil {
		x.breakOff(a, fault)
		return
	}
	g.got.complete = ok
}

// breakOff ends a stream with its fault.
func (x *exchange) breakOff(a *answer, f *Failure) {
	x.scripted(f)
	switch f.Kind {
	case FailHang:
		x.hang(f)
	case FailCut:
		x.cut(f)
	case FailMalformed:
		_, _ = x.w.Write([]byte(x.p.dialect.broken())) // whether it arrives changes nothing
	case FailError:
		x.event(x.p.dialect.failed(a, x.p.dialect.fill(http.StatusInternalServerError, *f), x.events))
	}
}

// event writes one event and sends it off. It reports false when the agent is gone.
func (x *exchange) event(f frame) bool {
	if f.data == nil {
		return true
	}
	data, ok := f.data.(rawData)
	if !ok {
		b, err := encode(f.data)
		if err != nil {
			b = []byte("{}")
		}
		data = rawData(b)
	}
	var buf bytes.Buffer
	if f.event != "" {
		buf.WriteString("event: " + f.event + "\n")
	}
	buf.WriteString("data: " + string(data) + "\n\n")
	_, err := x.w.Write(buf.Bytes())
	if err == nil {
		err = http.NewResponseController(x.w).Flush()
	}
	if err != nil {
		x.gone()
		return false
	}
	x.events++
	return true
}
