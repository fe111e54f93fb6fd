package tessera

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tessera-attention/tessera/client/go/tesserapb"
)

const vectors = "../../tests/golden/vectors"

type goldenCase struct {
	Name        string   `json:"name"`
	DType       string   `json:"dtype"`
	QHeads      int      `json:"q_heads"`
	KVHeads     int      `json:"kv_heads"`
	HeadDim     int      `json:"head_dim"`
	QLengths    []int    `json:"q_lengths"`
	KVLengths   []int    `json:"kv_lengths"`
	Scale       *float32 `json:"scale"`
	Mask        string   `json:"mask"`
	WindowLeft  int      `json:"window_left"`
	WindowRight int      `json:"window_right"`
	Softcap     float32  `json:"softcap"`
	ReturnLSE   bool     `json:"return_lse"`
	OElements   int      `json:"o_elements"`
	LSEElements int      `json:"lse_elements"`
	Atol        float64  `json:"atol"`
	Rtol        float64  `json:"rtol"`
	LSEAtol     float64  `json:"lse_atol"`
	LSERtol     float64  `json:"lse_rtol"`
}

type goldenManifest struct {
	Cases   []goldenCase `json:"cases"`
	Refused []struct {
		Name  string `json:"name"`
		Code  string `json:"code"`
		Names string `json:"names"`
	} `json:"refused"`
}

func readVector(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func loadManifest(t *testing.T) goldenManifest {
	t.Helper()
	var manifest goldenManifest
	if err := json.Unmarshal(readVector(t, "manifest.json"), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Cases) < 19 || len(manifest.Refused) < 15 {
		t.Fatalf("only %d cases and %d refusals", len(manifest.Cases), len(manifest.Refused))
	}
	return manifest
}

// goldenCall is the case as a caller would write it.
func goldenCall[T Element](t *testing.T, golden goldenCase, request *tesserapb.AttendRequest) Call[T] {
	t.Helper()
	tensor := func(payload []byte, heads int) Tensor[T] {
		var element T
		n := len(payload) / binary.Size(element)
		tensor := NewTensor[T](n/(heads*golden.HeadDim), heads, golden.HeadDim)
		copy(bytesOf(tensor.Data), payload)
		return tensor
	}
	masks := map[string]Mask{
		"full": Full(), "causal": Causal(), "window": Window(golden.WindowLeft, golden.WindowRight),
	}
	return Call[T]{
		Q:         tensor(request.GetQ(), golden.QHeads),
		K:         tensor(request.GetK(), golden.KVHeads),
		V:         tensor(request.GetV(), golden.KVHeads),
		QLengths:  golden.QLengths,
		KVLengths: golden.KVLengths,
		Mask:      masks[golden.Mask],
		Scale:     golden.Scale,
		Softcap:   golden.Softcap,
		ReturnLSE: golden.ReturnLSE,
	}
}

func checkAgrees(t *testing.T, what string, actual, expected []float64, atol, rtol float64) {
	t.Helper()
	if len(actual) != len(expected) {
		t.Fatalf("%s has %d elements, not %d", what, len(actual), len(expected))
	}
	for i, x := range actual {
		y := expected[i]
		if x == y || x != x && y != y || math.Abs(x-y) <= atol+rtol*math.Abs(y) && !math.IsInf(y, 0) {
			continue
		}
		t.Fatalf("%s[%d] is %v, not %v", what, i, x, y)
	}
}

func runGolden[T Element](t *testing.T, client *Client, golden goldenCase, widen func(T) float64) {
	var request tesserapb.AttendRequest
	if err := proto.Unmarshal(readVector(t, golden.Name+".request"), &request); err != nil {
		t.Fatal(err)
	}
	call := goldenCall[T](t, golden, &request)

	// The request is the one on file, but for defaults that may be left out or spelt out.
	prepared, err := prepare(&call)
	if err != nil {
		t.Fatal(err)
	}
	ours := proto.Clone(prepared.request()).(*tesserapb.AttendRequest)
	request.Header.KvLengths = ours.Header.KvLengths
	request.Header.Options.Priority = ours.Header.Options.Priority
	if ours.Header.Options.Mask.Kind == tesserapb.MaskKind_MASK_KIND_UNSPECIFIED {
		ours.Header.Options.Mask.Kind = tesserapb.MaskKind_MASK_KIND_FULL
	}
	// A NaN is unlike itself: payloads are compared as bytes, not as messages with floats.
	if !proto.Equal(ours, &request) {
		t.Fatalf("the header is %v, not %v", ours.GetHeader(), request.GetHeader())
	}

	result, err := Attend(t.Context(), client, call)
	if err != nil {
		t.Fatal(err)
	}
	raw := readVector(t, golden.Name+".expected")
	expected := make([]float64, len(raw)/8)
	for i := range expected {
		expected[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	if len(expected) != golden.OElements+golden.LSEElements {
		t.Fatalf("%d elements on file, not %d + %d", len(expected), golden.OElements, golden.LSEElements)
	}
	o := make([]float64, len(result.O.Data))
	for i, x := range result.O.Data {
		o[i] = widen(x)
	}
	lse := make([]float64, len(result.LSE))
	for i, x := range result.LSE {
		lse[i] = float64(x)
	}
	checkAgrees(t, "o", o, expected[:golden.OElements], golden.Atol, golden.Rtol)
	checkAgrees(t, "LSE", lse, expected[golden.OElements:], golden.LSEAtol, golden.LSERtol)
	if result.Timing.BatchRequests < 1 || result.Timing.Run <= 0 && golden.OElements > 0 {
		t.Errorf("timing %+v", result.Timing)
	}
}

func TestGoldenAnswers(t *testing.T) {
	target := startLive(t)
	for name, settings := range map[string][]Option{
		"unary":   nil,
		"stream":  {WithStreamThreshold(-1), WithChunkBytes(3000), WithStripeThreshold(NeverStripe)},
		"striped": {WithStreamThreshold(-1), WithChunkBytes(700), WithStripeThreshold(0), WithConnections(3)},
	} {
		t.Run(name, func(t *testing.T) {
			client := newTestClient(t, target, settings...)
			for _, golden := range loadManifest(t).Cases {
				t.Run(golden.Name, func(t *testing.T) {
					switch golden.DType {
					case "float32":
						runGolden(t, client, golden, func(x float32) float64 { return float64(x) })
					case "float16":
						runGolden(t, client, golden, func(x Float16) float64 { return float64(x.Float32()) })
					case "bfloat16":
						runGolden(t, client, golden, func(x BFloat16) float64 { return float64(x.Float32()) })
					default:
						t.Fatalf("dtype %s", golden.DType)
					}
				})
			}
		})
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(message any) ([]byte, error) { return message.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (rawCodec) Name() string { return "raw" }

var _ encoding.Codec = rawCodec{}

func TestGoldenRefusals(t *testing.T) {
	conn, err := grpc.NewClient(startLive(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, refused := range loadManifest(t).Refused {
		var answer []byte
		err := conn.Invoke(t.Context(), tesserapb.AttentionService_Attend_FullMethodName,
			readVector(t, refused.Name+".request"), &answer, grpc.ForceCodec(rawCodec{}))
		failed := status.Convert(err)
		if refused.Code != "INVALID_ARGUMENT" || failed.Code().String() != "InvalidArgument" {
			t.Errorf("%s: %v, not %s", refused.Name, err, refused.Code)
		}
		if !regexp.MustCompile(`\b` + refused.Names + `\b`).MatchString(failed.Message()) {
			t.Errorf("%s: %q does not name %s", refused.Name, failed.Message(), refused.Names)
		}
	}
}
