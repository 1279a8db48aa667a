package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/m3-go/m3/internal/providertest"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
)

// scriptProvider is the provider of judgements of one script. It repeats what it was told wherever it can: nothing of that may be kept.
type scriptProvider struct{ server *providertest.Server }

// providerCommand is "provider": it starts the script's provider, at $PROVIDER_URL. Every fifth request gets a 503.
func providerCommand(ts *testscript.TestScript, _ bool, _ []string) {
	p := ts.Value("provider").(*scriptProvider)
	p.server = providertest.New(deferring{ts}, func(r *providertest.Request) providertest.Reply {
		told := r.Header.Get("Authorization") + " " + userMessage(r.Body)
		if r.Number%5 == 0 {
			return providertest.Reply{Status: 503, Body: told}
		}
		answer, _ := json.Marshal(map[string]any{"score": 0.9, "rationale": "I was told " + told, "abstain": false})
		reply := providertest.Chat(string(answer))
		reply.Body = strings.Replace(reply.Body, "scripted-1", "scripted "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), 1)
		return reply
	})
	ts.Setenv("PROVIDER_URL", p.server.URL)
}

func userMessage(body []byte) string {
	var c struct{ Messages []struct{ Content string } }
	if json.Unmarshal(body, &c) != nil || len(c.Messages) != 2 {
		return ""
	}
	return c.Messages[1].Content
}

// deferring has a script end what a test would.
type deferring struct{ *testscript.TestScript }

func (d deferring) Helper()          {}
func (d deferring) Cleanup(f func()) { d.Defer(f) }

// reachedCommand is "reached N": so many requests came to the provider since the script began.
func reachedCommand(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value("provider").(*scriptProvider)
	if neg || len(args) != 1 || p.server == nil {
		ts.Fatalf("usage: reached N, after provider")
	}
	if n := len(p.server.Requests()); strconv.Itoa(n) != args[0] {
		ts.Fatalf("the provider was reached %d times, want %s", n, args[0])
	}
}

// verdictsCommand is "verdicts DB END…": how the evaluations in a database ended, each kind as "status=N" or "error_code=N", sorted; N may be a +.
func verdictsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: verdicts DB END=N…")
	}
	st, err := sqlite.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer st.Close()
	rows, err := st.Evaluations(context.Background(), &store.EvaluationQuery{})
	ts.Check(err)
	counts := map[string]int{"rows": len(rows)}
	for _, r := range rows {
		end := string(r.Status)
		if code, ok := r.Details["error_code"].(string); ok {
			end = code
		}
		counts[end]++
	}
	for _, want := range args[1:] {
		end, n, _ := strings.Cut(want, "=")
		if got := counts[end]; strconv.Itoa(got) != n && (n != "+" || got == 0) {
			ts.Fatalf("%d evaluations ended with %s, want %s; all of them: %s", got, end, n, fmt.Sprint(counts))
		}
		delete(counts, end)
	}
	if rest := slices.Sorted(maps.Keys(counts)); !slices.Equal(rest, []string{"rows"}) && len(rest) > 0 {
		ts.Fatalf("evaluations ended otherwise, too: %v", counts)
	}
}
