package tessera

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Option is a setting of a client.
type Option func(*options)

type options struct {
	everyAddress    bool
	connections     int
	tenant          string
	chunkBytes      int
	streamThreshold int64
	stripeThreshold int64
	credentials     credentials.TransportCredentials
	dial            []grpc.DialOption
	invalid         error // what an option found wrong
}

// maxStripes is the most streams that a call may be spread over.
const maxStripes = 64

func defaultOptions() options {
	return options{
		connections:     4,
		chunkBytes:      1 << 20,
		streamThreshold: 2 << 20,
		stripeThreshold: 16 << 20,
		credentials:     insecure.NewCredentials(),
	}
}

func (o *options) check() error {
	switch {
	case o.invalid != nil:
		return o.invalid
	case o.connections < 1 || o.connections > maxStripes:
		return invalid("connections is %d; must be from 1 to %d", o.connections, maxStripes)
	case o.chunkBytes < 1:
		return invalid("chunk_bytes is %d; must be positive", o.chunkBytes)
	}
	for _, c := range []byte(o.tenant) {
		if c < ' ' || c > '~' {
			return invalid("tenant is %q; must be printable ASCII", o.tenant)
		}
	}
	return nil
}

// WithEveryAddress makes each address that the target's name has a server of its own, on which calls take turns: for a
// headless Service, or a list "ipv4:10.0.0.7:7171,10.0.0.8:7171". Large calls are streamed to one of them, and not
// striped. Default: the first address that answers.
func WithEveryAddress() Option { return func(o *options) { o.everyAddress = true } }

// WithConnections sets the number of TCP connections, to each server, on which calls take turns. Default 4.
func WithConnections(n int) Option { return func(o *options) { o.connections = n } }

// WithTenant names whose fair share of the server the calls draw on. Default: the server's default tenant.
func WithTenant(tenant string) Option { return func(o *options) { o.tenant = tenant } }

// WithChunkBytes sets the payload of one message of a stream. Default 1 MiB.
func WithChunkBytes(n int) Option { return func(o *options) { o.chunkBytes = n } }

// WithStreamThreshold sets the bytes of q + k + v above which a call goes over a stream in chunks. Calls that make a
// message larger than the server takes do so in any case. Default 2 MiB; negative streams every call.
func WithStreamThreshold(n int64) Option { return func(o *options) { o.streamThreshold = n } }

// WithStripeThreshold sets the bytes of q + k + v from which a call is spread over all connections, which needs a target
// that is a single server: behind a load balancer set it to NeverStripe. Not with [WithEveryAddress]. Default 16 MiB.
func WithStripeThreshold(n int64) Option { return func(o *options) { o.stripeThreshold = n } }

// NeverStripe keeps each call on one connection.
const NeverStripe = int64(1) << 62

// WithTransportCredentials sets how connections are secured. Default: plaintext.
func WithTransportCredentials(c credentials.TransportCredentials) Option {
	return func(o *options) { o.credentials = c }
}

// WithDialOptions adds options of gRPC's own, such as credentials of each call or interceptors. They go before the
// client's where both set the same.
func WithDialOptions(dial ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, dial...) }
}
