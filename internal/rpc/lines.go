package rpc

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	maxJoined = 4 << 20 // of a message that is broken over lines
	maxBurst  = 400     // bytes of noise that a finding shows
	// tellAfter is how long lines may wait for what follows them before they are told.
	tellAfter = 250 * time.Millisecond
	maxGlued  = 16 // places in a line where a message may begin
)

// lines is what a stream's lines leave open: noise goes on, a broken message may be continued by the next line.
type lines struct {
	open   atomic.Bool // noise or joined has something
	mu     sync.Mutex
	noise  burst
	joined joined
	timer  *time.Timer // tells what is open when nothing follows
	crlf   bool        // told already
	blank  bool
}

// burst is noise in a row.
type burst struct {
	at    where
	lines int
	bytes int64
	text  []byte
}

// joined is a message that did not end with its line.
type joined struct {
	at     where
	text   []byte
	lines  int
	depth  int
	inText bool
	err    syntaxError
}

// line takes a line of a stream.
func (c *Conn) line(f *wire.Frame) {
	body := bytes.TrimSpace(f.Body)
	if len(body) == 0 {
		c.blankLine(f)
		return
	}
	r, one, batch, err := c.read(f.Body)
	defer c.readers.Put(r)
	switch {
	case err == nil && (batch != nil || one.isMessage() || !c.isJoining()):
		c.flushLines()
		seq := c.messages(f, one, batch)
		if bytes.HasSuffix(f.Raw, []byte("\r\n")) {
			c.once(&c.lines.crlf, CRLF, where{seq, f.Offset, ""}, "a line ends with CR LF")
		}
		if f.Partial {
			c.find(PartialLine, where{seq, f.Offset, ""}, "the last message has no line break after it: a client that reads lines never sees it")
		}
	case f.Partial:
		c.partialLine(f)
	case c.joins(f):
	case err != nil && err.incomplete && looksLikeJSON(f.Body):
		c.begin(f, err)
	case looksLikeJSON(f.Body):
		c.brokenLine(f, err)
	case c.glued(f):
	default:
		c.noiseLine(f)
	}
}

// glued takes a line that is a message behind other text: something was written without a line break. It reports whether the line is one.
func (c *Conn) glued(f *wire.Frame) bool {
	for from, n := 0, 0; n < maxGlued; n++ {
		i := bytes.Index(f.Body[from:], []byte(`{"`))
		if i < 0 {
			return false
		}
		from += i
		r, one, batch, err := c.read(f.Body[from:])
		if err == nil && batch == nil && one.jsonrpc != nil && one.isMessage() {
			c.flushLines()
			seq := c.frameEvent(f, trace.KindMCPMalformed)
			c.find(StdoutNoise, where{seq, f.Offset, ""}, "text before a message on its line: %s", quote(f.Body))
			if k := c.callOf(trace.RPCID(one.id)); k != nil && one.isAnswer() {
				c.failNow(k, &CallError{Kind: KindProtocol, Sequence: seq, Reason: "the answer stands behind other text on its line: " + quote(f.Body)})
			}
			c.readers.Put(r)
			return true
		}
		c.readers.Put(r)
		from += 2
	}
	return false
}

// tellSoon makes the lines that are open told when nothing follows. Call it with the lock held.
func (l *lines) tellSoon(tell func()) {
	if l.timer == nil {
		l.timer = time.AfterFunc(tellAfter, tell)
	} else {
		l.timer.Reset(tellAfter)
	}
}

// once finds something that is told one time a connection.
func (c *Conn) once(told *bool, code Code, at where, text string) {
	c.lines.mu.Lock()
	first := !*told
	*told = true
	c.lines.mu.Unlock()
	if first {
		c.find(code, at, "%s", text)
	}
}

func (c *Conn) blankLine(f *wire.Frame) {
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	c.once(&c.lines.blank, BlankLine, where{seq, f.Offset, ""}, "a blank line between messages")
}

// partialLine takes the last line of a stream that ended inside it.
func (c *Conn) partialLine(f *wire.Frame) {
	c.flushLines()
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	c.find(PartialLine, where{seq, f.Offset, ""}, "the stream ended in the middle of a line, after %d bytes of it: %s", len(f.Raw), quote(f.Body))
	if k := c.recognise(f, fragmentOf(f.Body, nil)); k != nil {
		c.failNow(k, &CallError{Kind: KindTransport, Sequence: seq, Reason: fmt.Sprintf("the server's output ended in the middle of the answer, after %d bytes of it", len(f.Raw))})
	}
}

// noiseLine takes a line that was never meant to be a message.
func (c *Conn) noiseLine(f *wire.Frame) {
	c.lines.mu.Lock() // over the recording too: who writes next must find the burst
	defer c.lines.mu.Unlock()
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	c.lines.open.Store(true)
	b := &c.lines.noise
	if b.lines == 0 {
		b.at = where{seq, f.Offset, ""}
		c.lines.tellSoon(c.flushLines)
	}
	b.lines++
	b.bytes += int64(len(f.Raw))
	if room := maxBurst - len(b.text); room > 0 {
		b.text = append(b.text, f.Raw[:min(room, len(f.Raw))]...)
	}
}

// brokenLine takes a line that was meant to be a message and is no JSON.
func (c *Conn) brokenLine(f *wire.Frame, err *syntaxError) {
	c.flushLines()
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	c.find(MalformedJSON, where{seq, f.Offset, ""}, "%v: %s", err, quote(f.Body))
	c.failBroken(f, seq, err)
}

func (c *Conn) failBroken(f *wire.Frame, seq int64, err *syntaxError) {
	if k := c.recognise(f, fragmentOf(f.Body, nil)); k != nil {
		c.failNow(k, &CallError{Kind: KindProtocol, Sequence: seq, Reason: fmt.Sprintf("the answer is not valid JSON: %v", err)})
	}
}

// begin takes a line that is the beginning of a message.
func (c *Conn) begin(f *wire.Frame, err *syntaxError) {
	c.flushLines()
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	c.failBroken(f, seq, err)
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	c.lines.open.Store(true)
	j := &c.lines.joined
	*j = joined{at: where{seq, f.Offset, ""}, lines: 1, err: *err}
	j.add(f.Body)
	c.lines.tellSoon(c.flushLines)
}

func (c *Conn) isJoining() bool {
	if !c.lines.open.Load() {
		return false
	}
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	return c.lines.joined.lines > 0
}

// joins reports whether the line continues a broken message, and records it then.
func (c *Conn) joins(f *wire.Frame) bool {
	if !c.isJoining() {
		return false
	}
	c.frameEvent(f, trace.KindMCPMalformed)
	c.lines.mu.Lock()
	j := &c.lines.joined
	j.lines++
	j.text = append(j.text, '\n')
	j.add(f.Body)
	c.lines.tellSoon(c.flushLines)
	var whole *joined
	switch {
	case len(j.text) > maxJoined || j.depth < 0:
		defer c.flushLines()
	case j.depth == 0 && !j.inText:
		whole = &joined{at: j.at, text: j.text, lines: j.lines, err: j.err}
		*j = joined{}
	}
	c.lines.mu.Unlock()
	if whole != nil {
		c.whole(whole)
	}
	return true
}

// add follows the nesting through another line. A quote outside of the nesting of a message does not occur.
func (j *joined) add(line []byte) {
	j.text = append(j.text, line...)
	for i := 0; i < len(line); i++ {
		switch ch := line[i]; {
		case j.inText && ch == '\\':
			i++
		case ch == '"':
			j.inText = !j.inText
		case j.inText:
		case ch == '{' || ch == '[':
			j.depth++
		case ch == '}' || ch == ']':
			j.depth--
		}
	}
}

// whole takes a message that was put together from lines.
func (c *Conn) whole(j *joined) {
	var r reader
	one, batch, err := r.read(j.text, true)
	if err != nil {
		c.find(MalformedJSON, j.at, "%v, in %d lines that belong together: %s", err, j.lines, quote(j.text))
		return
	}
	c.find(MultiLine, j.at, "a message broken over %d lines: %s", j.lines, quote(bytes.Join(bytes.Fields(j.text), []byte(" "))))
	if batch == nil {
		batch = []message{*one}
	}
	for i := range batch {
		m := &batch[i]
		if m.method != nil || m.id == nil {
			continue
		}
		for _, id := range []trace.RPCID{trace.RPCID(m.id), otherType(m.id)} {
			if k := c.callOf(id); k != nil {
				c.failNow(k, &CallError{Kind: KindProtocol, Sequence: j.at.seq, Reason: fmt.Sprintf("the answer is broken over %d lines", j.lines)})
			}
		}
	}
}

// flushLines tells what the lines so far leave open. It is called before whatever ends a row of lines: a message, a write of ours, the end of a
// call or of the stream.
func (c *Conn) flushLines() {
	if c.lines.open.Load() {
		c.tellLines()
	}
}

func (c *Conn) tellLines() {
	c.lines.mu.Lock()
	noise, j := c.lines.noise, c.lines.joined
	c.lines.noise, c.lines.joined = burst{}, joined{}
	if c.lines.timer != nil {
		c.lines.timer.Stop()
	}
	c.lines.open.Store(false)
	c.lines.mu.Unlock()
	if noise.lines > 0 {
		c.find(StdoutNoise, noise.at, "%s on stdout, no message: %s", plural(noise.lines, noise.bytes), noise.show())
	}
	if j.lines > 0 {
		c.find(MalformedJSON, j.at, "%v: %s", &j.err, quote(j.text))
	}
}

func (b *burst) show() string {
	text := bytes.TrimRight(b.text, "\r\n")
	if b.bytes > int64(len(b.text)) {
		return fmt.Sprintf("%q…", text)
	}
	if b.lines == 1 && len(text) > 0 && readable(text) {
		return string(text)
	}
	return fmt.Sprintf("%q", text)
}

func plural(lines int, n int64) string {
	if lines == 1 {
		return fmt.Sprintf("a line of %d bytes", n)
	}
	return fmt.Sprintf("%d lines (%d bytes)", lines, n)
}
