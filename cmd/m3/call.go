package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/m3-go/m3"
)

func (c *cli) callCommand() *cobra.Command {
	var f directFlags
	cmd := &cobra.Command{
		Use:   "call SERVER TOOL [ARGUMENTS]",
		Short: "Call one tool, and print its result",
		Long: `Call one tool of a server, and print its result.

SERVER is --command CMD --arg ARG … or --url URL. ARGUMENTS is a JSON object, sent byte
for byte; - reads it from standard input. The exit code is 1 when the tool or the
server fails.`,
		Example: `  m3 call --command ./server quote '{"weight_kg": 2}'
  m3 call --url http://127.0.0.1:8080/mcp --header 'Authorization: Bearer $TOKEN' quote '{}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.direct(cmd.Context(), &f, func() (work, error) {
				tool, arguments, err := c.callArguments(args)
				return func(ctx context.Context, d *direct) error { return d.call(ctx, tool, arguments) }, err
			})
		},
	}
	f.register(c, cmd)
	cmd.Flags().BoolVar(&f.validate, "validate-schemas", false, "check arguments and result against the tool's schemas")
	return cmd
}

// callArguments checks what stands after the flags, before anything is started.
func (c *cli) callArguments(args []string) (tool string, arguments json.RawMessage, err error) {
	const how = `write the tool's name and a JSON object, as in: m3 call --command ./server quote '{"weight_kg": 2}'`
	if len(args) == 0 || len(args) > 2 || args[0] == "" {
		return "", nil, hint(how, "m3 call takes a tool and its arguments, and got %s", count(len(args), "argument"))
	}
	if len(args) == 1 {
		return args[0], json.RawMessage("{}"), nil
	}
	text := []byte(args[1])
	if args[1] == "-" {
		if text, err = io.ReadAll(c.in); err != nil {
			return "", nil, fmt.Errorf("read the arguments from standard input: %w", err)
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return "", nil, hint(how, "the arguments are not a JSON object%s", jsonFault(err))
	}
	return args[0], bytes.TrimSpace(text), nil
}

func jsonFault(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// call calls the tool. Its own failure is printed as its result, and is an error for the exit code.
func (d *direct) call(ctx context.Context, tool string, arguments json.RawMessage) error {
	res, err := d.client.CallTool(ctx, tool, arguments, nil)
	if res == nil {
		return err
	}
	d.answer.Result = res.Raw
	d.showResult(res)
	if err == nil && res.IsError {
		err = &toolError{tool, res.Text()}
	}
	return err
}

// showResult is the text form: the text blocks, what other blocks are, and the structured content.
func (d *direct) showResult(res *m3.ToolCallResult) {
	if res.IsError && res.StructuredContent == nil {
		return // the error says it
	}
	for _, block := range res.Content {
		switch {
		case block.Type == "text" && !sameJSON(block.Text, res.StructuredContent):
			d.text("%s", block.Text)
		case block.Type != "text":
			d.text("[%s, %d bytes of JSON: --json shows it]", block.Type, len(block.Raw))
		}
	}
	if res.StructuredContent != nil {
		d.text("structured: %s", indent(res.StructuredContent))
	}
	if len(res.Content) == 0 && res.StructuredContent == nil {
		d.text("(an empty result)")
	}
}

// sameJSON tells a text block that only repeats the structured content, as servers do for old clients.
func sameJSON(text string, structured []byte) bool {
	var a, b bytes.Buffer
	return json.Compact(&a, []byte(text)) == nil && json.Compact(&b, structured) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

func indent(b []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return string(b)
	}
	return out.String()
}
