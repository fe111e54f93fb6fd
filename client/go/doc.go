// Package tessera is the client of a Tessera server: attention as a network service.
//
//	client, err := tessera.NewClient("localhost:7171")
//	defer client.Close()
//	q := tessera.NewTensor[float32](128, 8, 64) // tokens, heads, head_dim
//	result, err := tessera.Attend(ctx, client, tessera.Call[float32]{Q: q, K: q, V: q, Mask: tessera.Causal()})
//
// Start at [Client], [Attend] and [Call]; the messages of the protocol are in package tesserapb. Inside, a call goes
// client.go, then unary.go or transfer.go, which cuts it into chunks and sends them over the streams of session.go.
package tessera
