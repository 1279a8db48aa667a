package resources

import (
	"testing"

	"github.com/m3-go/m3/m3test"
)

// A prompt states its arguments; rendering it gives messages.
func TestRenderPrompt(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	prompts, err := client.ListAllPrompts(t.Context(), nil)
	if err != nil || len(prompts) != 1 {
		t.Fatalf("prompts: %+v, %v", prompts, err)
	}
	if args := prompts[0].Arguments; len(args) != 2 || args[0].Name != "order_id" || !args[0].Required || args[1].Required {
		t.Errorf("arguments: %+v", args)
	}
	for _, tc := range []struct {
		args map[string]string
		want string
	}{
		{map[string]string{"order_id": "order-1"}, "Confirm order order-1 in a friendly tone."},
		{map[string]string{"order_id": "order-2", "tone": "formal"}, "Confirm order order-2 in a formal tone."},
	} {
		p, err := client.GetPrompt(t.Context(), prompts[0].Name, tc.args, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Messages) != 1 || p.Messages[0].Role != "user" || p.Messages[0].Content.Text != tc.want {
			t.Errorf("%v gives %+v, want %q", tc.args, p.Messages, tc.want)
		}
	}
}
