package tessera

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

func randomCall(t *testing.T, tokens int) Call[float32] {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	source := rand.New(rand.NewPCG(seed, 0))
	call := Call[float32]{Q: NewTensor[float32](tokens, 2, 8), K: NewTensor[float32](tokens, 2, 8),
		V: NewTensor[float32](tokens, 2, 8)}
	for _, tensor := range []Tensor[float32]{call.Q, call.K, call.V} {
		for i := range tensor.Data {
			tensor.Data[i] = float32(source.NormFloat64())
		}
	}
	return call
}

func checkEcho(t *testing.T, call Call[float32], result *Result[float32], err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(call.Q.Data), bytesOf(result.O.Data)) {
		t.Fatal("o is not q")
	}
}

func checkCode(t *testing.T, err error, code codes.Code, words string) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != code || status.Code(err) != code ||
		!strings.Contains(failed.Message, words) {
		t.Fatalf("%v, not %v with %q", err, code, words)
	}
}

// Both ways that a call can go.
var ways = map[string][]Option{"unary": nil, "stream": {WithStreamThreshold(-1), WithChunkBytes(100)}}

func TestEcho(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			fake := &fakeServer{}
			client := newTestClient(t, startFake(t, fake), append(way, WithTenant("blue"))...)
			for _, tokens := range []int{0, 1, 40} {
				call := randomCall(t, tokens)
				result, err := Attend(t.Context(), client, call)
				checkEcho(t, call, result, err)
			}
			fake.mu.Lock()
			defer fake.mu.Unlock()
			if wantUnary := name == "unary"; (fake.unaries > 0) != wantUnary || (fake.streams > 0) == wantUnary {
				t.Errorf("%d unary calls, %d streams", fake.unaries, fake.streams)
			}
			if len(fake.tenants) == 0 || fake.tenants[0] != "blue" {
				t.Errorf("tenants %v", fake.tenants)
			}
		})
	}
}

func TestCancelWithdrawsTheCall(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			started, withdrawn := make(chan struct{}), make(chan struct{})
			fake := &fakeServer{}
			fake.unary = func(ctx context.Context, _ *tesserapb.AttendRequest) (*tesserapb.AttendResponse, error) {
				close(started)
				<-ctx.Done()
				close(withdrawn)
				return nil, ctx.Err()
			}
			fake.stream = func(stream attendStream) error {
				id, _, _, err := receiveCall(stream)
				if err != nil {
					return err
				}
				close(started)
				message, err := stream.Recv()
				if err != nil || message.Id != id || !message.Cancel {
					return status.Error(codes.Internal, "no cancel")
				}
				close(withdrawn)
				return echoCalls(stream)
			}
			client := newTestClient(t, startFake(t, fake), append(way, WithConnections(1))...)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			_, err := Attend(ctx, client, randomCall(t, 3))
			checkCode(t, err, codes.Canceled, "")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v is not context.Canceled", err)
			}
			within(t, "withdrawal", withdrawn)
			if name == "stream" { // which goes on
				call := randomCall(t, 3)
				result, err := Attend(t.Context(), client, call)
				checkEcho(t, call, result, err)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			fake := &fakeServer{}
			told := make(chan uint64, 1)
			fake.unary = func(ctx context.Context, _ *tesserapb.AttendRequest) (*tesserapb.AttendResponse, error) {
				deadline, _ := ctx.Deadline()
				told <- uint64(time.Until(deadline).Microseconds())
				<-ctx.Done()
				return nil, ctx.Err()
			}
			fake.stream = func(stream attendStream) error {
				message, err := stream.Recv()
				if err != nil {
					return err
				}
				told <- message.TimeoutUs
				_, err = receiveToEnd(stream)
				return err
			}
			client := newTestClient(t, startFake(t, fake), way...)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := Attend(ctx, client, randomCall(t, 3))
			checkCode(t, err, codes.DeadlineExceeded, "")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not context.DeadlineExceeded", err)
			}
			select {
			case us := <-told:
				if us < 1 || us > 300_000 {
					t.Errorf("the server was told %d us", us)
				}
			default:
				t.Log("the deadline passed before the server had heard of the call")
			}
		})
	}
}

// The server is asked once what it takes, and only when a message is above 4 MiB.
func TestLargestMessageIsAsked(t *testing.T) {
	fake := &fakeServer{limit: 5 << 20}
	client := newTestClient(t, startFake(t, fake), WithStreamThreshold(32<<20))
	for _, c := range []struct{ tokens, unaries, streams, asked int }{
		{10_000, 1, 0, 0}, // 1.8 MiB
		{25_000, 2, 0, 1}, // 4.6 MiB
		{30_000, 2, 1, 1}, // 5.5 MiB
	} {
		call := randomCall(t, c.tokens)
		result, err := Attend(t.Context(), client, call)
		checkEcho(t, call, result, err)
		fake.mu.Lock()
		if fake.unaries != c.unaries || fake.streams != c.streams || fake.asked != c.asked {
			t.Errorf("%d tokens: %d unary calls, %d streams, %d questions", c.tokens, fake.unaries, fake.streams, fake.asked)
		}
		fake.mu.Unlock()
	}
}

func TestClose(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{})
			fake := &fakeServer{}
			fake.unary = func(ctx context.Context, _ *tesserapb.AttendRequest) (*tesserapb.AttendResponse, error) {
				close(started)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			fake.stream = func(stream attendStream) error {
				if _, err := stream.Recv(); err != nil {
					return err
				}
				close(started)
				_, err := receiveToEnd(stream)
				return err
			}
			client := newTestClient(t, startFake(t, fake), way...)
			go func() {
				<-started
				client.Close()
			}()
			_, err := Attend(t.Context(), client, randomCall(t, 3))
			checkCode(t, err, codes.Canceled, "the client is closed")
			_, err = Attend(t.Context(), client, randomCall(t, 3))
			checkCode(t, err, codes.Canceled, "the client is closed")
			_, err = client.ServerInfo(t.Context())
			checkCode(t, err, codes.Canceled, "the client is closed")
		})
	}
}

func TestSettingsOutOfRange(t *testing.T) {
	for name, option := range map[string]Option{
		"connections": WithConnections(0),
		"chunk_bytes": WithChunkBytes(0),
		"tenant":      WithTenant("a\nb"),
	} {
		_, err := NewClient("localhost:1", option)
		checkCode(t, err, codes.InvalidArgument, name)
	}
}

func TestCallsThatCannotBeRight(t *testing.T) {
	client := newTestClient(t, "localhost:1")
	for words, change := range map[string]func(*Call[float32]){
		"q has 3 elements":             func(c *Call[float32]) { c.Q.Data = c.Q.Data[:3] },
		"v has head_dim 16":            func(c *Call[float32]) { c.V = NewTensor[float32](4, 2, 16) },
		"k is [4, 2], v is [5, 2]":     func(c *Call[float32]) { c.V = NewTensor[float32](5, 2, 8) },
		"head_dim must be":             func(c *Call[float32]) { c.Q.HeadDim = 12 },
		"q_heads is 3":                 func(c *Call[float32]) { c.Q = NewTensor[float32](4, 3, 8) },
		"q_lengths add up to 3":        func(c *Call[float32]) { c.QLengths = []int{1, 2} },
		"q_lengths[1] is 4":            func(c *Call[float32]) { c.QLengths = []int{1, 4} },
		"q_lengths[0] is -1":           func(c *Call[float32]) { c.QLengths = []int{-1, 5} },
		"kv_lengths add up to 0":       func(c *Call[float32]) { c.QLengths, c.KVLengths = []int{4}, []int{0} },
		"q_lengths has 2 sequences":    func(c *Call[float32]) { c.QLengths, c.KVLengths = []int{2, 2}, []int{4} },
		"q is [4, 0, 8]; head_dim mus": func(c *Call[float32]) { c.Q.Heads = 0 },
	} {
		call := randomCall(t, 4)
		change(&call)
		_, err := Attend(t.Context(), client, call)
		checkCode(t, err, codes.InvalidArgument, words)
	}
}
