package evidence

import "strings"

// Args returns the arguments of a command line as they may be kept. Of a flag with a sensitive name the value is replaced, whether it is the
// next argument (--token VALUE) or stands behind an equals sign (--token=VALUE); so is a password that is attached to -p. All other
// arguments go through every rule. A value behind -p that reads like a word, a number, an address or a path is taken for a flag
// (-profile, -p8080:80) and kept. When nothing was replaced it returns args itself, which it never changes.
func (r *Redactor) Args(args []string) []string {
	if r.off {
		return args
	}
	out := args
	for i, arg := range args {
		kept := r.argument(arg)
		if i > 0 && arg != "" && r.announces(args[i-1]) && !looksLikeFlag(arg) {
			kept = mark
		}
		if kept == arg {
			continue
		}
		if &out[0] == &args[0] {
			out = append([]string(nil), args...)
		}
		out[i] = kept
	}
	return out
}

// argument returns one argument as it may be kept whatever stands before it.
func (r *Redactor) argument(arg string) string {
	name, value, assigned := strings.Cut(arg, "=")
	switch {
	case assigned && value != "" && isFlagName(name) && r.names.sensitive([]byte(name)):
		return name + "=" + mark
	case hasPassword(arg):
		return "-p" + mark
	}
	return r.URL(arg)
}

// announces reports whether the argument is a flag whose value is secret and comes next.
func (r *Redactor) announces(arg string) bool {
	return isFlagName(arg) && r.names.sensitive([]byte(arg))
}

// isFlagName reports whether arg is a flag and nothing else.
func isFlagName(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !strings.ContainsAny(arg, "= \t\n:/")
}

// looksLikeFlag reports whether an argument after a flag is one more flag, and not the value of the first: -v, or --verbose. A secret may
// begin with a dash.
func looksLikeFlag(arg string) bool {
	if len(arg) == 2 && arg[0] == '-' {
		return true
	}
	return len(arg) > 3 && strings.HasPrefix(arg, "--") && classOf(arg[2]) != classDigit && isFlagName(arg)
}

// hasPassword reports whether arg is -p with a password attached, as mysql and its kin take it.
func hasPassword(arg string) bool {
	value, ok := strings.CutPrefix(arg, "-p")
	if !ok || len(value) < minSecret || strings.IndexByte("/.~", value[0]) >= 0 {
		return false
	}
	name, _, _ := strings.Cut(value, "=")
	ports := strings.TrimSuffix(strings.TrimSuffix(value, "/tcp"), "/udp")
	return !isAll(name, "abcdefghijklmnopqrstuvwxyz-_") && !isAll(ports, "0123456789.:,-")
}

// isAll reports whether s consists of the given bytes only.
func isAll(s, set string) bool { return strings.Trim(s, set) == "" }
