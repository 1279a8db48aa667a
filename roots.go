package m3

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// Roots makes DirectOptions.Roots of URIs, without names.
func Roots(uris ...string) []Root {
	roots := make([]Root, len(uris))
	for i, uri := range uris {
		roots[i].URI = uri
	}
	return roots
}

// samples reports whether the sampling capability is declared.
func (o *DirectOptions) samples() bool { return o.Sampling != nil }

// offersRoots reports whether the roots capability is declared.
func (o *DirectOptions) offersRoots() bool { return o.Roots != nil || o.ListRoots != nil }

// roots answers the server's roots/list.
func (c *Client) roots(ctx context.Context) (any, *rpc.ErrorObject) {
	if c.opts.ListRoots == nil {
		return map[string]any{"roots": c.opts.Roots}, nil
	}
	roots, err := listRoots(ctx, c.opts.ListRoots)
	if err != nil { // its text may hold anything; the server is told only that it failed
		return nil, &rpc.ErrorObject{Code: trace.JSON("-32603"), Message: fmt.Sprintf("the roots handler failed: %T", err)}
	}
	if roots == nil {
		roots = []Root{}
	}
	return map[string]any{"roots": roots}, nil
}

// listRoots asks the test's handler. A panic in it is an answer to the server, not the end of the tests.
func listRoots(ctx context.Context, f func(context.Context) ([]Root, error)) (roots []Root, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f(ctx)
}

// SendRootsListChanged tells the server that DirectOptions.ListRoots would answer differently now. Without that handler changes were not declared:
// it is a *ValidationError. Protocol 2026-07-28 has no such notification; there it is an *UnsupportedError.
func (c *Client) SendRootsListChanged(ctx context.Context) error {
	const method = "notifications/roots/list_changed"
	if !c.session.Modern() && c.opts.ListRoots == nil {
		return validationf("send %s: changes of the roots were not declared to the server: set DirectOptions.ListRoots", method)
	}
	return c.Notify(ctx, method, nil, nil)
}
