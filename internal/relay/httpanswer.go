package relay

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// receive relays the answer.
func (x *exchange) receive() {
	defer x.resp.Body.Close()
	x.got = &trace.HTTPInfo{Exchange: x.sent.Exchange, Method: x.in.Method, URL: x.sent.URL, Status: x.resp.StatusCode, Header: recorded(answerHeader(x.resp), "")}
	x.bindSession()
	out := x.w.Header()
	maps.Copy(out, endToEnd(x.resp.Header))
	media, _, _ := strings.Cut(x.resp.Header.Get("Content-Type"), ";")
	encoded := x.resp.Header.Get("Content-Encoding")
	var err error
	switch {
	case encoded != "" && !strings.EqualFold(encoded, "identity") && x.p.r.policy.Load() != nil:
		x.callFailed("protocol_error", "the answer has Content-Encoding "+encoded+", which the request did not accept")
		clear(out)
		http.Error(x.w, "m3: the server's answer has Content-Encoding "+encoded+", which was not accepted", http.StatusBadGateway)
		return
	case strings.EqualFold(strings.TrimSpace(media), "text/event-stream") && (encoded == "" || strings.EqualFold(encoded, "identity")):
		err = x.events()
	default:
		err = x.single()
	}
	if x.in.Method == http.MethodDelete && x.resp.StatusCode/100 == 2 {
		x.p.unbind(x.in.Header.Get(headerSession))
		x.c.close(nil)
	}
	if err != nil {
		kind := "transport_error"
		if x.in.Context().Err() != nil {
			kind, err = "cancelled", fmt.Errorf("the agent ended the request before its answer")
		}
		x.callFailed(kind, err.Error())
		panic(http.ErrAbortHandler) // the agent sees that the answer was cut off
	}
}

// answerHeader is the header of an answer as it was on the wire: net/http takes these two out.
func answerHeader(resp *http.Response) http.Header {
	h := resp.Header.Clone()
	if len(resp.TransferEncoding) > 0 {
		h["Transfer-Encoding"] = resp.TransferEncoding
	}
	if _, ok := h["Content-Length"]; !ok && resp.ContentLength > 0 {
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	return h
}

// bindSession notes the session that an answer to initialize begins.
func (x *exchange) bindSession() {
	if id := x.resp.Header.Get(headerSession); id != "" && x.method == "initialize" && x.resp.StatusCode/100 == 2 {
		x.p.bind(x.c, id)
	}
}

// frame returns a frame of the answer.
func (x *exchange) frame(framing trace.Framing) wire.Frame {
	return wire.Frame{Direction: trace.ServerToClient, Framing: framing, Time: time.Now(), HTTP: x.got, For: x.id}
}

// events relays an event stream.
func (x *exchange) events() error {
	x.w.Header().Del("Content-Length") // events may become shorter
	x.w.WriteHeader(x.resp.StatusCode)
	flush := http.NewResponseController(x.w).Flush
	_ = flush() // the agent waits for the headers
	var broken error
	over := false
	write := func(b []byte) {
		if broken == nil {
			_, broken = x.w.Write(b)
		}
	}
	if x.answer != nil {
		write(fmt.Appendf(nil, "event: message\ndata: %s\n\n", x.answer))
		_ = flush()
	}
	parser := wire.NewEvents(x.p.r.cfg.MaxFrame, func(kept, more []byte) {
		if !over {
			write(kept)
		}
		over = true
		write(more)
	})
	take := func(ev *wire.Frame) {
		f := x.frame(trace.FramingSSE)
		f.Raw, f.Body, f.Event, f.Dropped, f.Tail, f.Partial = ev.Raw, ev.Body, ev.Event, ev.Dropped, ev.Tail, ev.Partial
		at := x.at
		if x.in.Method == http.MethodGet {
			at = x.p.r.scope() // a stream outlives the turn that opened it
		}
		p := x.c.fromServer(&f, at)
		if !over {
			write(p.forward)
		}
		over = false
		if broken == nil {
			broken = flush()
			x.c.forwarded(&p)
		}
	}
	buf := make([]byte, httpBuffer)
	frames := 0
	for {
		n, err := x.resp.Body.Read(buf)
		frames += n
		x.c.read.Add(int64(n))
		parser.Feed(buf[:n], take)
		if broken != nil {
			return fmt.Errorf("the agent does not read any more: %w", broken)
		}
		if err == nil {
			continue
		}
		parser.End(take)
		if frames == 0 {
			x.empty()
		}
		if err == io.EOF {
			return nil
		}
		return fmt.Errorf("%w: %w", errCut, err)
	}
}

// single relays a body, which is one frame.
func (x *exchange) single() error {
	limit := x.p.r.cfg.MaxFrame
	b, err := io.ReadAll(io.LimitReader(x.resp.Body, limit))
	x.c.read.Add(int64(len(b)))
	f := x.frame(trace.FramingBody)
	f.Raw, f.Body, f.Partial = b, b, err != nil
	if err == nil && int64(len(b)) == limit {
		return x.large(&f)
	}
	if len(b) == 0 {
		x.empty()
	}
	out := passed{}
	if len(b) > 0 {
		out = x.c.fromServer(&f, x.at)
	}
	body := x.merged(out.forward)
	switch {
	case len(body) > 0 || x.resp.ContentLength == 0:
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if err != nil {
		x.w.Header().Del("Content-Length")
	}
	if x.in.Method == http.MethodHead || !bodyAllowed(x.resp.StatusCode) {
		x.w.Header().Del("Content-Length")
		if v := x.resp.Header.Get("Content-Length"); v != "" {
			x.w.Header().Set("Content-Length", v)
		}
		body = nil
	}
	x.w.WriteHeader(x.status())
	if _, werr := x.w.Write(body); werr != nil && len(body) > 0 {
		return werr
	}
	if err != nil {
		_ = http.NewResponseController(x.w).Flush()
		return fmt.Errorf("%w: %w", errCut, err)
	}
	x.c.forwarded(&out)
	return nil
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// status is that of the answer; one that had no body and gets the relay's own is a 200.
func (x *exchange) status() int {
	if x.answer != nil && x.resp.StatusCode/100 == 2 {
		return http.StatusOK
	}
	return x.resp.StatusCode
}

// merged adds the answers for what of a batch was refused.
func (x *exchange) merged(body []byte) []byte {
	if x.answer == nil || x.resp.StatusCode/100 != 2 {
		return body
	}
	x.w.Header().Set("Content-Type", "application/json")
	inside := bytes.TrimSpace(body)
	if len(inside) == 0 {
		return x.answer
	}
	if inside[0] == '[' && inside[len(inside)-1] == ']' {
		inside = bytes.TrimSpace(inside[1 : len(inside)-1])
	}
	out := append(bytes.Clone(x.answer[:len(x.answer)-1]), ',')
	return append(append(out, inside...), ']')
}

// large relays a body over the cap: its beginning is kept.
func (x *exchange) large(f *wire.Frame) error {
	x.w.WriteHeader(x.resp.StatusCode)
	if _, err := x.w.Write(f.Raw); err != nil {
		return err
	}
	n, err := io.Copy(x.w, x.resp.Body)
	x.c.read.Add(n)
	f.Dropped, f.Partial = n, err != nil
	x.c.fromServer(f, x.at)
	return err
}

// empty records an answer without a body.
func (x *exchange) empty() {
	f := x.frame(trace.FramingBody)
	e := x.c.frameEntry(&f, trace.KindHTTPExchange, x.at)
	e.ev.RPCID = x.id
	x.c.r.queue.put(e)
}
