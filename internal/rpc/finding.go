package rpc

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// Code is the stable name of a kind of finding.
type Code string

// The findings of this package.
const (
	StdoutNoise              Code = "stdout-noise"
	NotJSONRPC               Code = "not-jsonrpc"
	MalformedJSON            Code = "malformed-json"
	MultiLine                Code = "multi-line-message"
	InvalidUTF8              Code = "invalid-utf8"
	DeepNesting              Code = "deep-nesting"
	BlankLine                Code = "blank-line"
	CRLF                     Code = "crlf"
	PartialLine              Code = "partial-line"
	FrameTooLarge            Code = "frame-too-large"
	MissingJSONRPC           Code = "missing-jsonrpc"
	WrongJSONRPC             Code = "wrong-jsonrpc"
	DuplicateMember          Code = "duplicate-member"
	MixedMessage             Code = "mixed-message"
	BadMethod                Code = "bad-method"
	BadParams                Code = "bad-params"
	BadID                    Code = "bad-id"
	NullID                   Code = "null-id"
	IDTypeChanged            Code = "id-type-changed"
	IDRewritten              Code = "id-rewritten"
	UnknownID                Code = "unknown-id"
	DuplicateResponse        Code = "duplicate-response"
	LateResponse             Code = "late-response"
	ResultAndError           Code = "result-and-error"
	NoResultOrError          Code = "no-result-or-error"
	BadResult                Code = "bad-result"
	BadErrorObject           Code = "bad-error-object"
	DuplicateRequestID       Code = "duplicate-request-id"
	BatchNotAllowed          Code = "batch-not-allowed"
	WriteFailed              Code = "write-failed"
	ContentEncoding          Code = "content-encoding"
	ContentType              Code = "content-type"
	SSEEventName             Code = "sse-event-name"
	SSEUnterminated          Code = "sse-unterminated-event"
	StreamNoAnswer           Code = "stream-without-answer"
	EmptyAnswer              Code = "empty-answer"
	AcceptedStatus           Code = "accepted-status"
	RefusedMessage           Code = "refused-message"
	GetStreamRefused         Code = "get-stream-refused"
	RedirectFollowed         Code = "redirect-followed"
	RedirectRefused          Code = "redirect-refused"
	StreamResumed            Code = "stream-resumed"
	ExchangeFailed           Code = "exchange-failed"
	BadEndpoint              Code = "bad-endpoint"
	EndpointPrefixLost       Code = "endpoint-prefix-lost"
	EndpointRepeated         Code = "endpoint-repeated"
	AnswerInPost             Code = "answer-in-post"
	ChallengeMissing         Code = "challenge-missing"
	ChallengeWithoutMetadata Code = "challenge-without-metadata"
)

// FindingKind says what a code stands for.
type FindingKind struct {
	Code     Code
	Severity trace.Severity
	// Clause is the place in the specification (MCP unless it says otherwise), empty where none speaks of it.
	Clause string
	// Meaning is one line for people.
	Meaning string
}

const (
	clauseStdio  = "basic/transports#stdio"
	clauseHTTP   = "basic/transports#streamable-http"
	clauseBasic  = "basic#messages"
	clauseBatch  = "2025-03-26 basic#batching"
	clauseRPC    = "JSON-RPC 2.0 section 5"
	clauseJSON   = "RFC 8259"
	clauseSSE    = "WHATWG HTML 9.2"
	clauseAuth   = "RFC 9728 section 5.1"
	clauseLegacy = "2024-11-05 basic/transports#http-with-sse"
)

// Findings lists every kind of finding of this package. It must not be changed.
var Findings = []FindingKind{
	{StdoutNoise, trace.SeverityError, clauseStdio, "lines on stdout that are no messages; lines in a row are one finding"},
	{NotJSONRPC, trace.SeverityError, clauseBasic, "JSON that is no JSON-RPC message: a log line, a scalar, an empty array, an answer without its envelope"},
	{MalformedJSON, trace.SeverityError, clauseJSON, "a message that is not valid JSON"},
	{MultiLine, trace.SeverityError, clauseStdio, "one message broken over several lines"},
	{InvalidUTF8, trace.SeverityError, clauseStdio, "a message with bytes that are not UTF-8"},
	{DeepNesting, trace.SeverityWarning, "", "a message nested more deeply than common parsers follow"},
	{BlankLine, trace.SeverityNote, clauseStdio, "blank lines between messages; told once a connection"},
	{CRLF, trace.SeverityNote, clauseStdio, "lines that end with CR LF; told once a connection"},
	{PartialLine, trace.SeverityError, clauseStdio, "the stream ended in the middle of a line"},
	{FrameTooLarge, trace.SeverityError, "", "a message over the frame cap; what is over it was read and dropped"},
	{MissingJSONRPC, trace.SeverityError, clauseBasic, "a message without its jsonrpc member"},
	{WrongJSONRPC, trace.SeverityError, clauseBasic, "a message whose jsonrpc member is not \"2.0\""},
	{DuplicateMember, trace.SeverityWarning, clauseJSON, "a member of the envelope that stands twice; the last one counts"},
	{MixedMessage, trace.SeverityError, clauseBasic, "a message with a method and also a result or an error"},
	{BadMethod, trace.SeverityError, clauseBasic, "a method that is no string"},
	{BadParams, trace.SeverityError, clauseBasic, "params that are no object"},
	{BadID, trace.SeverityError, clauseBasic, "an id that is neither a string nor an integer"},
	{NullID, trace.SeverityError, clauseBasic, "an id that is null"},
	{IDTypeChanged, trace.SeverityError, clauseBasic, "an answer whose id has another JSON type than its request's: \"1\" for 1"},
	{IDRewritten, trace.SeverityWarning, clauseBasic, "an answer whose id is its request's, written differently: 1.0 for 1"},
	{UnknownID, trace.SeverityError, clauseBasic, "an answer to a request that was never made"},
	{DuplicateResponse, trace.SeverityError, clauseBasic, "another answer to a request that was answered before; the first one counts"},
	{LateResponse, trace.SeverityNote, "basic/utilities/cancellation", "an answer to a request that was cancelled or had timed out"},
	{ResultAndError, trace.SeverityError, clauseRPC, "an answer with both a result and an error"},
	{NoResultOrError, trace.SeverityError, clauseRPC, "an answer with neither a result nor an error"},
	{BadResult, trace.SeverityError, clauseBasic, "a result that is no object"},
	{BadErrorObject, trace.SeverityError, clauseRPC, "an error that is no object with an integer code and a message"},
	{DuplicateRequestID, trace.SeverityError, clauseBasic, "a request of the server under an id that it used before and that is not answered yet"},
	{BatchNotAllowed, trace.SeverityError, clauseBatch, "a batch; only 2025-03-26 has them"},
	{WriteFailed, trace.SeverityError, "", "a message of ours that could not be written whole"},
	{ContentEncoding, trace.SeverityError, "RFC 9110 8.4", "a body that does not have the content encoding that its header names"},
	{ContentType, trace.SeverityWarning, clauseHTTP, "an answer whose Content-Type is neither application/json nor text/event-stream"},
	{SSEEventName, trace.SeverityNote, clauseSSE, "an event under another name than message; it is skipped"},
	{SSEUnterminated, trace.SeverityError, clauseSSE, "an event stream that ended inside an event, which a client must discard"},
	{StreamNoAnswer, trace.SeverityError, clauseHTTP, "an event stream that ended without the answer to its request"},
	{EmptyAnswer, trace.SeverityError, clauseHTTP, "a request that got a success status and no answer"},
	{AcceptedStatus, trace.SeverityWarning, clauseHTTP, "a notification or response that was accepted with another status than 202"},
	{RefusedMessage, trace.SeverityError, clauseHTTP, "a notification or response that was answered with an error status"},
	{GetStreamRefused, trace.SeverityWarning, clauseHTTP, "the optional GET stream was refused with another status than 405"},
	{RedirectFollowed, trace.SeverityNote, clauseHTTP, "a redirect to another URL of the same origin was followed"},
	{RedirectRefused, trace.SeverityError, clauseHTTP, "a redirect that cannot be followed safely"},
	{StreamResumed, trace.SeverityNote, clauseHTTP, "an event stream that ended was asked for again"},
	{ExchangeFailed, trace.SeverityError, "", "an HTTP exchange that broke: no answer, no HTTP, a cut body"},
	{BadEndpoint, trace.SeverityError, clauseLegacy, "an event stream of HTTP+SSE that names no endpoint, or one that must not be used: no URI, or of another origin"},
	{EndpointPrefixLost, trace.SeverityError, clauseLegacy, "an endpoint that was answered with 404 and lacks the path prefix of its event stream"},
	{EndpointRepeated, trace.SeverityWarning, clauseLegacy, "an endpoint event after the first, which is the one that counts"},
	{ChallengeMissing, trace.SeverityError, clauseAuth, "a 401 without a WWW-Authenticate header"},
	{ChallengeWithoutMetadata, trace.SeverityNote, clauseAuth, "a 401 whose challenge does not say where the metadata of the protected resource is"},
	{AnswerInPost, trace.SeverityError, clauseLegacy, "a message in the answer to a POST of HTTP+SSE; messages of the server belong on the event stream"},
}

// KindOf returns what a code stands for.
func KindOf(code Code) (FindingKind, bool) {
	for _, k := range Findings {
		if k.Code == code {
			return k, true
		}
	}
	return FindingKind{}, false
}

// where is what a finding is about.
type where struct {
	seq    int64 // the event, or -1
	offset int64 // of the frame in its stream, or -1
	id     trace.RPCID
}

func (c *Conn) find(code Code, at where, format string, args ...any) {
	k, _ := KindOf(code)
	c.cfg.Tape.Find(trace.Finding{
		Code: string(code), Severity: k.Severity, Clause: k.Clause, Message: fmt.Sprintf(format, args...),
		Sequence: at.seq, Offset: at.offset, RPCID: at.id,
	})
}

const quoteBytes = 120

// quote shows the beginning of b: as it is when that can be read, else as a Go string.
func quote(b []byte) string {
	more := ""
	if len(b) > quoteBytes {
		n := quoteBytes
		for n > quoteBytes-utf8.UTFMax && !utf8.RuneStart(b[n]) {
			n--
		}
		b, more = b[:n], "…"
	}
	if len(b) == 0 || !readable(b) {
		return fmt.Sprintf("%q", b) + more
	}
	return string(b) + more
}

func readable(b []byte) bool {
	if !utf8.Valid(b) || b[0] == ' ' || b[len(b)-1] == ' ' {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
