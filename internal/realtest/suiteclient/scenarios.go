package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/m3-go/m3"
)

// scenario is what m3 does in one scenario of the suite.
type scenario struct {
	options func(*m3.DirectOptions) // nil: none beyond the version
	work    func(ctx context.Context, c *m3.Client, j *job) error
}

var scenarios = map[string]scenario{
	"initialize":                          {work: listTools},
	"tools_call":                          {work: callEveryTool},
	"sse-retry":                           {work: callEveryTool},
	"elicitation-sep1034-client-defaults": {work: answerWithDefaults, options: elicitsForms},
	"request-metadata":                    {work: listTools, options: everyCapability},
	"sep-2322-client-request-state":       {work: continueCalls, options: elicitsForms},
	"http-standard-headers":               {work: useEverything},
	"http-custom-headers":                 {work: callAsTold},
	"http-invalid-tool-headers":           {work: callEveryTool},
	"json-schema-ref-no-deref":            {work: refuseSchema, options: validating},
	"json-schema-2020-12-preservation":    {work: echoSchema},
}

// listTools does no more than a session needs to be one.
func listTools(ctx context.Context, c *m3.Client, _ *job) error {
	_, err := usableTools(ctx, c)
	return err
}

// usableTools lists the tools, without those that m3 says may not be called.
func usableTools(ctx context.Context, c *m3.Client) ([]m3.ToolInfo, error) {
	all, err := c.ListAllTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	var usable []m3.ToolInfo
	for _, tool := range all {
		if tool.Malformed == "" {
			usable = append(usable, tool)
		}
	}
	return usable, nil
}

// callEveryTool calls the tools that may be called, each once with sample arguments.
func callEveryTool(ctx context.Context, c *m3.Client, _ *job) error {
	tools, err := usableTools(ctx, c)
	if err != nil {
		return err
	}
	var errs []error
	for _, tool := range tools {
		args, err := sample(tool.InputSchema)
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %s: %w", tool.Name, err))
			continue
		}
		errs = append(errs, call(ctx, c, tool.Name, args, nil))
	}
	return errors.Join(errs...)
}

// call calls a tool. Its own failure is an error too: the suite's tools do not fail when they are called as they want.
func call(ctx context.Context, c *m3.Client, tool string, args any, opts *m3.CallOptions) error {
	result, err := c.CallTool(ctx, tool, args, opts)
	if err == nil && result.IsError {
		err = fmt.Errorf("tool %s failed: %s", tool, result.Text())
	}
	return err
}

// sample makes arguments for a schema: a value of its type for each member that it requires.
func sample(schema []byte) (m3.Args, error) {
	var s struct {
		Required   []string
		Properties map[string]struct{ Type string }
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("its input schema: %w", err)
	}
	args := m3.Args{}
	for _, name := range s.Required {
		switch t := s.Properties[name].Type; t {
		case "string":
			args[name] = "m3"
		case "integer", "number":
			args[name] = 3
		case "boolean":
			args[name] = true
		default:
			return nil, fmt.Errorf("argument %s is of type %q, for which there is no sample", name, t)
		}
	}
	return args, nil
}

// useEverything uses each operation that has a header of its own.
func useEverything(ctx context.Context, c *m3.Client, j *job) error {
	errs := []error{callEveryTool(ctx, c, j)}
	resources, err := c.ListAllResources(ctx, nil)
	errs = append(errs, err)
	for _, r := range resources {
		_, err := c.ReadResource(ctx, r.URI, nil)
		errs = append(errs, err)
	}
	prompts, err := c.ListAllPrompts(ctx, nil)
	errs = append(errs, err)
	for _, p := range prompts {
		args := map[string]string{}
		for _, a := range p.Arguments {
			args[a.Name] = "m3"
		}
		_, err := c.GetPrompt(ctx, p.Name, args, nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// callAsTold calls the tools that the context names, with its arguments byte for byte.
func callAsTold(ctx context.Context, c *m3.Client, j *job) error {
	var told struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if err := json.Unmarshal(j.context, &told); err != nil {
		return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
	}
	if _, err := usableTools(ctx, c); err != nil {
		return err
	}
	var errs []error
	for _, t := range told.ToolCalls {
		errs = append(errs, call(ctx, c, t.Name, t.Arguments, nil))
	}
	return errors.Join(errs...)
}

// echoSchema sends a tool's schema back as it was listed.
func echoSchema(ctx context.Context, c *m3.Client, _ *job) error {
	tools, err := usableTools(ctx, c)
	if err != nil {
		return err
	}
	for _, tool := range tools {
		if tool.Name == "json_schema_2020_12_tool" {
			return call(ctx, c, "json_schema_echo", m3.Args{"schema": json.RawMessage(tool.InputSchema)}, nil)
		}
	}
	return errors.New("json_schema_2020_12_tool is not listed")
}

// refuseSchema calls tools whose schema points to another document. m3 fetches none, so the call must end here, unsent.
func refuseSchema(ctx context.Context, c *m3.Client, _ *job) error {
	tools, err := usableTools(ctx, c)
	if err != nil {
		return err
	}
	for _, tool := range tools {
		if _, err := c.CallTool(ctx, tool.Name, m3.Args{"id": "m3"}, nil); !errors.Is(err, m3.ErrValidation) {
			return fmt.Errorf("tool %s, whose schema cannot be used, was called all the same: %v", tool.Name, err)
		}
	}
	return nil
}

func validating(o *m3.DirectOptions) { o.ValidateSchemas = true }

// everyCapability declares whatever m3 can declare, so that the suite looks at the form of it.
func everyCapability(o *m3.DirectOptions) {
	o.Roots = []m3.Root{}
	o.Elicitation = m3.ElicitForm | m3.ElicitURL
	o.Sampling = func(context.Context, *m3.SamplingRequest) (*m3.SamplingResult, error) {
		return nil, errors.New("no sampling in this scenario")
	}
}
