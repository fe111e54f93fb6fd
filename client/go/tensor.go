package tessera

import "unsafe"

// Element is what tensors hold.
type Element interface {
	float32 | Float16 | BFloat16
}

// Tensor is packed, row-major [Tokens, Heads, HeadDim]: all rows of sequence 0, then all of sequence 1, ...
type Tensor[T Element] struct {
	Data                   []T // Tokens * Heads * HeadDim elements
	Tokens, Heads, HeadDim int
}

// NewTensor returns a tensor of zeros.
func NewTensor[T Element](tokens, heads, headDim int) Tensor[T] {
	return Tensor[T]{Data: make([]T, tokens*heads*headDim), Tokens: tokens, Heads: heads, HeadDim: headDim}
}

// Row returns the HeadDim elements of one token's head, as a view.
func (t Tensor[T]) Row(token, head int) []T {
	begin := (token*t.Heads + head) * t.HeadDim
	return t.Data[begin : begin+t.HeadDim : begin+t.HeadDim]
}

// hostIsLittleEndian tells whether elements lie in memory as they do on the wire.
var hostIsLittleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

// bytesOf views elements as their bytes.
func bytesOf[T Element](elements []T) []byte {
	var element T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements)*int(unsafe.Sizeof(element)))
}
