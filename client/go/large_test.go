package tessera

import (
	"bytes"
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// meanCall is a call whose answer is known: all keys are zero, so that each row is the mean of v, which is rows of 1s.
func meanCall(tokens, keys int) Call[float32] {
	call := Call[float32]{Q: NewTensor[float32](tokens, 8, 64), K: NewTensor[float32](keys, 8, 64),
		V: NewTensor[float32](keys, 8, 64)}
	for i := range call.V.Data {
		call.V.Data[i] = 1
	}
	return call
}

func checkMean(t *testing.T, result *Result[float32], err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	for i, x := range result.O.Data {
		if x != 1 {
			t.Errorf("o[%d] is %v", i, x)
			return
		}
	}
}

// Calls above the largest message go over a stream, large ones striped, many at a time; small calls among them.
func TestLiveLargeCalls(t *testing.T) {
	client := newTestClient(t, startLive(t, "--max_message_bytes=4MiB"))
	var group sync.WaitGroup
	for _, tokens := range []int{1, 100, 3000, 12_000, 20_000, 1, 100, 3000} { // 2 KiB to 39 MiB of q
		call := meanCall(tokens, 4)
		group.Go(func() {
			result, err := Attend(t.Context(), client, call)
			checkMean(t, result, err)
		})
	}
	group.Wait()
}

// The same request gives the same bits whichever way it goes.
func TestLiveWaysAgree(t *testing.T) {
	target := startLive(t)
	call := randomCall(t, 300)
	call.Mask = Causal()
	var first []byte
	for _, way := range ways {
		result, err := Attend(t.Context(), newTestClient(t, target, way...), call)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = bytesOf(result.O.Data)
		} else if !bytes.Equal(first, bytesOf(result.O.Data)) {
			t.Error("the answers differ")
		}
	}
}

// 292 years end beyond 2262, where nanoseconds since 1970 overflow; the clients of C++ send at most 3 years.
func TestLiveFarDeadline(t *testing.T) {
	target := startLive(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(math.MaxInt64))
	defer cancel()
	for name, way := range ways {
		result, err := Attend(ctx, newTestClient(t, target, way...), meanCall(100, 4))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkMean(t, result, err)
	}
}

func TestLiveServer(t *testing.T) {
	client := newTestClient(t, startLive(t))
	info, err := client.ServerInfo(t.Context())
	if err != nil || info.GetBackend() != "cpu" || info.GetLimits().GetMaxMessageBytes() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	plan, err := client.PlanTiles(t.Context(), nil)
	if err != nil || plan.GetTile() != 128 || plan.GetTotalBytes() != 2*(4*128*128+128*128)+8*128 {
		t.Errorf("%v, %v", plan, err)
	}
	if serving, err := client.Serving(t.Context(), "tessera.v1.AttentionService"); !serving || err != nil {
		t.Errorf("serving %v, %v", serving, err)
	}
	_, err = client.Serving(t.Context(), "tessera.v1.Nothing")
	checkCode(t, err, codes.NotFound, "")
	call := randomCall(t, 3)
	call.Softcap = -1
	_, err = Attend(t.Context(), client, call)
	checkCode(t, err, codes.InvalidArgument, "softcap")
}
