package m3

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
)

// FuzzUnmarshal: it never panics, errs exactly when encoding/json does on what has no other case, and gives the same then.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{`{"type":"a","text":"b"}`, `{"Type":1,"type":"a"}`, `{"te\u0078t":"b"}`, `{"x":{"Text":"n"},"text":"\\\""}`, `[{"Type":"a"}]`, `{"te\u0078t":7,"text":"a"}`, `{"ſ":1`, `"`, ``} {
		f.Add([]byte(seed))
	}
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	wiretest.Seed(f, func(sent []byte) { f.Add(sent) })
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, want block
		err := unmarshal(b, &got)
		var members map[string]json.RawMessage
		if json.Unmarshal(b, &members) == nil {
			for key := range members {
				if folded(key, []string{"type", "text"}) {
					return
				}
			}
		}
		if werr := json.Unmarshal(b, &want); (err == nil) != (werr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %+v, %v; encoding/json gives %+v, %v", b, got, err, want, werr)
		}
	})
}
