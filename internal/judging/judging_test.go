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

// TestWithin: a budget within another, in memory and in files. Each request is taken from both.
func TestWithin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := CreateIn(dir); err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string]*Budget{"local": Local(5), "shared": Shared(filepath.Join(dir, runCounter), 5)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part := Local(3).Within(whole)
			for range 3 {
				if err := errors.Join(part.Check(), part.Spend(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			var e *Error
			if err := part.Check(); !errors.Is(err, ErrExhausted) || !errors.As(err, &e) || e.Limit != 3 {
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
			other := Local(9).Within(whole)
			if err := other.Check(); !errors.As(err, &e) || e.Limit != 5 {
				t.Errorf("check of another part when the whole is spent: %v", err)
			}
			if err := other.Spend(t.Context()); !errors.As(err, &e) || e.Limit != 5 {
				t.Errorf("spend of another part when the whole is spent: %v", err)
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
	for _, b := range []*Budget{Local(37), Shared(path, 37)} {
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
	if err := Local(0).Within(none).Check(); !errors.Is(err, ErrExhausted) {
		t.Errorf("a limit of 0 within nothing: %v", err)
	}
}

// TestKitsOfARun: kits of a run share a counter, others do not, and the run's budget is over all.
func TestKitsOfARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := CreateIn(dir); err != nil {
		t.Fatal(err)
	}
	s := Settings{Limit: "6", Dir: dir}
	one, err := s.run("")
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.run("") // another process
	if err != nil {
		t.Fatal(err)
	}
	spend := func(b *Budget, want int) {
		t.Helper()
		n := 0
		for b.Spend(t.Context()) == nil {
			n++
		}
		if n != want {
			t.Errorf("%d requests, want %d", n, want)
		}
	}
	spend(one.Kit(new(2), true), 2)
	spend(two.Kit(new(3), true), 1)
	spend(one.Kit(new(2), false), 2)
	spend(two.Kit(nil, true), 1)
	spend(one.Kit(new(99), true), 0)
	alone := &Run{}
	spend(alone.Kit(new(2), true), 2)
	if alone.Kit(nil, true) != nil {
		t.Error("no limit is a budget")
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
		want     string // the counters: a directory, "local", "none"
		limit    int    // -1: none
		err      string
	}{
		{"nothing", Settings{}, "/usr/bin/program", "none", -1, ""},
		{"limit of a program", Settings{Limit: "5"}, "/usr/bin/program", "local", 5, ""},
		{"a test of go's", Settings{}, inGo, work, -1, ""},
		{"a limited test of go's", Settings{Limit: " 0 "}, inGo, work, 0, ""},
		{"m3 test", Settings{Limit: "7", Dir: "/run/counters"}, inGo, "/run/counters", 7, ""},
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
			r, err := tc.settings.run(tc.exe)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one that says %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, limit := "none", -1
			if r.Budget != nil {
				got, limit = "local", r.Budget.limit
			}
			if f, ok := r.kits.(file); ok {
				got = filepath.Dir(string(f))
			}
			if b := r.Budget; b != nil && r.kits != nil && filepath.Dir(string(b.counter.(file))) != got {
				t.Errorf("the counters are in two places: %v", r)
			}
			if got != tc.want || limit != tc.limit {
				t.Errorf("counters %s with limit %d, want %s with %d", got, limit, tc.want, tc.limit)
			}
		})
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	h := &Host{Budget: Local(1)}
	if got := HostOf(WithHost(context.Background(), h)); got != h {
		t.Error("the context's host is another")
	}
	// This test is one that go runs: without a kit there is the counter of the whole go test.
	if got := HostOf(context.Background()); got == nil || got.Err != nil {
		t.Errorf("without a kit: %+v", got)
	}
}
