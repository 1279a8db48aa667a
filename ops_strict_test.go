package m3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/m3-go/m3"
)

// lastWords is a server that does nothing wrong until its input has ended, and then says something that is no message.
func lastWords(words string) m3.Server {
	return m3.StdioServer{Name: "words", Command: "sh", Args: []string{"-c", `
		read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"words","version":"1"}}}'
		read -r line
		while read -r line; do :; done
		printf '` + words + `'`}}
}

func TestOpStrict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, words string // a note is a blank line, an error is noise
		strict      m3.Strictness
		want        string // code of the finding that fails
	}{
		{"off", `noise\n`, "", ""},
		{"clean", ``, m3.StrictNotes, ""},
		{"note, notes", `\n`, m3.StrictNotes, "blank-line"},
		{"note, warnings", `\n`, m3.StrictWarnings, ""},
		{"error, notes", `noise\n`, m3.StrictNotes, "stdout-noise"},
		{"error, warnings", `noise\n`, m3.StrictWarnings, "stdout-noise"},
		{"error, errors", `noise\n`, m3.StrictErrors, "stdout-noise"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := openOps(t, lastWords(tc.words), &m3.DirectOptions{Protocol: legacyEra, Strict: tc.strict})
			err := c.Close()
			var fe *m3.FindingsError
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%v", err)
			case tc.want != "" && (!errors.As(err, &fe) || fe.Code() != "findings" || fe.Findings[0].Code != tc.want || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want a FindingsError about %s", err, tc.want)
			}
			if again := c.Close(); fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("the second Close says %v, the first %v", again, err)
			}
			if _, err := c.View(); err != nil { // the evidence is there all the same
				t.Error(err)
			}
		})
	}
	if _, err := opsKit(t).Direct(t.Context(), lastWords(""), &m3.DirectOptions{Strict: "very"}); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("an unknown strictness: %v", err)
	}
}

// TestOpStrictFlood: of more findings than are kept nobody knows how grave they were.
func TestOpStrictFlood(t *testing.T) {
	t.Parallel()
	flood := m3.PipeServer{Name: "flood", Serve: func(_ context.Context, rw io.ReadWriteCloser) error {
		buf := make([]byte, 4096)
		if _, err := rw.Read(buf); err != nil {
			return err
		}
		io.WriteString(rw, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`+"\n")
		for range 1100 { // each a finding of its own: an answer to a request that was never made
			if _, err := io.WriteString(rw, `{"jsonrpc":"2.0","id":77,"result":{}}`+"\n"); err != nil {
				return err
			}
		}
		_, err := io.Copy(io.Discard, rw)
		return err
	}}
	c := openOps(t, flood, &m3.DirectOptions{Protocol: legacyEra, Strict: m3.StrictErrors})
	var fe *m3.FindingsError
	if err := c.Close(); !errors.As(err, &fe) || fe.Findings[len(fe.Findings)-1].Code != "findings-truncated" || strings.Count(err.Error(), "\n") != 11 {
		t.Errorf("%v", err)
	}
}
