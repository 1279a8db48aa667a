package m3_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// lateStream refuses the GET stream with 405 until a resource is subscribed to, unless early says that it opens it at once. An update is sent on it.
type lateStream struct {
	early      bool
	subscribed atomic.Bool
}

func (s *lateStream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if !s.early && !s.subscribed.Load() {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"test://doc\"}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := "{}"
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"late","version":"1"}}`
	case "resources/subscribe":
		s.subscribed.Store(true)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// W-H16: a server that refuses the GET stream until a resource is subscribed to loses its updates with every client that asks once. M3 asks again, says so, and
// hears the update; of the repaired twin nothing is said.
func TestStreamAfterSubscribe(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"W-H16": false, "its repaired twin": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			updated := make(chan string, 10)
			c := openOps(t, m3.HandlerServer{Name: "late", Handler: &lateStream{early: early}}, &m3.DirectOptions{Protocol: legacyEra, Notification: func(method string, params trace.JSON) {
				updated <- method + string(params)
			}})
			if err := c.SubscribeResource(t.Context(), "test://doc", nil); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-updated:
				if !strings.Contains(got, "resources/updated") {
					t.Errorf("updated: %s", got)
				}
			case <-soon(t).Done():
				t.Error("no update came")
			}
			found := false
			for _, f := range c.Findings() {
				found = found || f.Code == "stream-after-subscribe"
			}
			if found == early {
				t.Errorf("the finding is there: %v; findings %v", found, c.Findings())
			}
		})
	}
}
