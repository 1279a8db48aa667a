package trace

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// calls makes an execution of n tool calls, each a request and its answer.
func calls(t testing.TB, n int) *Trace {
	b := build(t)
	for i := range n {
		id := fmt.Sprint(i)
		b.call(id, "echo", `{"message":"0123456789abcdef","nested":{"a":[1,2,3]}}`)
		b.result(id, `{"content":[{"type":"text","text":"0123456789abcdef"}],"structuredContent":{"message":"0123456789abcdef"},"isError":false}`)
	}
	return b.finish()
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemory holds the promise that a view of 100,000 calls is an index of 15 MB, and quick to make. It runs alone: it measures
// the heap.
func TestMemory(t *testing.T) {
	n, limit := 100_000, int64(15<<20)
	if raceDetector { // which makes every byte looked at a hundred times dearer
		n, limit = n/20, limit/20
	}
	tr := calls(t, n)
	before := heap()
	start := time.Now()
	v, err := tr.View()
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	grown := int64(heap()) - int64(before)
	t.Logf("index of %d events: %d bytes, made in %s", tr.Len(), grown, took)
	if grown > limit {
		t.Errorf("the index takes %d bytes", grown)
	}
	if took > 5*time.Second { // generous: the machine may be busy
		t.Errorf("the projection took %s", took)
	}
	if v.ToolCalls().Len() != n || v.RawMessages().Len() != 2*n || v.Timeline().Len() != 3*n+2 || v.Summary().SuccessfulToolCalls != n {
		t.Errorf("%d calls, %d frames, %d entries", v.ToolCalls().Len(), v.RawMessages().Len(), v.Timeline().Len())
	}
	for _, i := range []int{0, 4095, 4096, n / 2, n - 1} {
		c := v.ToolCalls().At(i)
		if c.RPCID.Value != RPCID(fmt.Sprint(i)) || c.Result.Value.Text() != "0123456789abcdef" {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	runtime.KeepAlive(v)
}

func BenchmarkProject(b *testing.B) {
	tr := calls(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := project(tr, tr.Len()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAt(b *testing.B) {
	tr := calls(b, 1000)
	v, err := tr.View()
	if err != nil {
		b.Fatal(err)
	}
	list, raws := v.ToolCalls(), v.RawMessages()
	b.Run("ToolCall", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if list.At(i%1000).ToolStatus != ToolSuccess {
				b.Fatal("no success")
			}
		}
	})
	b.Run("RawMessage", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if raws.At(i%2000).Verdict == "" {
				b.Fatal("no verdict")
			}
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	tr := calls(b, 1)
	enc, err := tr.log.AppendEvent(nil, 2)
	if err != nil {
		b.Fatal(err)
	}
	ev, err := DecodeEvent("e", enc)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Append", func(b *testing.B) {
		b.SetBytes(int64(len(enc)))
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendEvent(buf[:0], &ev)
		}
	})
	b.Run("Decode", func(b *testing.B) {
		b.SetBytes(int64(len(enc)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeEvent("e", enc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("DecodeSlow", func(b *testing.B) {
		b.SetBytes(int64(len(enc)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeSlow("e", enc); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkFinalized(b *testing.B) {
	tr := calls(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if !tr.Finalized() {
			b.Fatal("open")
		}
	}
}
