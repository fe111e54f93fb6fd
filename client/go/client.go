package tessera

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

// Client calls a server over a few connections. Goroutines may share it.
type Client struct {
	options     options
	connections []*connection
	turn        atomic.Uint32

	ctx   context.Context // of everything that the client does
	close context.CancelCauseFunc

	limitMu sync.Mutex
	limit   int64 // largest message that the server takes; 0: it has not been asked
}

// NewClient returns a client of the server at target, a gRPC name such as "host:port" or "unix:path"; of several with
// [WithEveryAddress]. It does not wait for connections: a server that is not there shows as UNAVAILABLE from the calls.
func NewClient(target string, settings ...Option) (*Client, error) {
	o := defaultOptions()
	for _, set := range settings {
		set(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	if !hostIsLittleEndian {
		return nil, &Error{Code: codes.Unimplemented, Message: "tensors are little-endian, this machine is not"}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &Client{options: o, ctx: ctx, close: cancel}
	for range o.connections {
		conn, err := grpc.NewClient(target, dialOptions(&o)...)
		if err != nil {
			c.Close()
			return nil, invalid("target %q: %v", target, err)
		}
		c.connections = append(c.connections, newConnection(conn, c.outgoing(context.Background()), o.everyAddress))
	}
	return c, nil
}

func dialOptions(o *options) []grpc.DialOption {
	// A call larger than its retry buffer would not be tried again.
	retryBuffer := int(2*max(0, min(o.streamThreshold, math.MaxInt32/4))) + 1<<20
	ours := []grpc.DialOption{
		grpc.WithTransportCredentials(o.credentials),
		grpc.WithDefaultServiceConfig(serviceConfig(o.everyAddress)),
		grpc.WithResolvers(addressLists...),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallSendMsgSize(math.MaxInt32),
			grpc.MaxCallRecvMsgSize(math.MaxInt32),
			grpc.MaxRetryRPCBufferSize(retryBuffer),
		),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
	return append(ours, o.dial...)
}

// Close ends the calls in flight with CANCELLED, and the connections. Streams end well for the server, which has two
// seconds for it.
func (c *Client) Close() error {
	c.close(errClosed)
	for _, conn := range c.connections {
		conn.close()
	}
	return nil
}

// Conn is one of the connections, for stubs of other services.
func (c *Client) Conn() grpc.ClientConnInterface { return c.next().conn }

// Attend asks for the call's answer. It returns when it is there, when the context is done, which withdraws the call
// from the server, or when it has failed for good: with an *Error.
func Attend[T Element](ctx context.Context, c *Client, call Call[T]) (*Result[T], error) {
	prepared, err := prepare(&call)
	if err != nil {
		return nil, err
	}
	result := &Result[T]{O: NewTensor[T](call.Q.Tokens, call.Q.Heads, call.Q.HeadDim)}
	if call.ReturnLSE {
		result.LSE = make([]float32, call.Q.Tokens*call.Q.Heads)
	}
	wire, err := c.attend(ctx, prepared, answer{o: bytesOf(result.O.Data), lse: bytesOf(result.LSE)})
	if err != nil {
		return nil, err
	}
	result.Timing = timingOf(wire)
	return result, nil
}

func (c *Client) attend(ctx context.Context, call *preparedCall, into answer) (*tesserapb.AttendResult, error) {
	ctx, cancel := c.bind(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil, fromContext(ctx)
	}
	var result *tesserapb.AttendResult
	var failed *Error
	if c.unary(ctx, call) {
		result, failed = c.attendUnary(ctx, call, into)
	} else {
		result, failed = c.attendStreamed(ctx, call, into)
	}
	if failed != nil {
		return nil, failed
	}
	return result, nil
}

// surelyTaken is the size of messages that are sent without asking what the server takes: gRPC's own default limit.
const surelyTaken = 4 << 20

// unary tells whether the call goes as one message: the settings are for it, and the server takes it.
func (c *Client) unary(ctx context.Context, call *preparedCall) bool {
	if call.bytes > c.options.streamThreshold {
		return false
	}
	size := call.messageBytes()
	return size <= surelyTaken || size <= c.messageLimit(ctx)
}

// messageLimit is the largest message that the server takes, which is asked until it has answered once; 0 where it does
// not.
func (c *Client) messageLimit(ctx context.Context) int64 {
	c.limitMu.Lock()
	limit := c.limit
	c.limitMu.Unlock()
	if limit > 0 {
		return limit
	}
	info, err := c.ServerInfo(ctx)
	if err != nil {
		return 0
	}
	limit = int64(min(info.GetLimits().GetMaxMessageBytes(), math.MaxInt32))
	c.limitMu.Lock()
	c.limit = limit
	c.limitMu.Unlock()
	return limit
}

// ServerInfo describes the server.
func (c *Client) ServerInfo(ctx context.Context) (*tesserapb.GetServerInfoResponse, error) {
	return ask(ctx, c, func(ctx context.Context, conn grpc.ClientConnInterface) (*tesserapb.GetServerInfoResponse, error) {
		return tesserapb.NewServerServiceClient(conn).GetServerInfo(ctx, &tesserapb.GetServerInfoRequest{})
	})
}

// PlanTiles asks for the tile that fits on-chip memory, and for its traffic.
func (c *Client) PlanTiles(
	ctx context.Context, request *tesserapb.PlanTilesRequest,
) (*tesserapb.PlanTilesResponse, error) {
	return ask(ctx, c, func(ctx context.Context, conn grpc.ClientConnInterface) (*tesserapb.PlanTilesResponse, error) {
		return tesserapb.NewServerServiceClient(conn).PlanTiles(ctx, request)
	})
}

// Serving tells whether the service serves; "" is the server as a whole. NOT_FOUND where the server does not know it.
func (c *Client) Serving(ctx context.Context, service string) (bool, error) {
	response, err := ask(ctx, c,
		func(ctx context.Context, conn grpc.ClientConnInterface) (*grpc_health_v1.HealthCheckResponse, error) {
			request := &grpc_health_v1.HealthCheckRequest{Service: service}
			return grpc_health_v1.NewHealthClient(conn).Check(ctx, request)
		})
	return response.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, err
}

// ask makes one small call.
func ask[Response any](
	ctx context.Context, c *Client, call func(context.Context, grpc.ClientConnInterface) (*Response, error),
) (*Response, error) {
	ctx, cancel := c.bind(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil, fromContext(ctx)
	}
	response, err := call(c.outgoing(ctx), c.next().conn)
	if err != nil {
		return nil, fromRPC(ctx, err, nil)
	}
	return response, nil
}

// bind makes a context that ends with the client, too.
func (c *Client) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(errClosed) })
	if c.ctx.Err() != nil {
		cancel(errClosed)
	}
	return bound, func() { stop(); cancel(nil) }
}

// outgoing adds the client's metadata.
func (c *Client) outgoing(ctx context.Context) context.Context {
	if c.options.tenant == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "tessera-tenant", c.options.tenant)
}

// next is the connection whose turn it is.
func (c *Client) next() *connection {
	return c.connections[int(c.turn.Add(1)%uint32(len(c.connections)))]
}
