package aggregate

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Sets of labels are stored as texts, each after its length: a version, the labels in their order, and the metadata as pairs, by key. Equal sets are equal
// bytes. Tens of thousands of them are read for one question; as JSON they would take longer than all the rest.

const labelsVersion = 1

// texts are the labels in the order in which they are stored.
func (l *RowLabels) texts() []*string {
	return []*string{&l.Run, &l.Suite, &l.Case, &l.Evaluator, &l.Kind, &l.SubjectKind, &l.JudgeProvider, &l.JudgeModel, &l.Rubric}
}

func (l *ExecutionLabels) texts() []*string {
	return []*string{&l.Run, &l.Suite, &l.Case, &l.Kind, &l.Server, &l.Transport, &l.Harness, &l.Model}
}

// Append appends the stored form.
func (l *RowLabels) Append(dst []byte) []byte { return appendLabels(dst, l.texts(), l.Metadata) }

// Append appends the stored form.
func (l *ExecutionLabels) Append(dst []byte) []byte { return appendLabels(dst, l.texts(), l.Metadata) }

// Decode reads what Append wrote. It keeps nothing of b.
func (l *RowLabels) Decode(b []byte, in *Interner) (err error) {
	l.Metadata, err = decodeLabels(b, l.texts(), in)
	return err
}

// Decode reads what Append wrote. It keeps nothing of b.
func (l *ExecutionLabels) Decode(b []byte, in *Interner) (err error) {
	l.Metadata, err = decodeLabels(b, l.texts(), in)
	return err
}

func appendLabels(dst []byte, texts []*string, metadata map[string]string) []byte {
	dst = append(dst, labelsVersion)
	for _, t := range texts {
		dst = appendText(dst, *t)
	}
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		dst = appendText(appendText(dst, k), metadata[k])
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

var errLabels = errors.New("aggregate: stored labels are damaged")

func decodeLabels(b []byte, texts []*string, in *Interner) (metadata map[string]string, err error) {
	if len(b) == 0 || b[0] != labelsVersion {
		return nil, errLabels
	}
	d := decoder{b: b[1:]}
	for _, t := range texts {
		*t = in.text(d.bytes())
	}
	for len(d.b) > 0 {
		if metadata == nil {
			metadata = map[string]string{}
		}
		k := in.text(d.bytes())
		metadata[k] = in.text(d.bytes())
	}
	if d.bad {
		return nil, errLabels
	}
	return metadata, nil
}
