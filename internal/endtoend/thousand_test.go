package endtoend

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/leaktest"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

// A thousand servers are started and stopped, 24 at once: half are killed in mid-call, a quarter never answer and end only by a signal, the rest do what they should.
// Afterwards there are as many processes, descriptors, goroutines and temporary files as before, and every execution tells how it ended. It is not
// parallel: it counts what the whole process has.
func TestThousandServers(t *testing.T) {
	tiny := built.get(t, "tiny", ".", "build", "./tiny")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	run := func(n int) map[trace.Outcome]int {
		st := memory.New(nil)
		defer st.Close()
		kit, err := m3.New(m3.Config{Store: st})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		jobs := make(chan int)
		for range 24 {
			wg.Go(func() {
				for i := range jobs {
					oneServer(t, kit, tiny, i)
				}
			})
		}
		for i := range n {
			jobs <- i
		}
		close(jobs)
		wg.Wait()
		if err := kit.Close(); err != nil {
			t.Error(err)
		}
		execs, err := st.Executions(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ends := map[trace.Outcome]int{}
		for _, e := range execs {
			ends[e.Outcome]++
			if e.Finished == nil || !e.Complete {
				t.Errorf("execution %s: %+v", e.ID, e)
			}
		}
		return ends
	}
	run(8) // starts the reaper, which stays
	before := leaktest.Count(temp)
	began := time.Now()
	ends := run(1000)
	t.Logf("%v for 1000 servers", time.Since(began).Round(time.Millisecond))
	if ends[trace.OutcomeCompleted] != 250 || ends[trace.OutcomeFailed] != 500 || ends[trace.OutcomeTimedOut] != 250 {
		t.Errorf("they ended so: %v", ends)
	}
	var after leaktest.Counts
	left := leaktest.Settled(5*time.Second, func() string {
		if after = leaktest.Count(temp); after == before {
			return ""
		}
		return leaktest.Goroutines([]string{"m3-go/m3"}, []string{"endtoend.TestThousandServers"})
	})
	if after != before {
		t.Errorf("%+v before, %+v after\n%s", before, after, left)
	}
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("it took %v", took)
	}
}

// oneServer starts a server and ends it, each fourth in the same way.
func oneServer(t *testing.T, kit *m3.Kit, tiny string, i int) {
	server := m3.StdioServer{Name: "tiny", Command: tiny, Env: map[string]string{"PATH": os.Getenv("PATH")}}
	opts := &m3.DirectOptions{Protocol: "2025-11-25"}
	if i%4 == 0 {
		server.Args, opts.StartTimeout = []string{"silent"}, 150*time.Millisecond
		var timeout *m3.TimeoutError
		if _, err := kit.Direct(t.Context(), server, opts); !errors.As(err, &timeout) {
			t.Errorf("server %d never answers: %v", i, err)
		}
		return
	}
	client, err := kit.Direct(t.Context(), server, opts)
	if err != nil {
		t.Errorf("server %d: %v", i, err)
		return
	}
	if i%2 == 1 {
		var transport *m3.TransportError
		if _, err := client.CallTool(t.Context(), "die", nil, nil); !errors.As(err, &transport) {
			t.Errorf("server %d is killed in mid-call: %v", i, err)
		}
	} else if _, err := client.CallTool(t.Context(), "echo", m3.Args{"n": i}, nil); err != nil {
		t.Errorf("server %d: %v", i, err)
	}
	if err := client.Close(); err != nil {
		t.Errorf("server %d: close: %v", i, err)
	}
}
