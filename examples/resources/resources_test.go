// Package resources shows resources, resource templates and prompts.
package resources

import (
	"bytes"
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// What is listed can be read: text as text, binary as bytes.
func TestReadEveryListedResource(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	all, err := client.ListAllResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]*m3.ResourceReadResult{}
	for _, r := range all {
		if read[r.URI], err = client.ReadResource(t.Context(), r.URI, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := read["shop://catalog"]; got == nil || got.Text() != "parcel\npallet\nletter\n" {
		t.Errorf("catalog: %+v", got)
	}
	logo := read["shop://logo"]
	if logo == nil || len(logo.Contents) != 1 || logo.Contents[0].Text != nil || !bytes.HasPrefix(logo.Contents[0].Blob, []byte("GIF89a")) {
		t.Errorf("logo: %+v", logo)
	}
}

// A template is a family of resources; filling it in is up to the client.
func TestReadThroughTemplate(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	templates, err := client.ListAllResourceTemplates(t.Context(), nil)
	if err != nil || len(templates) != 1 || templates[0].URITemplate != "shop://items/{id}" {
		t.Fatalf("templates: %+v, %v", templates, err)
	}
	r, err := client.ReadResource(t.Context(), "shop://items/parcel", nil)
	if err != nil || r.Text() != "parcel: up to 30 kg" {
		t.Errorf("read %+v, %v", r, err)
	}
}

// A resource that is not there is a JSON-RPC error, and so a *m3.ProtocolError with the server's code.
func TestUnknownResource(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	_, err := client.ReadResource(t.Context(), "shop://items/elephant", nil)
	var protocol *m3.ProtocolError
	if !errors.As(err, &protocol) || protocol.RPC == nil {
		t.Fatalf("the read ended with %v, want a *m3.ProtocolError of the server", err)
	}
	if code, ok := protocol.RPCCode(); !ok || code >= 0 {
		t.Errorf("error code %d, %v", code, ok)
	}
}
