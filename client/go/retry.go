package tessera

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
)

// Attention has no side effects: every call may be tried again. gRPC retries unary calls by the service config and heeds
// the server's pushback; the calls of a stream end with statuses of their own, which gRPC does not see, and are retried
// by delay, the same rule.
const (
	attempts       = 5
	initialBackoff = 50 * time.Millisecond
	maxBackoff     = 2 * time.Second
)

// serviceConfig is gRPC's. It retries CANCELLED too: a server that shuts down may say so, and a call whose context is
// done is not tried again. everyAddress: calls take turns on all addresses of the name, and what is tried again goes to
// the next one, rather than to the first that answers.
func serviceConfig(everyAddress bool) string {
	balancing := "pick_first"
	if everyAddress {
		balancing = "round_robin"
	}
	return `{"loadBalancingConfig": [{"` + balancing + `": {}}], "methodConfig": [{
	"name": [{"service": "tessera.v1.AttentionService", "method": "Attend"}, {"service": "tessera.v1.ServerService"}],
	"retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.05s", "maxBackoff": "2s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED"]}}]}`
}

// delay is what to wait after attempt number attempt, from 1, has failed; false: the failure is final. The server's word
// goes before the client's own backoff.
func delay(failed *Error, attempt int) (time.Duration, bool) {
	if attempt >= attempts || (failed.Code != codes.Unavailable && failed.Code != codes.ResourceExhausted) {
		return 0, false
	}
	if failed.RetryAfter > 0 {
		return failed.RetryAfter, true
	}
	return rand.N(min(maxBackoff, initialBackoff<<(attempt-1))) + 1, true
}
