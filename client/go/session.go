package tessera

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

// connection is a TCP connection, to each server, and the stream that is open on it.
type connection struct {
	conn   *grpc.ClientConn
	ctx    context.Context // of streams: has their metadata, is never done
	single bool            // streams carry one call: gRPC spreads streams over servers, not the calls on them

	mu      sync.Mutex
	current *session
	all     map[*session]struct{} // those not over
}

func newConnection(conn *grpc.ClientConn, ctx context.Context, single bool) *connection {
	return &connection{conn: conn, ctx: ctx, single: single, all: map[*session]struct{}{}}
}

// join adds the part to the open stream, or to a new one where that is full or takes none any more.
func (c *connection) join(p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || !c.current.register(p) {
		if c.current != nil {
			c.current.retire()
		}
		c.current = newSession(c.ctx)
		c.current.register(p)
		c.all[c.current] = struct{}{}
		go func(s *session) {
			s.run(c.conn)
			c.mu.Lock()
			delete(c.all, s)
			c.mu.Unlock()
		}(c.current)
		if c.single {
			c.current.retire()
		}
	}
	go p.session.send(p)
}

// close ends the streams, and then the connection. REQUIRES: the client's context is done.
func (c *connection) close() {
	c.mu.Lock()
	open := make([]*session, 0, len(c.all))
	for s := range c.all {
		open = append(open, s)
	}
	c.mu.Unlock()
	for _, s := range open {
		s.retire()
	}
	for _, s := range open {
		<-s.over
	}
	c.conn.Close()
}

// part is one call on one stream.
type part struct {
	transfer *transfer
	index    int // among the call's streams
	session  *session
	id       uint64
	opened   bool // a message has been sent; guarded by session.sendMu
}

const (
	// sessionCalls is how many calls one stream carries at a time; servers refuse more than 256.
	sessionCalls = 200
	// goodbyeTimeout is how long the server may take to end a stream that is half-closed.
	goodbyeTimeout = 2 * time.Second
	// stallTimeout is how long a withdrawal may wait to be sent before the stream is given up.
	stallTimeout = 2 * time.Second
)

// session is one AttendStream RPC, which many calls share. Each has a goroutine that sends; they take turns message by
// message, so that a small call passes a large one.
type session struct {
	ctx   context.Context // of the RPC
	stop  context.CancelFunc
	ready chan struct{} // closed when stream is open
	over  chan struct{} // closed when the RPC has ended

	sendMu     sync.Mutex // held to send, for one message
	stream     grpc.BidiStreamingClient[tesserapb.AttendStreamRequest, tesserapb.AttendStreamResponse]
	halfClosed bool // guarded by sendMu

	mu      sync.Mutex
	parts   map[uint64]*part
	lastID  uint64
	retired bool // takes no more calls
	leaving bool // retired, and its last call has gone
}

func newSession(ctx context.Context) *session {
	s := &session{ready: make(chan struct{}), over: make(chan struct{}), parts: map[uint64]*part{}}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s
}

// run opens the stream and reads it to its end, which is that of all its calls.
func (s *session) run(conn grpc.ClientConnInterface) {
	defer close(s.over)
	defer s.stop()
	stream, err := tesserapb.NewAttentionServiceClient(conn).AttendStream(s.ctx)
	if err == nil {
		s.stream = stream
		close(s.ready)
		err = s.receive()
	}
	s.mu.Lock()
	parts := s.parts
	s.parts, s.retired, s.leaving = nil, true, true
	s.mu.Unlock()
	for _, p := range parts {
		// Not the call's context, which may be done: whoever waits for the call sees that for itself.
		p.transfer.fail(fromRPC(context.Background(), err, nil))
	}
}

func (s *session) receive() error {
	for {
		message, err := s.stream.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		p := s.parts[message.GetId()]
		if p != nil && message.GetStatus() != nil {
			s.remove(p)
		}
		s.mu.Unlock()
		if p != nil { // else it has been withdrawn
			p.transfer.absorb(p.index, message)
		}
	}
}

// register gives the part an id; false where the stream takes no more calls.
func (s *session) register(p *part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired || len(s.parts) >= sessionCalls {
		return false
	}
	s.lastID++
	p.session, p.id = s, s.lastID
	s.parts[p.id] = p
	return true
}

// send sends the part's messages until there are none.
func (s *session) send(p *part) {
	select {
	case <-s.ready:
	case <-s.over:
		return
	case <-p.transfer.done:
		return
	}
	for s.sendNext(p) {
	}
}

func (s *session) sendNext(p *part) bool {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	// Encoding copies, so that nobody reads the call's tensors after its end however long the message then waits.
	var message grpc.PreparedMsg
	encode := func(m *tesserapb.AttendStreamRequest) error { return message.Encode(s.stream, m) }
	if s.halfClosed || !p.transfer.encodeNext(p, !p.opened, encode) {
		return false
	}
	p.opened = true
	return s.stream.SendMsg(&message) == nil // receive learns why the stream has ended
}

// withdraw forgets the part, and tells the server where it has heard of it. REQUIRES: its transfer has ended.
func (s *session) withdraw(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[p.id] != p {
		return // answered, or the stream is over
	}
	select {
	case <-s.ready:
	default:
		s.remove(p) // nothing has been sent, and nothing will be, for the transfer has ended
		return
	}
	// A server that does not read would never hear of it, and sendNext may hold a message that waits for it.
	stall := time.AfterFunc(stallTimeout, s.stop)
	go func() {
		defer stall.Stop()
		s.sendMu.Lock()
		defer s.sendMu.Unlock()
		if p.opened && !s.halfClosed {
			// An error is the stream's end, which receive learns of.
			_ = s.stream.Send(&tesserapb.AttendStreamRequest{Id: p.id, Cancel: true})
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(p)
	}()
}

// retire lets the stream end well when the calls that it has are over.
func (s *session) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.leave()
}

// remove forgets a part. REQUIRES: mu is held.
func (s *session) remove(p *part) {
	delete(s.parts, p.id)
	s.leave()
}

// leave half-closes a retired stream that has no calls, once, and gives it up where the server does not end it then.
// REQUIRES: mu is held.
func (s *session) leave() {
	if !s.retired || s.leaving || len(s.parts) > 0 {
		return
	}
	s.leaving = true
	select {
	case <-s.ready:
	default:
		s.stop() // nothing has been sent
		return
	}
	time.AfterFunc(goodbyeTimeout, s.stop)
	go func() {
		s.sendMu.Lock()
		defer s.sendMu.Unlock()
		s.halfClosed = true
		_ = s.stream.CloseSend() // always nil
	}()
}
