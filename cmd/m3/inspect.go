package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

func (c *cli) inspectCommand() *cobra.Command {
	var f directFlags
	cmd := &cobra.Command{
		Use:   "inspect SERVER",
		Short: "Connect to a server, and show what it offers and what is wrong with it",
		Long: `Connect to a server, and show what it offers and what is wrong with it.

SERVER is --command CMD --arg ARG … or --url URL; --server stdio and --server http may
stand in front. The exit code is 1 when the server fails.`,
		Example: "  m3 inspect --command npx --arg -y --arg @modelcontextprotocol/server-everything\n  m3 inspect --url http://127.0.0.1:8080/mcp",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.direct(cmd.Context(), &f, func() (work, error) {
				if len(args) > 0 {
					return nil, hint("name the server as --command CMD --arg ARG …, or as --url URL", "m3 inspect takes flags only, and got %q", args[0])
				}
				return func(ctx context.Context, d *direct) error { return d.inspect(ctx) }, nil
			})
		},
	}
	f.register(c, cmd)
	return cmd
}

// inspection is the result of m3 inspect: everything as the server sent it.
type inspection struct {
	Initialization    trace.JSON   `json:"initialization"`
	Tools             []trace.JSON `json:"tools"`
	Resources         []trace.JSON `json:"resources"`
	ResourceTemplates []trace.JSON `json:"resource_templates"`
	Prompts           []trace.JSON `json:"prompts"`
}

// inspect lists everything that the server declares. One list that fails does not hide the others.
func (d *direct) inspect(ctx context.Context) error {
	init := d.client.Initialization()
	d.text("%s %s, protocol %s", orElse(init.ServerName, d.client.Server()), orElse(init.ServerVersion, "(no version)"), init.ProtocolVersion)
	if init.Instructions != "" {
		d.text("instructions: %s", init.Instructions)
	}
	in := &inspection{Initialization: init.Raw, Tools: []trace.JSON{}, Resources: []trace.JSON{}, ResourceTemplates: []trace.JSON{}, Prompts: []trace.JSON{}}
	declared := capabilities(init.Capabilities)
	var errs []error
	if declared["tools"] {
		errs = append(errs, d.tools(ctx, in))
	}
	if declared["resources"] {
		errs = append(errs, d.resources(ctx, in), d.templates(ctx, in))
	}
	if declared["prompts"] {
		errs = append(errs, d.prompts(ctx, in))
	}
	if len(errs) == 0 {
		d.text("it declares no tools, resources or prompts")
	}
	b, err := json.Marshal(in)
	d.answer.Result = b
	return errors.Join(append(errs, err)...)
}

func capabilities(raw trace.JSON) map[string]bool {
	var caps map[string]json.RawMessage
	_ = raw.Decode(&caps) // what is no object declares nothing
	declared := map[string]bool{}
	for name, v := range caps {
		declared[name] = string(v) != "null"
	}
	return declared
}

func (d *direct) tools(ctx context.Context, in *inspection) error {
	tools, err := d.client.ListAllTools(ctx, nil)
	d.heading("tools", len(tools), err)
	for _, t := range tools {
		in.Tools = append(in.Tools, t.Raw)
		d.item(t.Name+signature(t.InputSchema), orElse(t.Description, t.Title), t.Malformed)
	}
	return err
}

func (d *direct) resources(ctx context.Context, in *inspection) error {
	resources, err := d.client.ListAllResources(ctx, nil)
	d.heading("resources", len(resources), err)
	for _, r := range resources {
		in.Resources = append(in.Resources, r.Raw)
		d.item(r.URI, orElse(r.Description, orElse(r.Title, r.Name)), r.Malformed)
	}
	return err
}

// templates lists the resource templates. Servers that have none often do not know the method: that is no fault.
func (d *direct) templates(ctx context.Context, in *inspection) error {
	templates, err := d.client.ListAllResourceTemplates(ctx, nil)
	var pe *m3.ProtocolError
	if errors.As(err, &pe) {
		if code, ok := pe.RPCCode(); ok && code == -32601 {
			return nil
		}
	}
	d.heading("resource templates", len(templates), err)
	for _, r := range templates {
		in.ResourceTemplates = append(in.ResourceTemplates, r.Raw)
		d.item(r.URITemplate, orElse(r.Description, orElse(r.Title, r.Name)), r.Malformed)
	}
	return err
}

func (d *direct) prompts(ctx context.Context, in *inspection) error {
	prompts, err := d.client.ListAllPrompts(ctx, nil)
	d.heading("prompts", len(prompts), err)
	for _, p := range prompts {
		in.Prompts = append(in.Prompts, p.Raw)
		var names []string
		for _, a := range p.Arguments {
			names = append(names, a.Name+optional(!a.Required))
		}
		d.item(p.Name+"("+strings.Join(names, ", ")+")", orElse(p.Description, p.Title), p.Malformed)
	}
	return err
}

func (d *direct) heading(what string, n int, err error) {
	if err == nil {
		d.text("\n%s (%d)", what, n)
	}
}

func (d *direct) item(name, description, malformed string) {
	first, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	line := "  " + short(name) + suffix(": ", short(first))
	if malformed != "" {
		line += "  [malformed: " + short(malformed) + "]"
	}
	d.text("%s", line)
}

// signature is a tool's parameters, in the order of the schema; a question mark marks the optional ones.
func signature(schema trace.JSON) string {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return "(?)" // the finding says what is wrong with it
	}
	required := map[string]bool{}
	for _, r := range s.Required {
		required[r] = true
	}
	var names []string
	for _, name := range keys(s.Properties) {
		names = append(names, name+optional(!required[name]))
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func optional(yes bool) string {
	if yes {
		return "?"
	}
	return ""
}

// keys are the member names of a JSON object in their order; none when it is not one.
func keys(object json.RawMessage) []string {
	dec := json.NewDecoder(strings.NewReader(string(object)))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var names []string
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return names
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return names
		}
		names = append(names, fmt.Sprint(name))
	}
	return names
}
