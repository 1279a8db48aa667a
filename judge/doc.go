// Package judge has a model judge the responses of a system under test.
//
// It is for test authors. A judge is asked by a kit, under the name of an evaluator:
//
//	j := judge.LLM{Model: "your-judge-model"} // the key is in M3_JUDGE_API_KEY
//	result, err := kit.JudgeResponse(ctx, j, judge.Subject{Input: prompt, Expected: "The answer is 5.", Actual: answer},
//		&m3.EvaluateOptions{Name: "answer.correctness.v1", Required: true})
//
// What comes back is one row: passed or failed, with the score and the rationale, or error with a code that says why there is no verdict. No failure of a
// provider is ever a verdict about the subject.
//
// The three texts are sent to the endpoint. Neither they nor the key are stored: not in the row, not in an error, not in a log. What a
// rationale quotes of them is taken out.
//
// How many requests a run may make in all is m3 test's --judge-max-requests, or M3_JUDGE_MAX_REQUESTS.
package judge
