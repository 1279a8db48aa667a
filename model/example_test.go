package model_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// A provider can be used without the kit too: by a driver's own tests, or by a program that asks a model.
func Example() {
	ctx := context.Background()
	script := model.Script{model.Say("The answer is 5.").When(model.Text("2 and 3"))}
	provider, err := model.Scripted("booking", script).Provide(ctx, &harness.Provision{
		Dialects: []harness.Dialect{harness.OpenAIChat},
		Record:   func(x *harness.ModelExchange) { fmt.Println(x.Role, x.Step) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := provider.Endpoint()
	body := `{"model":"booking","messages":[{"role":"user","content":"add 2 and 3"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.BaseURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+at.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	fmt.Println(strings.Contains(string(answer), "The answer is 5."))
	fmt.Println(provider.Finish(ctx))
	// Output:
	// turn step 1 (say "The answer is 5.")
	// true
	// <nil>
}
