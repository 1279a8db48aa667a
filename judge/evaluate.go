package judge

import (
	"context"
	"errors"

	"github.com/m3-go/m3/eval"
)

var _ eval.Judge = LLM{}

// Evaluate is an eval.Func: pass it to m3.Kit.RegisterEvaluator for subjects that hold more than the three texts. The subject is a JSON object with the
// texts input, expected and actual; its other members are not sent.
//
// A score of at least the threshold has passed, a lower one has failed. Everything else, abstentions included, is the status error with an
// error_code in the details. The Go error is always nil.
func (l LLM) Evaluate(ctx context.Context, e eval.Context) (eval.Decision, error) {
	s, err := l.settled()
	if err != nil {
		var bad *ConfigError
		errors.As(err, &bad)
		return eval.Decision{Status: eval.Error, Message: err.Error(), Provenance: &eval.Provenance{Kind: eval.ProvenanceJudge}, Details: map[string]any{"error_code": bad.Code(), "field": bad.Field}}, nil
	}
	var out outcome
	subject, bad := subjectOf(e.Subject)
	if bad != nil {
		out.err = bad
	} else {
		out = s.ask(ctx, subject)
	}
	return s.decision(&out), nil
}

// decision is the row of an outcome.
func (s *settings) decision(out *outcome) eval.Decision {
	d := eval.Decision{Details: s.details(out), Provenance: &eval.Provenance{Kind: eval.ProvenanceJudge, Provider: "openai", Model: s.Model,
		RubricID: s.RubricID, RubricVersion: s.RubricVersion, ConfigDigest: s.digest()}}
	d.Rationale = out.answer.Rationale
	switch {
	case out.err != nil:
		d.Status, d.Message = eval.Error, out.err.Message
	case *out.answer.Score >= s.threshold:
		d.Status, d.Score = eval.Passed, out.answer.Score
	default:
		d.Status, d.Score = eval.Failed, out.answer.Score
	}
	return d
}

// details are the facts about the request that are safe to keep.
func (s *settings) details(out *outcome) map[string]any {
	d := map[string]any{"prompt_version": PromptVersion, "response_mode": string(s.ResponseMode), "threshold": s.threshold,
		"attempts": out.attempts, "elapsed_ms": out.elapsed.Milliseconds()}
	if r := out.reply; r != nil {
		if len(r.usage) > 0 {
			d["usage"] = r.usage
		}
		if r.model != "" {
			d["returned_model"] = r.model
		}
	}
	if out.err != nil {
		for name, value := range out.err.Details {
			d[name] = value
		}
		d["error_code"] = out.err.Reason
	}
	return d
}
