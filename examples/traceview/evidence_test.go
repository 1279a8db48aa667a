package traceview

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"
)

// Behind every raw message are its bytes, exactly as they passed: kept, not encoded again.
func TestRawEvidence(t *testing.T) {
	t.Parallel()
	kit := m3test.Kit(t)
	client := m3test.Direct(t, shop, nil)
	// Raw arguments are sent as they stand, spaces and all.
	raw := []byte(`{ "text":  "exact" }`)
	if _, err := client.CallTool(t.Context(), "echo", json.RawMessage(raw), nil); err != nil {
		t.Fatal(err)
	}
	view := m3test.Finish(t, client)

	found := false
	for _, m := range view.RawMessages().All() {
		if m.EvidenceRef == nil {
			continue
		}
		evidence, err := kit.ReadRawEvidence(t.Context(), *m.EvidenceRef, 0)
		if err != nil {
			t.Fatal(err)
		}
		found = found || bytes.Contains(evidence.Bytes, raw)
	}
	if !found {
		t.Error("no frame holds the arguments as they were given")
	}
}

// A reference that somebody made up, or changed, is an error, not an empty answer.
func TestForgedEvidence(t *testing.T) {
	t.Parallel()
	kit := m3test.Kit(t)
	client := m3test.Direct(t, shop, nil)
	view := m3test.Finish(t, client)
	ref := *view.RawMessages().At(0).EvidenceRef

	forged := ref
	forged.ID += "9999"
	if _, err := kit.ReadRawEvidence(t.Context(), forged, 0); !errors.Is(err, m3.ErrRawEvidenceUnavailable) {
		t.Errorf("a forged reference: %v", err)
	}
	altered := ref
	altered.SHA256 = "00" + altered.SHA256[2:]
	var broken *m3.RawEvidenceIntegrityError
	if _, err := kit.ReadRawEvidence(t.Context(), altered, 0); !errors.As(err, &broken) {
		t.Errorf("a wrong digest: %v", err)
	}
}
