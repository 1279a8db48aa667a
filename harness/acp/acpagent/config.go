package acpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
)

// Variable is the variable of the environment that makes a process the agent: the script as JSON, or "@" and the path of a file with it.
const Variable = "ACPAGENT_SCRIPT"

// JoinKey is the member of _meta in which the agent puts the id of a call, where its script joins.
const JoinKey = "acpagent/toolCallId"

// Active reports whether this process was started as the agent.
func Active() bool { return os.Getenv(Variable) != "" }

// Main is the agent on this process's standard input and output, by the script in the environment. It returns the exit code.
func Main() int {
	text := []byte(os.Getenv(Variable))
	if path, isFile := strings.CutPrefix(string(text), "@"); isFile {
		b, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		text = b
	}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	script, err := Parse(text)
	if err == nil {
		err = Run(context.Background(), script, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// Config is the driver's configuration for the agent with a script. Program is what calls [Main] when [Active]; "" for the current executable. The script is written
// to the agent's home when it starts, so it may be of any size.
func Config(program string, script *Script) acp.Config {
	cfg := acp.Config{
		Command: program, Naming: acp.NamesInInput, Labels: !script.Unlabelled, UsageScope: "turn", Cost: true, Permissions: true,
		Elicitation: harness.Elicitation{Native: true, Form: true, URL: true}, ContentKinds: []string{"image", "resource"},
		Setup: func(spec *harness.Spec) (map[string]string, error) { return setup(spec, script) },
	}
	if program == "" {
		cfg.Command, _ = os.Executable() // empty when there is none: New's Check says so
	}
	if script.Join {
		cfg.JoinKey = JoinKey
	}
	return cfg
}

func setup(spec *harness.Spec, script *Script) (map[string]string, error) {
	if err := script.Validate(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(script)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(spec.Home, "acpagent.json")
	return map[string]string{Variable: "@" + path}, os.WriteFile(path, b, 0o600)
}
