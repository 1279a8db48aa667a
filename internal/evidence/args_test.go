package evidence

import (
	"slices"
	"testing"
)

func TestArgs(t *testing.T) {
	t.Parallel()
	const known = "s3cr3t-value"
	r := mustRedactor(t, nil, known)
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{"next argument", []string{"--token", "abc", "-v"}, []string{"--token", mark, "-v"}},
		{"one dash", []string{"-password", "-hunter2"}, []string{"-password", mark}},
		{"api key", []string{"serve", "--api-key", "k1", "--port", "80"}, []string{"serve", "--api-key", mark, "--port", "80"}},
		{"equals", []string{"--client_secret=a=b", "--name=x"}, []string{"--client_secret=" + mark, "--name=x"}},
		{"attached", []string{"-phunter2", "-pHunter/2=x"}, []string{"-p" + mark, "-p" + mark}},
		{"not a password", []string{"-p", "-port=8080", "-profile", "-p8080:80/tcp", "-p/etc/passwd", "-path"}, nil},
		{"a flag follows", []string{"--with-token", "--api-key", "k1", "--password", "-v"}, []string{"--with-token", "--api-key", mark, "--password", "-v"}},
		{"other names", []string{"--max-tokens", "5", "--progress-token", "x", "--keyboard", "us"}, []string{"--max-tokens", "5", "--progress-token", "x", "--keyboard", "us"}},
		{"header", []string{"--header", "Authorization: Bearer abcdef"}, []string{"--header", "Authorization: " + mark}},
		{"environment", []string{"-e", "API_KEY=abc"}, []string{"-e", "API_KEY=" + mark}},
		{"URL", []string{"https://u:p@h.example/?token=x&a=b"}, []string{"https://" + mark + "@h.example/?token=" + mark + "&a=b"}},
		{"known value", []string{"x" + known}, []string{"x" + mark}},
		{"last", []string{"--token"}, nil},
		{"empty value", []string{"--token", "", "x"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := slices.Clone(c.in)
			want := c.want
			if want == nil {
				want = c.in
			}
			if got := r.Args(in); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if !slices.Equal(in, c.in) {
				t.Errorf("the arguments themselves became %q", in)
			}
		})
	}
	if got := NewRedactor(&RedactorConfig{Off: true}).Args([]string{"--token", "x"}); got[1] != "x" {
		t.Errorf("off: %q", got)
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	r := mustRedactor(t, nil)
	for in, want := range map[string]string{
		"http://h/mcp":                     "http://h/mcp",
		"http://h/mcp?tenant=acme&debug=":  "http://h/mcp?tenant=" + mark + "&debug=",
		"http://h/mcp?token=x&tenant=y#f":  "http://h/mcp?token=" + mark + "&tenant=" + mark + "#f",
		"http://h/?q=1;r=2&":               "http://h/?q=" + mark + ";r=" + mark + "&",
		"http://h/?opaque":                 "http://h/?" + mark,
		"http://u:p@h/mcp?next=http://x/y": "http://" + mark + "@h/mcp?next=" + mark,
		"/mcp?a=b=c":                       "/mcp?a=" + mark,
	} {
		if got := r.Endpoint(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
		if got := r.Endpoint(want); got != want {
			t.Errorf("again: %s, want %s", got, want)
		}
	}
}
