package tessera

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var queuedCalls = regexp.MustCompile(`(?m)^tessera_stage_seconds_count\{[^}]*stage="queue"[^}]*\} (\d+)`)

// calls is how many Attend calls the server has had, by its own count.
func (s liveServer) calls(t *testing.T) int {
	t.Helper()
	answer, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := queuedCalls.FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no count of calls", s.metrics)
	}
	count, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// Three servers get a third of the calls each, within 10 %.
func TestLiveServersShareTheCalls(t *testing.T) {
	for name, settings := range map[string][]Option{"unary": nil, "streamed": {WithStreamThreshold(-1)}} {
		t.Run(name, func(t *testing.T) {
			servers := make([]liveServer, 3)
			targets := make([]string, len(servers))
			for i := range servers {
				servers[i] = startLiveServer(t, "--threads=1")
				targets[i] = servers[i].target
			}
			client := newTestClient(t, "ipv4:"+strings.Join(targets, ","), append(settings, WithEveryAddress())...)
			// gRPC begins with the first server that it has reached.
			for _, server := range servers {
				for tries := 0; server.calls(t) == 0; tries++ {
					if tries == 1000 {
						t.Fatalf("%s gets no calls", server.target)
					}
					result, err := Attend(t.Context(), client, meanCall(1, 4))
					checkMean(t, result, err)
				}
			}
			before := make([]int, len(servers))
			for i, server := range servers {
				before[i] = server.calls(t)
			}
			const callers, each = 10, 60
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for range each {
						result, err := Attend(t.Context(), client, meanCall(1, 4))
						checkMean(t, result, err)
					}
				})
			}
			group.Wait()
			mean := float64(callers*each) / float64(len(servers))
			for i, server := range servers {
				if share := float64(server.calls(t) - before[i]); share < 0.9*mean || share > 1.1*mean {
					t.Errorf("server %d has had %v calls, the mean is %v", i, share, mean)
				}
			}
		})
	}
}

// A server that goes away costs no call: the others take them.
func TestLiveServersStandInForOneAnother(t *testing.T) {
	stays := startLiveServer(t)
	// Nobody listens on port 1.
	client := newTestClient(t, "ipv4:127.0.0.1:1,"+stays.target, WithEveryAddress())
	for range 20 {
		result, err := Attend(t.Context(), client, meanCall(1, 4))
		checkMean(t, result, err)
	}
	if calls := stays.calls(t); calls != 20 {
		t.Errorf("it has had %d calls", calls)
	}
}

func TestAddressListsAreLiteral(t *testing.T) {
	for _, target := range []string{"ipv4:localhost:7171", "ipv4:[::1]:7171", "ipv6:127.0.0.1:7171",
		"ipv4:10.0.0.7:7171,", "ipv4:10.0.0.7:70000"} {
		if _, err := NewClient(target, WithEveryAddress()); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", target, err)
		}
	}
	for _, target := range []string{"ipv4:10.0.0.7:7171,10.0.0.8", "ipv6:[::1]:7171,::2", "tessera.tessera.svc:7171"} {
		newTestClient(t, target, WithEveryAddress())
	}
}
