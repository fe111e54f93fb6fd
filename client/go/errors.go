package tessera

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Error is a failed call. status.Code(err) and errors.As give its code; errors.Is(err, context.DeadlineExceeded) and
// errors.Is(err, context.Canceled) hold where they should.
type Error struct {
	Code    codes.Code
	Message string
	// RetryAfter is when the server expects to have room; 0 where it did not say. The client has tried again already.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("tessera: %v: %s", e.Code, e.Message) }

// GRPCStatus makes status.FromError and status.Code understand the error.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// Is tells of the context errors that a code stands for.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	case context.Canceled:
		return e.Code == codes.Canceled
	}
	return false
}

// errClosed is the cause of the contexts that Close cancels.
var errClosed = &Error{Code: codes.Canceled, Message: "the client is closed"}

func invalid(format string, arguments ...any) *Error {
	return &Error{Code: codes.InvalidArgument, Message: fmt.Sprintf(format, arguments...)}
}

func internal(format string, arguments ...any) *Error {
	return &Error{Code: codes.Internal, Message: fmt.Sprintf(format, arguments...)}
}

// fromContext is the error of a call whose context is done.
func fromContext(ctx context.Context) *Error {
	var cause *Error
	if errors.As(context.Cause(ctx), &cause) {
		return cause
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Code: codes.DeadlineExceeded, Message: "the context's deadline has passed"}
	}
	return &Error{Code: codes.Canceled, Message: "the context was cancelled"}
}

// fromRPC is the error of a failed RPC. A call whose context is not done was not cancelled here: CANCELLED is then the
// server's, which stops or has given the call up, and means UNAVAILABLE.
func fromRPC(ctx context.Context, err error, trailer metadata.MD) *Error {
	if ctx.Err() != nil {
		return fromContext(ctx)
	}
	if errors.Is(err, io.EOF) {
		return &Error{Code: codes.Unavailable, Message: "the server has ended the stream"}
	}
	failed := status.Convert(err)
	return fromServer(&Error{Code: failed.Code(), Message: failed.Message(), RetryAfter: pushback(trailer)})
}

func fromServer(failed *Error) *Error {
	if failed.Code == codes.Canceled {
		failed.Code = codes.Unavailable
		failed.Message = "the server has cancelled the call: " + failed.Message
	}
	return failed
}

// pushback is the time that the server asks to wait; 0 where it names none.
func pushback(trailer metadata.MD) time.Duration {
	for _, value := range trailer.Get("grpc-retry-pushback-ms") {
		if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return 0
}
