package main

import (
	"fmt"
	"os"
	"strings"
)

// readEnvFile reads a dotenv file. The error names the file, the line and the fault, never a value.
func readEnvFile(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--env-file %s: %w", path, cause(err))
	}
	vars, err := parseEnv(string(b))
	if err != nil {
		return nil, fmt.Errorf("--env-file %s: %w", path, err)
	}
	return vars, nil
}

// parseEnv reads lines NAME=VALUE, with an optional "export " in front. Values are taken as they are: there is no
// interpolation. A value in single quotes is literal; in double quotes \n, \t, \", \\ and \$ are escapes; without
// quotes it ends at " #" and loses the blanks around it. Blank lines and lines that start with # are skipped. The last
// of two lines for one name holds.
func parseEnv(text string) (map[string]string, error) {
	vars := map[string]string{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimLeft(strings.TrimPrefix(line, "export "), " \t")
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !envName(name) {
			return nil, fmt.Errorf("line %d is not NAME=VALUE", n)
		}
		value, err := envValue(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("line %d: the value of %s %w", n, name, err)
		}
		vars[name] = value
	}
	return vars, nil
}

func envName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

func envValue(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("holds a NUL byte")
	}
	if s == "" || s[0] != '\'' && s[0] != '"' {
		for i := range s { // a comment needs a blank before it
			if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
				return strings.TrimSpace(s[:i]), nil
			}
		}
		return s, nil
	}
	value, rest, ok := quoted(s)
	if !ok {
		return "", fmt.Errorf("has no closing quote on its line")
	}
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return "", fmt.Errorf("goes on after its closing quote")
	}
	return value, nil
}

// quoted reads the quoted text that s begins with.
func quoted(s string) (value, rest string, ok bool) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return b.String(), s[i+1:], true
		case s[i] == '\\' && quote == '"' && i+1 < len(s):
			i++
			b.WriteString(unescape(s[i]))
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case '"', '\\', '$':
		return string(rune(c))
	default:
		return "\\" + string([]byte{c})
	}
}

// withEnvFile adds the file's variables to env. What the environment has already holds, even when it is empty.
func withEnvFile(env []string, path string) ([]string, error) {
	if path == "" {
		return env, nil
	}
	vars, err := readEnvFile(path)
	if err != nil {
		return nil, err
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		delete(vars, name)
	}
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env, nil
}
