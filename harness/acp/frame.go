package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxLine is the longest line that is read, in bytes. A tool's result of 24 MB fits; an agent that never ends its line does not fill the memory.
const maxLine = 64 << 20

var errLineTooLong = fmt.Errorf("the agent sent a line of more than %d MiB", maxLine>>20)

// readLine returns the next line with its newline, in memory of its own; the last may have none. After errLineTooLong the reader is of no use.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return append(line, part...)[:limit], errLineTooLong
		}
		if line == nil && err == nil {
			return bytes.Clone(part), nil
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		default:
			return line, err
		}
	}
}

// frameKind says what a line is.
type frameKind int

const (
	frameOdd frameKind = iota // no message: the reason says why
	frameBlank
	frameRequest
	frameNotification
	frameResponse
)

// frame is a line taken apart; its members alias the line.
type frame struct {
	kind   frameKind
	id     raw // as it stood: 0, "a", 1.0
	method string
	params raw
	result raw
	err    *rpcError
	reason string
}

// rpcError is the error member of a response.
type rpcError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Data    raw    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

func odd(reason string) frame { return frame{kind: frameOdd, reason: reason} }

// parseFrame takes a line apart. It never fails: what is no message of JSON-RPC is frameOdd, with the reason.
func parseFrame(line []byte) frame {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return frame{kind: frameBlank}
	}
	if !json.Valid(line) {
		return odd("not_json")
	}
	if line[0] == '[' {
		return odd("batch")
	}
	m := raw(line).obj()
	if m == nil {
		return odd("not_an_object")
	}
	if m["jsonrpc"].str() != "2.0" {
		return odd("not_json_rpc")
	}
	f := frame{id: m["id"], params: m["params"]}
	if method, has := m["method"]; has {
		return f.called(method)
	}
	return f.answered(m)
}

// called completes a request or a notification.
func (f frame) called(method raw) frame {
	if f.method = method.str(); f.method == "" {
		return odd("method_not_a_name")
	}
	switch {
	case f.id == nil:
		f.kind = frameNotification
	case validID(f.id):
		f.kind = frameRequest
	default:
		return odd("invalid_id")
	}
	return f
}

// answered completes a response.
func (f frame) answered(m object) frame {
	if f.id == nil {
		return odd("neither_method_nor_id")
	}
	f.kind = frameResponse
	result, hasResult := m["result"]
	failure, hasError := m["error"]
	switch {
	case hasError && !failure.null():
		f.err = parseError(failure)
	case hasResult:
		f.result = result
	default:
		return odd("neither_result_nor_error")
	}
	return f
}

// validID accepts what JSON-RPC takes as an id: a number or a string. 0 and "" are ids.
func validID(id raw) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

func parseError(r raw) *rpcError {
	o := r.obj()
	e := &rpcError{Message: o["message"].str(), Data: o["data"]}
	code, err := strconv.ParseInt(string(o["code"]), 10, 64)
	if err != nil || o == nil {
		e.Message = fmt.Sprintf("malformed error %.200s", r)
	}
	e.Code = code
	return e
}
