package judge

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Answer is what the judge says.
type Answer struct {
	// Score is between 0 and 1; nil exactly when the judge abstains.
	Score *float64 `json:"score"`
	// Rationale says why, in at most 2,000 characters.
	Rationale string `json:"rationale"`
	// Abstain says that what the judge was given cannot be assessed.
	Abstain bool `json:"abstain"`
}

const maxRationale = 2000

// parseAnswer reads the one object that the model was asked for. It is strict: three members, each once, nothing before and nothing after. An answer
// that can be read in two ways is no verdict. Only json_text allows one thing more, because models do it all the time: a Markdown fence around
// the whole.
func parseAnswer(text string, mode ResponseMode) (Answer, *Error) {
	if mode == JSONText {
		text = unfenced(text)
	}
	members, err := objectOf(text)
	if err != nil {
		return Answer{}, err
	}
	for _, name := range []string{"score", "rationale", "abstain"} {
		if _, ok := members[name]; !ok {
			return Answer{}, fail(CodeJudgeMalformed, "the judge's answer has no %s", name)
		}
	}
	if len(members) > 3 {
		return Answer{}, fail(CodeJudgeMalformed, "the judge's answer has members that were not asked for")
	}
	return answerOf(members)
}

// objectOf is the members of the object that is all of text.
func objectOf(text string) (map[string]any, *Error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fail(CodeJudgeMalformed, "the judge's answer is no JSON object")
	}
	members := map[string]any{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fail(CodeJudgeMalformed, "the judge's answer is no JSON object")
		}
		if _, twice := members[name.(string)]; twice {
			return nil, fail(CodeJudgeMalformed, "the judge's answer has a member twice")
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, fail(CodeJudgeMalformed, "the judge's answer is no JSON object")
		}
		members[name.(string)] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fail(CodeJudgeMalformed, "the judge's answer is no whole JSON object")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fail(CodeJudgeMalformed, "the judge's answer goes on after its JSON object")
	}
	return members, nil
}

// answerOf checks the types, the ranges, and that score and abstain agree.
func answerOf(members map[string]any) (Answer, *Error) {
	var a Answer
	var ok bool
	if a.Rationale, ok = members["rationale"].(string); !ok {
		return Answer{}, fail(CodeJudgeMalformed, "the rationale in the judge's answer is no text")
	}
	if n := utf8.RuneCountInString(a.Rationale); n > maxRationale {
		return Answer{}, fail(CodeJudgeMalformed, "the rationale in the judge's answer has %d characters: at most %d are allowed", n, maxRationale)
	}
	if a.Abstain, ok = members["abstain"].(bool); !ok {
		return Answer{}, fail(CodeJudgeMalformed, "abstain in the judge's answer is neither true nor false")
	}
	switch score := members["score"].(type) {
	case nil:
	case json.Number:
		n, err := strconv.ParseFloat(string(score), 64)
		if err != nil || !(n >= 0 && n <= 1) {
			return Answer{}, fail(CodeJudgeMalformed, "the score in the judge's answer does not lie between 0 and 1")
		}
		if n == 0 {
			n = 0 // and not -0
		}
		a.Score = &n
	default:
		return Answer{}, fail(CodeJudgeMalformed, "the score in the judge's answer is neither a number nor null")
	}
	if a.Abstain != (a.Score == nil) {
		return Answer{}, fail(CodeJudgeMalformed, "the judge's answer contradicts itself: the score is null exactly when the judge abstains")
	}
	return a, nil
}

// unfenced takes away a Markdown fence that is around the whole text: ```json, the object, ```.
func unfenced(text string) string {
	trimmed := strings.TrimSpace(text)
	body, ok := strings.CutPrefix(trimmed, "```")
	if !ok {
		return text
	}
	body, ok = strings.CutSuffix(body, "```")
	language, rest, more := strings.Cut(body, "\n")
	language = strings.TrimSpace(language)
	if !ok || !more || language != "" && !strings.EqualFold(language, "json") {
		return text
	}
	return rest
}

// usageOf keeps what is known of the tokens, and only that: other members could hold anything.
func usageOf(raw json.RawMessage) map[string]any {
	var u struct {
		Prompt     json.RawMessage `json:"prompt_tokens"`
		Completion json.RawMessage `json:"completion_tokens"`
		Total      json.RawMessage `json:"total_tokens"`
		PromptOf   struct {
			Cached json.RawMessage `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionOf struct {
			Reasoning json.RawMessage `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	_ = json.Unmarshal(raw, &u) // what cannot be read is not kept
	usage := map[string]any{}
	for name, n := range map[string]json.RawMessage{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Total,
		"cached_tokens": u.PromptOf.Cached, "reasoning_tokens": u.CompletionOf.Reasoning} {
		if tokens, err := strconv.ParseUint(string(bytes.TrimSpace(n)), 10, 53); err == nil {
			usage[name] = float64(tokens)
		}
	}
	return usage
}
