package tessera

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"tessera.example/client/go/tesserapb"
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

func TestUnaryCallsAreTriedAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Canceled} {
		t.Run(code.String(), func(t *testing.T) {
			fake := &fakeServer{}
			failures := 4
			fake.unary = func(ctx context.Context, request *tesserapb.AttendRequest) (*tesserapb.AttendResponse, error) {
				if fake.mu.Lock(); failures > 0 {
					failures--
					fake.mu.Unlock()
					return nil, refuse(ctx, code, "1")
				}
				fake.mu.Unlock()
				return &tesserapb.AttendResponse{O: request.Q}, nil
			}
			client := newTestClient(t, startFake(t, fake))
			call := randomCall(t, 20_000) // 3.8 MiB: more than gRPC keeps for a retry unless told to
			client.options.streamThreshold = 8 << 20
			result, err := Attend(t.Context(), client, call)
			checkEcho(t, call, result, err)
		})
	}
}

func TestFinalFailures(t *testing.T) {
	for _, c := range []struct {
		server, client codes.Code
		attempts       int
	}{
		{codes.Unavailable, codes.Unavailable, 5},
		{codes.ResourceExhausted, codes.ResourceExhausted, 5},
		{codes.Canceled, codes.Unavailable, 5}, // nobody here has cancelled
		{codes.InvalidArgument, codes.InvalidArgument, 1},
		{codes.Internal, codes.Internal, 1},
	} {
		t.Run(c.server.String(), func(t *testing.T) {
			fake := &fakeServer{}
			fake.unary = func(ctx context.Context, _ *tesserapb.AttendRequest) (*tesserapb.AttendResponse, error) {
				return nil, refuse(ctx, c.server, "2")
			}
			tried := 0
			fake.stream = func(stream attendStream) error {
				for {
					id, _, _, err := receiveCall(stream)
					if err != nil {
						return nil
					}
					fake.mu.Lock()
					tried++
					fake.mu.Unlock()
					answer := &tesserapb.AttendStreamResponse{Id: id, Status: &tesserapb.CallStatus{
						Code: int32(c.server), Message: "as the test wants it", RetryAfterMs: 2}}
					if err := stream.Send(answer); err != nil {
						return err
					}
				}
			}
			target := startFake(t, fake)
			for name, way := range ways {
				_, err := Attend(t.Context(), newTestClient(t, target, way...), randomCall(t, 3))
				checkCode(t, err, c.client, "as the test wants it")
				if failed := err.(*Error); failed.RetryAfter != 2*time.Millisecond {
					t.Errorf("%s: pushback %v", name, failed.RetryAfter)
				}
			}
			fake.mu.Lock()
			defer fake.mu.Unlock()
			if fake.unaries != c.attempts || tried != c.attempts {
				t.Errorf("%d unary and %d streamed attempts, not %d", fake.unaries, tried, c.attempts)
			}
		})
	}
}

func TestBrokenStreamIsTriedAgain(t *testing.T) {
	for name, end := range map[string]error{
		"ended":       nil,
		"cancelled":   status.Error(codes.Canceled, "the server stops"),
		"unavailable": status.Error(codes.Unavailable, "the server stops"),
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeServer{}
			fake.stream = func(stream attendStream) error {
				fake.mu.Lock()
				first := fake.streams == 1
				fake.mu.Unlock()
				if first {
					_, _ = stream.Recv()
					return end
				}
				return echoCalls(stream)
			}
			client := newTestClient(t, startFake(t, fake), WithStreamThreshold(-1), WithConnections(1))
			call := randomCall(t, 100)
			result, err := Attend(t.Context(), client, call)
			checkEcho(t, call, result, err)
		})
	}
}

// Two calls share a stream; the second is answered first.
func TestAnswersInAnyOrder(t *testing.T) {
	fake := &fakeServer{}
	fake.stream = func(stream attendStream) error {
		first, _, firstPayload, err := receiveCall(stream)
		if err != nil {
			return err
		}
		second, _, secondPayload, err := receiveCall(stream)
		if err != nil {
			return err
		}
		_ = stream.Send(echo(second, secondPayload[:len(secondPayload)/3]))
		_ = stream.Send(echo(first, firstPayload[:len(firstPayload)/3]))
		_, _ = stream.Recv()
		return nil
	}
	client := newTestClient(t, startFake(t, fake), WithStreamThreshold(-1), WithConnections(1))
	var group sync.WaitGroup
	for range 2 {
		call := randomCall(t, 5) // one message each, so that they do not mix
		group.Go(func() {
			result, err := Attend(t.Context(), client, call)
			if err != nil || !bytes.Equal(bytesOf(call.Q.Data), bytesOf(result.O.Data)) {
				t.Errorf("not its own answer (%v)", err)
			}
		})
	}
	group.Wait()
	if fake.streams != 1 {
		t.Errorf("%d streams", fake.streams)
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

func receiveToEnd(stream attendStream) (int, error) {
	for n := 0; ; n++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// A server that does not read: the call ends all the same, and the stream is given up after a while.
func TestStalledStreamIsGivenUp(t *testing.T) {
	fake := &fakeServer{}
	gone := make(chan struct{})
	fake.stream = func(stream attendStream) error {
		<-stream.Context().Done()
		close(gone)
		return nil
	}
	client := newTestClient(t, startFake(t, fake), WithStreamThreshold(-1), WithConnections(1))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Attend(ctx, client, randomCall(t, 20_000))
	checkCode(t, err, codes.DeadlineExceeded, "")
	within(t, "giving up", gone)
}

func TestAnswersThatDoNotFit(t *testing.T) {
	result := &tesserapb.AttendResult{OBytes: 192}
	good := &tesserapb.CallStatus{}
	for name, answers := range map[string][]*tesserapb.AttendStreamResponse{
		"wrong size":    {{Result: &tesserapb.AttendResult{OBytes: 1}, Payload: []byte{0}, Status: good}},
		"short":         {{Result: result, Payload: make([]byte, 100), Status: good}},
		"no result":     {{Status: good}},
		"out of order":  {{Result: result, PayloadOffset: 4, Payload: make([]byte, 100)}},
		"beyond":        {{Result: result, Payload: make([]byte, 193)}},
		"chunk skipped": {{Result: result, Payload: make([]byte, 8)}, {PayloadOffset: 16, Payload: make([]byte, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeServer{}
			fake.stream = func(stream attendStream) error {
				id, _, _, err := receiveCall(stream)
				if err != nil {
					return err
				}
				for _, answer := range answers {
					answer.Id = id
					_ = stream.Send(answer)
				}
				_, err = receiveToEnd(stream)
				return err
			}
			client := newTestClient(t, startFake(t, fake), WithStreamThreshold(-1))
			_, err := Attend(t.Context(), client, randomCall(t, 3))
			checkCode(t, err, codes.Internal, "the answer has")
		})
	}
	fake := &fakeServer{}
	fake.unary = func(context.Context, *tesserapb.AttendRequest) (*tesserapb.AttendResponse, error) {
		return &tesserapb.AttendResponse{O: make([]byte, 191)}, nil
	}
	_, err := Attend(t.Context(), newTestClient(t, startFake(t, fake)), randomCall(t, 3))
	checkCode(t, err, codes.Internal, "the answer has 191 bytes")
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

// For a server, the streams of a client that closes end well.
func TestCloseEndsStreamsWell(t *testing.T) {
	ended := make(chan error, 1)
	fake := &fakeServer{}
	fake.stream = func(stream attendStream) error {
		id, _, payload, err := receiveCall(stream)
		if err != nil {
			return err
		}
		_ = stream.Send(echo(id, payload[:len(payload)/3]))
		_, err = receiveToEnd(stream)
		ended <- err
		return err
	}
	client := newTestClient(t, startFake(t, fake), WithStreamThreshold(-1))
	call := randomCall(t, 3)
	result, err := Attend(t.Context(), client, call)
	checkEcho(t, call, result, err)
	client.Close()
	if err := <-ended; err != nil {
		t.Errorf("the stream ended with %v", err)
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
