package judging

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestLimits: two budgets over one counter, in memory and in a file.
func TestLimits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counter")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string]*Budget{"local": Local(new(5)), "shared": Shared(path, new(5))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part := whole.Within(new(3))
			for range 3 {
				if err := errors.Join(part.Check(), part.Spend(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			if err := part.Check(); !errors.Is(err, ErrExhausted) {
				t.Errorf("check of the part: %v", err)
			}
			if err := part.Spend(t.Context()); !errors.Is(err, ErrExhausted) {
				t.Errorf("spend of the part: %v", err)
			}
			for range 2 {
				if err := errors.Join(whole.Check(), whole.Spend(t.Context())); err != nil {
					t.Error(err)
				}
			}
			if err := whole.Spend(t.Context()); !errors.Is(err, ErrExhausted) {
				t.Errorf("spend of the whole: %v", err)
			}
			if n, ok := whole.Within(new(9)).Limit(); n != 5 || !ok {
				t.Errorf("a wider limit within 5 is %d", n)
			}
		})
	}
}

// TestExactlyOnce: however many take at once, as many get one as there are.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counter")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	if err := Create(path); err != nil { // the second changes nothing
		t.Fatal(err)
	}
	for _, b := range []*Budget{Local(new(37)), Shared(path, new(37))} {
		var mu sync.Mutex
		var wg sync.WaitGroup
		got, refused := 0, 0
		for range 20 {
			wg.Go(func() {
				for range 5 {
					err := b.Spend(t.Context())
					mu.Lock()
					if err == nil {
						got++
					} else if errors.Is(err, ErrExhausted) {
						refused++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if got != 37 || refused != 63 {
			t.Errorf("%d got one and %d were refused, want 37 and 63", got, refused)
		}
	}
}

func TestNoBudget(t *testing.T) {
	t.Parallel()
	var none *Budget
	if err := errors.Join(none.Check(), none.Spend(t.Context())); err != nil {
		t.Error(err)
	}
	if _, ok := none.Limit(); ok {
		t.Error("no budget has a limit")
	}
	if n, ok := none.Within(new(0)).Limit(); n != 0 || !ok {
		t.Error("a limit within nothing is lost")
	}
	counted := Local(nil)
	for range 3 {
		if err := errors.Join(counted.Check(), counted.Spend(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if err := counted.Within(new(3)).Check(); !errors.Is(err, ErrExhausted) {
		t.Errorf("what was spent without a limit does not count: %v", err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "go-build123")
	if err := os.MkdirAll(filepath.Join(work, "b001"), 0o700); err != nil {
		t.Fatal(err)
	}
	inGo := filepath.Join(work, "b001", "shipping.test")
	for _, tc := range []struct {
		name     string
		settings Settings
		exe      string
		want     string // the counter: a path, "local", "none"
		limit    int    // -1: none
		err      string
	}{
		{"nothing", Settings{}, "/usr/bin/program", "none", -1, ""},
		{"limit of a program", Settings{Limit: "5"}, "/usr/bin/program", "local", 5, ""},
		{"a test of go's", Settings{}, inGo, filepath.Join(work, ".judge-requests"), -1, ""},
		{"a limited test of go's", Settings{Limit: " 0 "}, inGo, filepath.Join(work, ".judge-requests"), 0, ""},
		{"m3 test", Settings{Limit: "7", Counter: "/run/counter"}, inGo, "/run/counter", 7, ""},
		{"a compiled test", Settings{Limit: "7"}, filepath.Join(dir, "shipping.test"), "local", 7, ""},
		{"a program that go runs", Settings{}, filepath.Join(work, "b001", "exe", "program"), "none", -1, ""},
		{"a folder that is gone", Settings{Limit: "7"}, filepath.Join(dir, "go-build9", "b001", "x.test"), "", 0, "counter of judge requests cannot be made"},
		{"a folder that is gone, and no limit", Settings{}, filepath.Join(dir, "go-build9", "b001", "x.test"), "none", -1, ""},
		{"a word", Settings{Limit: "many"}, inGo, "", 0, `M3_JUDGE_MAX_REQUESTS: "many" is not a number`},
		{"negative", Settings{Limit: "-1"}, inGo, "", 0, `"-1" is not a number`},
		{"fraction", Settings{Limit: "1.5"}, inGo, "", 0, `"1.5" is not a number`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, err := tc.settings.budget(tc.exe)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one that says %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if b != nil {
				got = "local"
				if f, ok := b.counter.(file); ok {
					got = string(f)
				}
			}
			limit, ok := b.Limit()
			if !ok {
				limit = -1
			}
			if got != tc.want || limit != tc.limit {
				t.Errorf("counter %s with limit %d, want %s with %d", got, limit, tc.want, tc.limit)
			}
		})
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	h := &Host{Budget: Local(nil)}
	if got := HostOf(WithHost(context.Background(), h)); got != h {
		t.Error("the context's host is another")
	}
	// This test is one that go runs: without a kit there is the counter of the whole go test.
	if got := HostOf(context.Background()); got == nil || got.Err != nil {
		t.Errorf("without a kit: %+v", got)
	}
}
