package catalog

import (
	"context"

	"github.com/m3-go/m3"
)

// Of lists the tools of the server that client is connected to. What is secret is replaced: a catalogue is made to be kept.
func Of(ctx context.Context, client *m3.Client) (*Catalog, error) {
	tools, err := client.ListAllTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	raw := make([][]byte, len(tools))
	for i, t := range tools {
		raw[i] = []byte(client.Redact(string(t.Raw)))
	}
	return New(client.Initialization().ServerName, raw)
}
