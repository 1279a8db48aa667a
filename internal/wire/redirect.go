package wire

import (
	"fmt"
	"net/http"
	"net/url"
)

// RedirectError is a redirect that was not followed.
type RedirectError struct {
	Status   int
	From, To string // URLs, redacted
	Reason   string
}

// Error names both ends and the fix.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s answered %d with a redirect to %s, which is not followed: %s; name the final URL in the server's definition", e.From, e.Status, e.To, e.Reason)
}

// redirected looks at a 3xx answer. A request goes on to another URL of the same origin only, whole and with all its headers; so neither
// its body nor a credential reaches anybody whom the test did not name.
func (x *exchange) redirected() {
	location := x.header.Get("Location")
	if location == "" || x.method != http.MethodPost && x.t.legacy == nil {
		return
	}
	to, err := x.url.Parse(location)
	if err != nil {
		x.err = fmt.Errorf("HTTP %d with a Location that is no URL", x.status)
		return
	}
	to.User = x.url.User
	refuse := func(format string, args ...any) {
		x.err = &RedirectError{Status: x.status, From: x.sent.URL, To: x.t.redactURL(to), Reason: fmt.Sprintf(format, args...)}
	}
	from, target := origin(x.url), origin(to)
	switch {
	case x.url.Scheme == "https" && to.Scheme == "http":
		refuse("it leaves https (%s to %s), and credentials are never sent across", from, target)
	case from != target:
		refuse("it leads to another origin (%s to %s), and credentials are never sent across", from, target)
	case x.method == http.MethodPost && x.status != http.StatusTemporaryRedirect && x.status != http.StatusPermanentRedirect:
		refuse("only 307 and 308 keep the method and the body of a POST")
	case x.hops >= maxRedirects:
		refuse("it is the %dth in a row", x.hops+1)
	default:
		x.next = &exchange{method: x.method, message: x.message, id: x.id, call: x.call, hops: x.hops + 1, resent: true}
		x.next.url = to
	}
}

// follow makes the redirect's second request ready.
func (x *exchange) follow(err error) {
	n := x.next
	if n == nil {
		return
	}
	to := n.url
	if err != nil || x.t.open(n, false) != nil {
		x.next = nil
		return
	}
	n.message, n.body, n.url = x.message, x.body, to
	if x.status == http.StatusPermanentRedirect {
		x.t.move(to)
	}
}

// move remembers a permanent redirect.
func (t *HTTP) move(to *url.URL) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved = to
}
