package gotest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseArgs(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, before, after, want string) {
		a, err := ParseArgs(strings.Fields(before), strings.Fields(after))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, strings.Join(a.Command(), " ")); diff != "" {
			t.Error(diff)
		}
	}
	for _, tc := range []struct{ name, before, after, want string }{
		{"nothing", "", "", "test -json -count=1 -timeout=0"},
		{"package before", "./a", "", "test -json -count=1 -timeout=0 ./a"},
		{"both sides", "./a ./b", "./c -run X ./d", "test -json -count=1 -timeout=0 -run X ./a ./b ./c ./d"},
		{"given count", "", "-count=3 ./a", "test -json -timeout=0 -count=3 ./a"},
		{"count with a space", "", "--count 3 ./a", "test -json -timeout=0 --count 3 ./a"},
		{"given timeout", "", "-test.timeout=5s", "test -json -count=1 -test.timeout=5s"},
		{"a flag's value is no flag", "", "-run -count ./a", "test -json -count=1 -timeout=0 -run -count ./a"},
		{"bool flags take no value", "", "-v -race ./a", "test -json -count=1 -timeout=0 -v -race ./a"},
		{"v may have one", "", "-v=test2json ./a", "test -json -count=1 -timeout=0 -v=test2json ./a"},
		{"unknown flag with a value", "", "-m3.harness=codex ./a", "test -json -count=1 -timeout=0 ./a -m3.harness=codex"},
		{"unknown flag takes the next", "./a", "-m3.trials 3 -short ./b", "test -json -count=1 -timeout=0 -short ./a ./b -m3.trials 3"},
		{"args", "./a", "-short -args -json x", "test -json -count=1 -timeout=0 -short ./a -args -json x"},
		{"chdir", "", "-C sub ./a", "test -C=sub -json -count=1 -timeout=0 ./a"},
	} {
		t.Run(tc.name, func(t *testing.T) { t.Parallel(); run(t, tc.before, tc.after, tc.want) })
	}
}

func TestParseArgsRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ before, after, want string }{
		{"", "-json", "reads go test's -json itself"},
		{"", "-json=false ./a", "reads go test's -json itself"},
		{"", "-exec sudo", "must start the test processes itself"},
		{"", "./a -c", "use go test -c"},
		{"", "--o=x", "use go test -c -o"},
		{"", "-m3.db=x.sqlite", "with --results-db"},
		{"", "./a -m3.db x.sqlite", "with --results-db"},
		{"", "-args --m3.db=x.sqlite", "with --results-db"},
		{"", "-run", "needs a value"},
		{"", "-C a -C b", "given twice"},
		{"-race", "", "unknown flag: -race"},
	} {
		t.Run(tc.before+" "+tc.after, func(t *testing.T) {
			t.Parallel()
			_, err := ParseArgs(strings.Fields(tc.before), strings.Fields(tc.after))
			var ue *UsageError
			if !errors.As(err, &ue) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a *UsageError with %q", err, tc.want)
			}
		})
	}
	if err := checkGoFlags("-mod=mod '-exec=sudo'"); err == nil || !strings.Contains(err.Error(), "GOFLAGS") {
		t.Errorf("GOFLAGS with -exec: %v", err)
	}
}

func TestArgsHas(t *testing.T) {
	t.Parallel()
	a := &Args{Flags: []string{"-run", "-count", "-v", "-timeout=1s"}}
	for name, want := range map[string]bool{"run": true, "count": false, "v": true, "timeout": true} {
		if got := a.Has(name); got != want {
			t.Errorf("Has(%q) = %v", name, got)
		}
	}
}
