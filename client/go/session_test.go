package tessera

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

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

func receiveToEnd(stream attendStream) (int, error) {
	for n := 0; ; n++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// A server that stops reading: the call ends all the same, and the stream is given up after a while.
func TestStalledStreamIsGivenUp(t *testing.T) {
	fake := &fakeServer{}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	fake.stream = func(stream attendStream) error {
		_, _ = stream.Recv() // 1 MiB of 3.7
		cancel()
		<-stream.Context().Done()
		close(gone)
		return nil
	}
	client := newTestClient(t, startFake(t, fake), WithStreamThreshold(-1), WithConnections(1))
	_, err := Attend(ctx, client, randomCall(t, 20_000))
	checkCode(t, err, codes.Canceled, "")
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
