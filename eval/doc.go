// Package eval holds what evaluations are made of: an evaluator ([Func]) looks at a redacted, immutable [Context] and returns a [Decision]; what
// becomes of it is a [Result], one stored row. It also holds the questions that are asked of many rows ([Query], [Report]). The package is pure: it
// runs nothing and stores nothing.
//
// It is for test authors, who write evaluators and pass them to m3.Kit.RegisterEvaluator and m3.Kit.Evaluate:
//
//	kit.RegisterEvaluator("answer.v1", func(ctx context.Context, e eval.Context) (eval.Decision, error) {
//		var subject struct{ Answer string }
//		if err := e.Subject.Decode(&subject); err != nil {
//			return eval.Decision{}, err
//		}
//		return eval.PassIf(strings.Contains(subject.Answer, "5"), "the answer names the sum"), nil
//	})
//	result, err := kit.Evaluate(ctx, map[string]any{"answer": text}, "answer.v1", &m3.EvaluateOptions{Execution: client.ExecutionID()})
//
// # Registered, declared, required
//
// Three things are apart. Registering an evaluator makes a function available under a name, and requires nothing. A [Registration] with Required,
// among the options of an execution, declares that every execution made with them must be evaluated so: without a row it is pending while the test
// runs, and missing afterwards. Required on one call of Evaluate fixes that row's [Lineage]: an advisory evaluation of the same lineage afterwards stays
// required, and another subject under the same name does not become so.
//
// An evaluation never changes an execution: its outcome, the test's result, and the evaluation's verdict are three facts, stored apart.
package eval
