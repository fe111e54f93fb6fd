package tessera

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

// Priority says how urgently a call is wanted.
type Priority int

// Normal is the default.
const (
	Normal Priority = iota
	Low
	High
)

// Mask says which keys a row sees. The last row of a sequence stands at its last key. The zero Mask shows every key.
type Mask struct {
	kind        tesserapb.MaskKind
	left, right int64
}

// Unbounded is a side of a window that has no bound.
const Unbounded = -1

// Full shows every key to every row.
func Full() Mask { return Mask{} }

// Causal shows each row the keys up to its own position.
func Causal() Mask { return Mask{kind: tesserapb.MaskKind_MASK_KIND_CAUSAL} }

// Window shows each row its own position, left keys before it and right keys after it.
func Window(left, right int) Mask {
	return Mask{kind: tesserapb.MaskKind_MASK_KIND_WINDOW, left: int64(left), right: int64(right)}
}

// Call is softmax(scale * Q K^T + mask) V over one or more sequences. Its tensors must not change until Attend returns.
type Call[T Element] struct {
	Q    Tensor[T] // Q.Heads is a multiple of K.Heads
	K, V Tensor[T] // of one shape

	// Tokens of each sequence. Nil QLengths: the tensors are one sequence. Nil KVLengths: QLengths, or one sequence.
	QLengths, KVLengths []int

	Mask      Mask
	Scale     *float32 // factor on the scores; nil is 1/sqrt(HeadDim)
	Softcap   float32  // c > 0 makes scores c*tanh(score/c)
	ReturnLSE bool
	Priority  Priority
}

// Result is the answer to a Call.
type Result[T Element] struct {
	O      Tensor[T] // of Q's shape
	LSE    []float32 // [tokens, heads], natural log, -Inf for a row that sees no key; nil unless asked for
	Timing Timing
}

// Timing says where the server spent its time on a call, and how many calls shared its batch.
type Timing struct {
	Receive, Queue, Run time.Duration
	BatchRequests       int
}

// preparedCall is a checked Call of any element type.
type preparedCall struct {
	header  *tesserapb.AttendHeader
	payload [3][]byte // q, k, v: views of the caller's tensors
	bytes   int64     // of the payload
}

// answer is where o and LSE go, laid end to end on the wire.
type answer struct {
	o, lse []byte
}

func (a answer) bytes() int64 { return int64(len(a.o) + len(a.lse)) }

// write puts payload where it belongs. REQUIRES: it lies within the answer.
func (a answer) write(offset int64, payload []byte) {
	if offset < int64(len(a.o)) {
		n := copy(a.o[offset:], payload)
		offset, payload = offset+int64(n), payload[n:]
	}
	if len(payload) > 0 {
		copy(a.lse[offset-int64(len(a.o)):], payload)
	}
}

// prepare checks what can be checked without the server: that tensors and lengths fit each other.
func prepare[T Element](call *Call[T]) (*preparedCall, error) {
	tensors := map[string]Tensor[T]{"q": call.Q, "k": call.K, "v": call.V}
	for _, name := range []string{"q", "k", "v"} {
		t := tensors[name]
		if t.Tokens < 0 || t.Heads < 1 || t.HeadDim < 8 || t.HeadDim > 256 || t.HeadDim%8 != 0 {
			return nil, invalid("%s is [%d, %d, %d]; head_dim must be a multiple of 8 from 8 to 256, heads at least 1",
				name, t.Tokens, t.Heads, t.HeadDim)
		}
		if len(t.Data)/(t.Heads*t.HeadDim) != t.Tokens || len(t.Data)%(t.Heads*t.HeadDim) != 0 {
			return nil, invalid("%s has %d elements, not %d x %d x %d", name, len(t.Data), t.Tokens, t.Heads, t.HeadDim)
		}
		if t.HeadDim != call.Q.HeadDim {
			return nil, invalid("%s has head_dim %d, q has %d", name, t.HeadDim, call.Q.HeadDim)
		}
	}
	if call.K.Tokens != call.V.Tokens || call.K.Heads != call.V.Heads {
		return nil, invalid("k is [%d, %d], v is [%d, %d] tokens and heads; must be the same",
			call.K.Tokens, call.K.Heads, call.V.Tokens, call.V.Heads)
	}
	if call.Q.Heads%call.K.Heads != 0 {
		return nil, invalid("q_heads is %d; must be a multiple of kv_heads, %d", call.Q.Heads, call.K.Heads)
	}
	qLengths, kvLengths, err := lengths(call.Q.Tokens, call.K.Tokens, call.QLengths, call.KVLengths)
	if err != nil {
		return nil, err
	}
	prepared := &preparedCall{
		header: &tesserapb.AttendHeader{
			Dtype:     dataType[T](),
			QHeads:    uint32(call.Q.Heads),
			KvHeads:   uint32(call.K.Heads),
			HeadDim:   uint32(call.Q.HeadDim),
			QLengths:  qLengths,
			KvLengths: kvLengths,
			Options: &tesserapb.AttentionOptions{
				Scale:     call.Scale,
				Mask:      &tesserapb.Mask{Kind: call.Mask.kind, WindowLeft: call.Mask.left, WindowRight: call.Mask.right},
				Softcap:   call.Softcap,
				ReturnLse: call.ReturnLSE,
				Priority:  wirePriority(call.Priority),
			},
		},
		payload: [3][]byte{bytesOf(call.Q.Data), bytesOf(call.K.Data), bytesOf(call.V.Data)},
	}
	for _, part := range prepared.payload {
		prepared.bytes += int64(len(part))
	}
	return prepared, nil
}

// request is the call as one message, whose payload views the caller's tensors.
func (c *preparedCall) request() *tesserapb.AttendRequest {
	return &tesserapb.AttendRequest{Header: c.header, Q: c.payload[0], K: c.payload[1], V: c.payload[2]}
}

// messageBytes is the size of request().
func (c *preparedCall) messageBytes() int64 { return int64(proto.Size(c.request())) }

func lengths(qTokens, kvTokens int, qLengths, kvLengths []int) (q, kv []uint32, err error) {
	if qLengths == nil {
		qLengths = []int{qTokens}
		if kvLengths == nil {
			kvLengths = []int{kvTokens}
		}
	} else if kvLengths == nil {
		kvLengths = qLengths
	}
	if len(qLengths) != len(kvLengths) {
		return nil, nil, invalid("q_lengths has %d sequences, kv_lengths has %d; must be the same",
			len(qLengths), len(kvLengths))
	}
	if q, err = wireLengths("q", qTokens, qLengths); err != nil {
		return nil, nil, err
	}
	kv, err = wireLengths("kv", kvTokens, kvLengths)
	return q, kv, err
}

func wireLengths(name string, tokens int, lengths []int) ([]uint32, error) {
	wire := make([]uint32, len(lengths))
	left := tokens
	for i, n := range lengths {
		if n < 0 || n > left || int64(n) > 1<<32-1 {
			return nil, invalid("%s_lengths[%d] is %d, of %d tokens left", name, i, n, left)
		}
		wire[i] = uint32(n)
		left -= n
	}
	if left != 0 {
		return nil, invalid("%s_lengths add up to %d; the tensor has %d tokens", name, tokens-left, tokens)
	}
	return wire, nil
}

func dataType[T Element]() tesserapb.DataType {
	var element T
	switch any(element).(type) {
	case Float16:
		return tesserapb.DataType_DATA_TYPE_FLOAT16
	case BFloat16:
		return tesserapb.DataType_DATA_TYPE_BFLOAT16
	default:
		return tesserapb.DataType_DATA_TYPE_FLOAT32
	}
}

func wirePriority(priority Priority) tesserapb.Priority {
	switch priority {
	case Low:
		return tesserapb.Priority_PRIORITY_LOW
	case High:
		return tesserapb.Priority_PRIORITY_HIGH
	default:
		return tesserapb.Priority_PRIORITY_NORMAL
	}
}

func timingOf(result *tesserapb.AttendResult) Timing {
	timing := result.GetTiming()
	return Timing{
		Receive:       time.Duration(timing.GetReceiveNs()),
		Queue:         time.Duration(timing.GetQueueNs()),
		Run:           time.Duration(timing.GetRunNs()),
		BatchRequests: int(timing.GetBatchRequests()),
	}
}
