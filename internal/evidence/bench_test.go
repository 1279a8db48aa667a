package evidence

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/trace"
)

// cpuTimer reports the time that this process computed, which other processes of a busy machine do not change much.
func cpuTimer(b *testing.B, bytes int) func() {
	start := cpuTime(b)
	return func() {
		ns := float64(cpuTime(b)-start) / float64(b.N)
		b.ReportMetric(ns, "cpu-ns/op")
		if bytes > 0 {
			b.ReportMetric(float64(bytes)*1e3/ns, "cpu-MB/s")
		}
	}
}

func cpuTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// discard is a sink that counts.
type discard struct{ bytes int }

func (d *discard) AppendEvent(_ int64, _ trace.Kind, body []byte) error {
	d.bytes += len(body)
	return nil
}

func (d *discard) PutBlob(_ string, data []byte) error {
	d.bytes += len(data)
	return nil
}

var (
	request  = []byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + string(bytes.Repeat([]byte("x"), 50)) + `"}}}` + "\n")
	response = []byte(`{"jsonrpc":"2.0","id":12345,"result":{"content":[{"type":"text","text":"{\"echo\":\"` + string(bytes.Repeat([]byte("x"), 70)) + `\"}"}],"structuredContent":{"echo":"` + string(bytes.Repeat([]byte("x"), 50)) + `"},"isError":false}}` + "\n")
)

// benchValues returns n values as people have them: API keys with a common prefix.
func benchValues(n int) []string {
	rnd := rand.New(rand.NewPCG(9, 10))
	var out []string
	for range n {
		out = append(out, "sk-"+randomText(rnd, 20+rnd.IntN(30), plainChars))
	}
	return out
}

func BenchmarkTapeRecord(b *testing.B) {
	for _, secrets := range []int{0, 4} {
		b.Run(fmt.Sprintf("secrets=%d", secrets), func(b *testing.B) {
			tape := NewTape("e", &discard{}, mustRedactor(b, nil, benchValues(secrets)...), nil)
			sent := frameEvent(string(request))
			got := frameEvent(string(response))
			got.Kind = trace.KindMCPResponse
			b.ReportAllocs()
			defer cpuTimer(b, 0)()
			for b.Loop() {
				tape.Record(sent)
				tape.Record(got)
			}
		})
	}
}

// benchJSON looks like results of tools: keys, numbers, prose, JSON in strings.
func benchJSON(size int) []byte {
	rnd := rand.New(rand.NewPCG(11, 12))
	b := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[`)
	for len(b) < size {
		b = fmt.Appendf(b, `{"type":"text","text":"The quick brown fox jumps over the lazy dog, and describes keys of the model: {\"id\":%d,\"title\":\"%s\"}\n"},{"id":%d,"created":"2026-01-02T03:04:05Z","author":"%s","score":%f,"url":"https://example.com/%s"},`,
			rnd.Int32(), randomText(rnd, 20, plainChars), rnd.Int32(), randomText(rnd, 12, plainChars), rnd.Float64(), randomText(rnd, 8, plainChars))
	}
	return append(b, `{}]}}`...)
}

func BenchmarkRedactor(b *testing.B) {
	for _, size := range []int{200, 1 << 10, 64 << 10, 16 << 20} {
		in := benchJSON(size)
		if size == 200 {
			in = response
		}
		for _, secrets := range []int{0, 4, 64} {
			b.Run(fmt.Sprintf("bytes=%d/secrets=%d", size, secrets), func(b *testing.B) {
				r := mustRedactor(b, nil, benchValues(secrets)...)
				b.ReportAllocs()
				r.Bytes(in)
				defer cpuTimer(b, len(in))()
				for b.Loop() {
					if _, reds := r.Bytes(in); reds != nil {
						b.Fatal("hit")
					}
				}
			})
		}
	}
	b.Run("one sensitive key in 64 KiB", func(b *testing.B) {
		in := append(benchJSON(64<<10), `{"password":"x"}`...)
		r := NewRedactor(nil)
		defer cpuTimer(b, len(in))()
		for b.Loop() {
			if _, reds := r.Bytes(in); len(reds) != 1 {
				b.Fatal("no hit")
			}
		}
	})
}
