package m3test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/m3-go/m3"
)

// noisy answers initialize and, after its input has ended, says something that is no message.
func noisy() m3.Server {
	return m3.StdioServer{Name: "noisy", Command: "sh", Args: []string{"-c", `
		read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"noisy","version":"1"}}}'
		while read -r line; do :; done
		echo 'good bye'`}}
}

// TestStrict: a finding that comes after the last assertion fails the test, whoever closes the client, and is told once.
func TestStrict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		strict m3.Strictness
		body   func(p *process, f *fakeT, c *m3.Client)
		failed bool
	}{
		{"off", "", func(*process, *fakeT, *m3.Client) {}, false},
		{"closed by the clean-up", m3.StrictWarnings, func(*process, *fakeT, *m3.Client) {}, true},
		{"closed by the test, which does not look", m3.StrictErrors, func(_ *process, _ *fakeT, c *m3.Client) { _ = c.Close() }, true},
		{"finished", m3.StrictNotes, func(p *process, f *fakeT, c *m3.Client) {
			if p.finishClient(f, c).Findings().Len() == 0 { // the view is still given
				f.Errorf("no findings in the view")
			}
			p.finishClient(f, c)
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(settings{})
			f := run(t, "TestA", func(f *fakeT) {
				tc.body(p, f, p.direct(f, noisy(), &m3.DirectOptions{Protocol: "2025-11-25", Strict: tc.strict}))
			})
			if f.failed != tc.failed || tc.failed && (len(f.messages) != 1 || !f.says("noisy", "stdout-noise", "DirectOptions.Strict")) {
				t.Errorf("failed %v, messages %q", f.failed, f.messages)
			}
		})
	}
}

// TestUnreported: what else goes wrong at the end is still told.
func TestUnreported(t *testing.T) {
	t.Parallel()
	told := &m3.FindingsError{Message: "told"}
	for _, tc := range []struct{ err, want error }{
		{nil, nil}, {told, nil}, {io.EOF, io.EOF}, {joined(told, nil), nil}, {joined(told, io.EOF), joined(io.EOF)}, {joined(joined(told), context.Canceled), joined(context.Canceled)},
	} {
		got := unreported(tc.err)
		if (got == nil) != (tc.want == nil) || got != nil && got.Error() != tc.want.Error() {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}

func joined(errs ...error) error { return errors.Join(errs...) }
