package resources

import (
	"slices"
	"testing"

	"github.com/m3-go/m3/m3test"
)

// Everything that a server offers can be listed: page by page, or all at once.
func TestDiscover(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	tools, err := client.ListAllTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
		if tool.Malformed != "" || tool.InputSchema == nil {
			t.Errorf("tool %s: %q, input schema %s", tool.Name, tool.Malformed, tool.InputSchema)
		}
	}
	for _, want := range []string{"add", "create_order", "echo", "fail", "get_order", "normalize_customer", "quote"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %s among %v", want, names)
		}
	}
	page, err := client.ListTools(t.Context(), nil)
	if err != nil || len(page.Items) == 0 || page.NextCursor == nil && len(page.Items) != len(tools) {
		t.Errorf("the first page: %+v, %v", page, err)
	}
	resources, err := client.ListAllResources(t.Context(), nil)
	if err != nil || len(resources) != 2 {
		t.Errorf("%d resources, %v", len(resources), err)
	}
}
