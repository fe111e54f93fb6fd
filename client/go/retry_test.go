package tessera

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

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
