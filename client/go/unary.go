package tessera

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

// attendUnary makes the call as one message; gRPC tries it again.
func (c *Client) attendUnary(
	ctx context.Context, call *preparedCall, into answer,
) (*tesserapb.AttendResult, *Error) {
	var trailer metadata.MD
	stub := tesserapb.NewAttentionServiceClient(c.next().conn)
	response, err := stub.Attend(c.outgoing(ctx), call.request(), grpc.Trailer(&trailer))
	if err != nil {
		return nil, fromRPC(ctx, err, trailer)
	}
	if len(response.GetO()) != len(into.o) || len(response.GetLse()) != len(into.lse) {
		return nil, internal("the answer has %d bytes of o and %d of LSE, not %d and %d",
			len(response.GetO()), len(response.GetLse()), len(into.o), len(into.lse))
	}
	copy(into.o, response.GetO())
	copy(into.lse, response.GetLse())
	return response.GetResult(), nil
}
