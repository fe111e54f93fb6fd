package tessera

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

// attendStreamed makes the call in chunks, and again where it fails for a while.
func (c *Client) attendStreamed(
	ctx context.Context, call *preparedCall, into answer,
) (*tesserapb.AttendResult, *Error) {
	for attempt := 1; ; attempt++ {
		result, failed := c.attemptStreamed(ctx, call, into)
		if failed == nil {
			return result, nil
		}
		wait, again := delay(failed, attempt)
		if deadline, ok := ctx.Deadline(); !again || ok && time.Until(deadline) <= wait {
			return nil, failed
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fromContext(ctx)
		}
	}
}

func (c *Client) attemptStreamed(
	ctx context.Context, call *preparedCall, into answer,
) (*tesserapb.AttendResult, *Error) {
	connections := []*connection{c.next()}
	if call.bytes >= c.options.stripeThreshold && !c.options.everyAddress {
		connections = c.connections
	}
	t := newTransfer(ctx, call, into, len(connections), c.options.chunkBytes)
	parts := make([]*part, len(connections))
	for i, conn := range connections {
		parts[i] = &part{transfer: t, index: i}
		conn.join(parts[i])
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		t.fail(fromContext(ctx))
	}
	if t.failed == nil {
		return t.results[0], nil
	}
	for _, p := range parts {
		p.session.withdraw(p)
		if t.failed.Code == codes.Unavailable {
			p.session.retire()
		}
	}
	return nil, t.failed
}

// transfer is one attempt of a streamed call. Once it has ended, neither the call's tensors nor its answer are touched.
type transfer struct {
	call       *preparedCall
	into       answer
	chunkBytes int
	deadline   time.Time // zero: none
	name       []byte    // of a striped call
	done       chan struct{}

	mu       sync.Mutex
	ended    bool
	failed   *Error // read without mu once done is closed
	tensor   int    // of the next chunk,
	from     int    // and where that starts in its tensor
	offset   int64  // and in the payload
	ranges   []byteRange
	results  []*tesserapb.AttendResult // by stream; read without mu once done is closed
	finished int                       // streams whose status has come
}

// byteRange is what a stream still has to bring of the answer.
type byteRange struct{ next, end int64 }

func newTransfer(ctx context.Context, call *preparedCall, into answer, streams, chunkBytes int) *transfer {
	t := &transfer{
		call:       call,
		into:       into,
		chunkBytes: chunkBytes,
		done:       make(chan struct{}),
		ranges:     make([]byteRange, streams),
		results:    make([]*tesserapb.AttendResult, streams),
	}
	t.deadline, _ = ctx.Deadline()
	if streams > 1 {
		t.name = make([]byte, 16)
		rand.Read(t.name) // never fails
	}
	total := into.bytes()
	share := (total + int64(streams) - 1) / int64(streams)
	for i := range t.ranges {
		t.ranges[i] = byteRange{min(int64(i)*share, total), min(int64(i+1)*share, total)}
	}
	return t
}

// fail ends the transfer unless it has ended.
func (t *transfer) fail(failed *Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(failed)
}

// end is fail. REQUIRES: mu is held.
func (t *transfer) end(failed *Error) {
	if !t.ended {
		t.ended, t.failed = true, failed
		close(t.done)
	}
}

// opening is a part's first message, without payload.
func (t *transfer) opening(index int) *tesserapb.AttendStreamRequest {
	message := &tesserapb.AttendStreamRequest{Header: t.call.header}
	if !t.deadline.IsZero() {
		message.TimeoutUs = uint64(max(1, time.Until(t.deadline).Microseconds()))
	}
	if t.name != nil {
		message.Stripe = &tesserapb.Stripe{Transfer: t.name, Index: uint32(index), Count: uint32(len(t.ranges))}
	}
	return message
}

// encodeNext hands the part's next message to encode, which copies it; the first one opens the part. Each chunk goes to
// the part that asks first. False: there is none, or the transfer has ended.
func (t *transfer) encodeNext(p *part, first bool, encode func(*tesserapb.AttendStreamRequest) error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.tensor < len(t.call.payload) && t.from == len(t.call.payload[t.tensor]) {
		t.tensor, t.from = t.tensor+1, 0
	}
	more := t.tensor < len(t.call.payload)
	if t.ended || !more && !first {
		return false
	}
	message := &tesserapb.AttendStreamRequest{}
	if first {
		message = t.opening(p.index)
	}
	message.Id = p.id
	if more {
		whole := t.call.payload[t.tensor]
		end := t.from + min(t.chunkBytes, len(whole)-t.from)
		message.PayloadOffset = uint64(t.offset)
		message.Payload = whole[t.from:end:end]
		t.offset += int64(end - t.from)
		t.from = end
	}
	if err := encode(message); err != nil {
		t.end(internal("a message cannot be encoded: %v", err))
		return false
	}
	return true
}

// absorb takes an answer to the part of that index. One with a status is the part's last.
func (t *transfer) absorb(index int, message *tesserapb.AttendStreamResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if status := message.GetStatus(); status.GetCode() != 0 {
		t.end(fromServer(&Error{
			Code:       codes.Code(status.GetCode()),
			Message:    status.GetMessage(),
			RetryAfter: time.Duration(status.GetRetryAfterMs()) * time.Millisecond,
		}))
		return
	}
	if result := message.GetResult(); result != nil {
		if result.GetOBytes() != uint64(len(t.into.o)) || result.GetLseBytes() != uint64(len(t.into.lse)) {
			t.end(internal("the answer has %d bytes of o and %d of LSE, not %d and %d",
				result.GetOBytes(), result.GetLseBytes(), len(t.into.o), len(t.into.lse)))
			return
		}
		t.results[index] = result
	}
	due := &t.ranges[index]
	if payload := message.GetPayload(); len(payload) > 0 {
		if message.GetPayloadOffset() != uint64(due.next) || int64(len(payload)) > due.end-due.next {
			t.end(internal("the answer has %d bytes at %d where those from %d to %d are due",
				len(payload), message.GetPayloadOffset(), due.next, due.end))
			return
		}
		t.into.write(due.next, payload)
		due.next += int64(len(payload))
	}
	if message.GetStatus() == nil {
		return
	}
	if t.results[index] == nil || due.next != due.end {
		t.end(internal("the answer has ended at byte %d, %d were due", due.next, due.end))
		return
	}
	if t.finished++; t.finished == len(t.ranges) {
		t.end(nil)
	}
}
