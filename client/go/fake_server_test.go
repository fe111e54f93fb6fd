package tessera

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

type attendStream = grpc.BidiStreamingServer[tesserapb.AttendStreamRequest, tesserapb.AttendStreamResponse]

// fakeServer does what a test tells it to; without, a call's o is its q.
type fakeServer struct {
	tesserapb.UnimplementedAttentionServiceServer
	tesserapb.UnimplementedServerServiceServer

	unary  func(context.Context, *tesserapb.AttendRequest) (*tesserapb.AttendResponse, error)
	stream func(attendStream) error
	limit  uint64

	mu      sync.Mutex
	unaries int
	streams int
	asked   int
	tenants []string
}

func startFake(t *testing.T, fake *fakeServer) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	tesserapb.RegisterAttentionServiceServer(server, fake)
	tesserapb.RegisterServerServiceServer(server, fake)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func (f *fakeServer) count(n *int, ctx context.Context) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
	incoming, _ := metadata.FromIncomingContext(ctx)
	f.tenants = append(f.tenants, incoming.Get("tessera-tenant")...)
	return *n
}

func (f *fakeServer) Attend(
	ctx context.Context, request *tesserapb.AttendRequest,
) (*tesserapb.AttendResponse, error) {
	f.count(&f.unaries, ctx)
	if f.unary != nil {
		return f.unary(ctx, request)
	}
	return &tesserapb.AttendResponse{
		Result: &tesserapb.AttendResult{OBytes: uint64(len(request.Q))}, O: request.Q,
	}, nil
}

func (f *fakeServer) AttendStream(stream attendStream) error {
	f.count(&f.streams, stream.Context())
	if f.stream != nil {
		return f.stream(stream)
	}
	return echoCalls(stream)
}

func (f *fakeServer) GetServerInfo(
	ctx context.Context, _ *tesserapb.GetServerInfoRequest,
) (*tesserapb.GetServerInfoResponse, error) {
	f.count(&f.asked, ctx)
	return &tesserapb.GetServerInfoResponse{Limits: &tesserapb.Limits{MaxMessageBytes: f.limit}}, nil
}

// receiveCall collects one call that has the stream to itself: its id, and q + k + v.
func receiveCall(stream attendStream) (id uint64, header *tesserapb.AttendHeader, payload []byte, err error) {
	for {
		message, err := stream.Recv()
		if err != nil {
			return 0, nil, nil, err
		}
		if message.Header != nil {
			header = message.Header
			id = message.Id
			rows, keys := uint32(0), uint32(0)
			for i := range header.QLengths {
				rows, keys = rows+header.QLengths[i], keys+header.KvLengths[i]
			}
			payload = make([]byte, 0, 4*header.HeadDim*(rows*header.QHeads+2*keys*header.KvHeads))
		}
		payload = append(payload, message.Payload...)
		if len(payload) == cap(payload) {
			return id, header, payload, nil
		}
	}
}

// echoCalls answers calls one after the other.
func echoCalls(stream attendStream) error {
	for {
		id, _, payload, err := receiveCall(stream)
		if err != nil {
			return nil
		}
		if err := stream.Send(echo(id, payload[:len(payload)/3])); err != nil {
			return err
		}
	}
}

func echo(id uint64, o []byte) *tesserapb.AttendStreamResponse {
	return &tesserapb.AttendStreamResponse{
		Id:      id,
		Result:  &tesserapb.AttendResult{OBytes: uint64(len(o))},
		Payload: o,
		Status:  &tesserapb.CallStatus{},
	}
}

// refuse is a failure of a unary call, with the server's pushback.
func refuse(ctx context.Context, code codes.Code, pushbackMs string) error {
	if pushbackMs != "" {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushbackMs))
	}
	return status.Error(code, "as the test wants it")
}

// within fails the test where `done` takes longer than anything here should.
func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not within 20 s", what)
	}
}
