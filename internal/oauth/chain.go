package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

const (
	clausePRM       = "RFC 9728, 3: protected resource metadata"
	clauseChallenge = "RFC 9728, 5.1: WWW-Authenticate"
	clauseAS        = "RFC 8414, 3: authorization server metadata"

	wellKnownPRM  = "/.well-known/oauth-protected-resource"
	wellKnownAS   = "/.well-known/oauth-authorization-server"
	wellKnownOIDC = "/.well-known/openid-configuration"

	maxServers = 3 // authorization servers whose metadata is looked for
)

// Fetch gets a URL without credentials and without following redirects. It decides which URLs may be fetched: its error is then shown as the step's.
type Fetch func(ctx context.Context, url string) (*Fetched, error)

// Fetched is the answer to a fetch.
type Fetched struct {
	Status   int
	Location string // of a redirect
	Body     []byte
}

// Step is one thing that was asked, or seen.
type Step struct {
	What string `json:"what"`
	URL  string `json:"url"`
	// Status is the HTTP status; 0 when there was no answer.
	Status int `json:"status"`
	// Usable says that the document is what it should be.
	Usable bool `json:"usable"`
	// Note says what was found, or why it is of no use.
	Note string `json:"note,omitempty"`
}

// Chain is everything that a server offers from its 401 on.
type Chain struct {
	Steps    []Step          `json:"steps"`
	Findings []trace.Finding `json:"-"`
	// AuthorizationServers are those that the metadata names; Scopes what the challenge, else the metadata, asks for.
	AuthorizationServers []string `json:"authorization_servers,omitempty"`
	Scopes               string   `json:"scopes,omitempty"`
}

// resource is RFC 9728's document.
type resource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// issuer is RFC 8414's document.
type issuer struct {
	Issuer        string   `json:"issuer"`
	Authorize     string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	CodeChallenge []string `json:"code_challenge_methods_supported"`
}

// walk is a discovery at work.
type walk struct {
	fetch  Fetch
	server *url.URL
	chain  Chain
	asked  map[string]bool
}

// Discover follows the chain of a server that answered its URL with 401 and these WWW-Authenticate headers. What cannot be had is a step as well. It makes a bounded number of fetches.
func Discover(ctx context.Context, server *url.URL, challenges []string, fetch Fetch) *Chain {
	w := &walk{fetch: fetch, server: server, asked: map[string]bool{}}
	named := w.challenge(challenges)
	res := w.resources(ctx, named)
	if res == nil {
		w.legacy(ctx)
		return &w.chain
	}
	if w.chain.Scopes == "" {
		w.chain.Scopes = strings.Join(res.Scopes, " ")
	}
	w.servers(ctx, res)
	return &w.chain
}

func (w *walk) find(sev trace.Severity, code, clause, format string, args ...any) {
	w.chain.Findings = append(w.chain.Findings, trace.Finding{Code: code, Severity: sev, Clause: clause, Message: fmt.Sprintf(format, args...), Sequence: -1, Offset: -1})
}

// challenge takes the 401 itself, and returns the metadata URL that it names.
func (w *walk) challenge(values []string) (named string) {
	step := Step{What: "the server's answer", URL: w.shown(w.server), Status: http.StatusUnauthorized, Usable: true}
	var bearer *Challenge
	for _, c := range ParseChallenges(values) {
		if strings.EqualFold(c.Scheme, "Bearer") && bearer == nil {
			bearer = &c
		}
	}
	switch {
	case len(values) == 0:
		step.Usable, step.Note = false, "no WWW-Authenticate header"
		w.find(trace.SeverityError, "oauth-no-challenge", clauseChallenge, "the 401 has no WWW-Authenticate header: a client cannot learn how to authorize")
	case bearer == nil:
		step.Usable, step.Note = false, "WWW-Authenticate: "+strings.Join(values, ", ")+" (no Bearer challenge)"
	default:
		step.Note = "WWW-Authenticate: " + strings.Join(values, ", ")
		named, w.chain.Scopes = bearer.Params["resource_metadata"], bearer.Params["scope"]
		if named == "" {
			w.find(trace.SeverityWarning, "oauth-challenge-without-metadata", clauseChallenge, "the challenge names no resource_metadata: older clients guess its place, others give up")
		}
	}
	w.chain.Steps = append(w.chain.Steps, step)
	return named
}

// resources looks for the protected resource's metadata: where the challenge says, and at the well-known places.
func (w *walk) resources(ctx context.Context, named string) (found *resource) {
	places := []string{w.at(w.server, wellKnownPRM+strings.TrimRight(w.server.Path, "/")), w.at(w.server, wellKnownPRM)}
	wellKnown := false
	if named != "" {
		if abs, err := w.server.Parse(named); err == nil {
			named = abs.String()
		}
		places = slices.Insert(places, 0, named)
	}
	for _, place := range places {
		var r resource
		if !w.get(ctx, "protected resource metadata", place, &r, func() string { return w.judgeResource(&r) }) {
			continue
		}
		wellKnown = wellKnown || place != named
		if found == nil {
			found = &r
		}
	}
	switch {
	case found == nil:
		w.find(trace.SeverityError, "oauth-no-resource-metadata", clausePRM, "there is no protected resource metadata, neither where the challenge says nor at the well-known places")
	case !wellKnown && !slices.Contains(places[1:], named):
		w.find(trace.SeverityNote, "oauth-metadata-only-in-header", clausePRM, "the protected resource metadata is found by the challenge alone: clients that look at the well-known places miss it")
	}
	return found
}

func (w *walk) judgeResource(r *resource) string {
	if len(r.Servers) == 0 {
		w.find(trace.SeverityError, "oauth-no-authorization-server", clausePRM, "the protected resource metadata names no authorization_servers")
		return "it names no authorization_servers"
	}
	if !sameResource(r.Resource, w.server) {
		w.find(trace.SeverityError, "oauth-resource-mismatch", "RFC 9728, 3.3: validation", "the metadata is for the resource %q, not for %s: a client must not use it", r.Resource, w.shown(w.server))
	}
	return "resource " + r.Resource + ", authorization servers " + strings.Join(r.Servers, ", ")
}

// sameResource allows the server's URL and any shorter path of the same origin, which clients take (MCP: basic/authorization, canonical URI).
func sameResource(named string, server *url.URL) bool {
	u, err := url.Parse(named)
	if err != nil || !strings.EqualFold(u.Host, server.Host) || !strings.EqualFold(u.Scheme, server.Scheme) {
		return false
	}
	path := strings.TrimRight(u.Path, "/")
	return path == "" || server.Path == path || strings.HasPrefix(server.Path, path+"/")
}

// servers looks for the metadata of each authorization server.
func (w *walk) servers(ctx context.Context, res *resource) {
	w.chain.AuthorizationServers = res.Servers
	for i, s := range res.Servers {
		if i == maxServers {
			break
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			w.chain.Steps = append(w.chain.Steps, Step{What: "authorization server metadata", URL: s, Note: "the authorization server is no URL"})
			continue
		}
		if !w.authorizationServer(ctx, s, w.placesOf(u)) {
			w.find(trace.SeverityError, "oauth-no-server-metadata", clauseAS, "the authorization server %s has no metadata at any of its well-known places", s)
		}
	}
}

// placesOf are the well-known places of an issuer, in the order of the specification (MCP: basic/authorization, server metadata discovery).
func (w *walk) placesOf(u *url.URL) []string {
	path := strings.TrimRight(u.Path, "/")
	if path == "" {
		return []string{w.at(u, wellKnownAS), w.at(u, wellKnownOIDC)}
	}
	return []string{w.at(u, wellKnownAS+path), w.at(u, wellKnownOIDC+path), w.at(u, path+wellKnownOIDC)}
}

// authorizationServer tries the places until one is usable. want is the issuer; empty in the legacy fallback.
func (w *walk) authorizationServer(ctx context.Context, want string, places []string) bool {
	for _, place := range places {
		var a issuer
		if w.get(ctx, "authorization server metadata", place, &a, func() string { return w.judgeIssuer(&a, want) }) {
			return true
		}
	}
	return false
}

func (w *walk) judgeIssuer(a *issuer, want string) string {
	if want != "" && strings.TrimRight(a.Issuer, "/") != strings.TrimRight(want, "/") {
		w.find(trace.SeverityError, "oauth-issuer-mismatch", "RFC 8414, 3.3: validation", "the metadata is of the issuer %q, not of %s: a client must not use it", a.Issuer, want)
	}
	if !slices.Contains(a.CodeChallenge, "S256") {
		w.find(trace.SeverityWarning, "oauth-no-pkce", "basic/authorization: authorization code protection", "the authorization server %s does not say that it supports S256: clients of MCP must refuse it", a.Issuer)
	}
	note := "issuer " + a.Issuer + ", authorize " + a.Authorize + ", token " + a.Token
	if a.Registration != "" {
		note += ", dynamic registration " + a.Registration
	}
	return note
}

// legacy is what 2025-03-26 did: the server itself is the authorization server.
func (w *walk) legacy(ctx context.Context) {
	if w.authorizationServer(ctx, "", []string{w.at(w.server, wellKnownAS)}) {
		w.chain.AuthorizationServers = []string{w.at(w.server, "")}
		w.find(trace.SeverityWarning, "oauth-legacy-metadata", "2025-03-26, basic/authorization; later versions: RFC 9728", "there is only authorization server metadata at the root of the server's own origin, as in 2025-03-26: newer clients do not look there")
	}
}

// get makes one step: a document that must be a JSON object.
func (w *walk) get(ctx context.Context, what, place string, into any, judge func() string) bool {
	if w.asked[place] {
		return false
	}
	w.asked[place] = true
	step := Step{What: what, URL: place}
	got, err := w.fetch(ctx, place)
	switch {
	case err != nil:
		step.Note = err.Error()
	case got.Status/100 == 3:
		step.Status, step.Note = got.Status, "a redirect to "+got.Location+", which is not followed"
	case got.Status != http.StatusOK:
		step.Status = got.Status
	case json.Unmarshal(got.Body, into) != nil:
		step.Status, step.Note = got.Status, "no JSON object of this kind: "+short(got.Body)
	default:
		step.Status, step.Usable = got.Status, true
		step.Note = judge()
	}
	w.chain.Steps = append(w.chain.Steps, step)
	return step.Usable
}

// at is the URL of a path at u's origin.
func (w *walk) at(u *url.URL, path string) string { return u.Scheme + "://" + u.Host + path }

func (w *walk) shown(u *url.URL) string { return w.at(u, u.Path) }

func short(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%q…", b[:60])
	}
	return fmt.Sprintf("%q", b)
}

// String is the chain as text, a line a step.
func (c *Chain) String() string {
	var b strings.Builder
	for i, s := range c.Steps {
		status := "no answer"
		if s.Status != 0 {
			status = fmt.Sprintf("%d %s", s.Status, http.StatusText(s.Status))
		}
		fmt.Fprintf(&b, "%d. %s: %s → %s", i+1, s.What, s.URL, status)
		if s.Note != "" {
			b.WriteString(": " + s.Note)
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
