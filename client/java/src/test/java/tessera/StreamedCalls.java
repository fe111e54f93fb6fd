package tessera;

import com.google.protobuf.ByteString;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import tessera.v1.Attention.AttendRequest;
import tessera.v1.Attention.AttendStreamRequest;
import tessera.v1.Attention.AttendStreamResponse;
import tessera.v1.AttentionServiceGrpc;

/** One AttendStream, whose calls come one after the other, each in chunks. */
final class StreamedCalls {
  private final BlockingQueue<AttendStreamResponse> answers = new LinkedBlockingQueue<>();
  private final StreamObserver<AttendStreamRequest> requests;
  private long lastId = 0;

  StreamedCalls(AttentionServiceGrpc.AttentionServiceStub stub) {
    requests =
        stub.attendStream(
            new StreamObserver<>() {
              @Override
              public void onNext(AttendStreamResponse answer) {
                answers.add(answer);
              }

              @Override
              public void onError(Throwable error) {
                // attend finds no answer, and says so.
              }

              @Override
              public void onCompleted() {}
            });
  }

  /** o and LSE, end to end. */
  ByteString attend(AttendRequest call, int chunkBytes) throws InterruptedException {
    long id = ++lastId;
    ByteString payload = call.getQ().concat(call.getK()).concat(call.getV());
    AttendStreamRequest.Builder message = AttendStreamRequest.newBuilder().setId(id).setHeader(call.getHeader());
    int at = 0;
    do {
      int end = Math.min(at + chunkBytes, payload.size());
      requests.onNext(message.setPayloadOffset(at).setPayload(payload.substring(at, end)).build());
      message = AttendStreamRequest.newBuilder().setId(id);
      at = end;
    } while (at < payload.size());

    ByteString answer = ByteString.EMPTY;
    while (true) {
      AttendStreamResponse part = answers.poll(20, TimeUnit.SECONDS);
      if (part == null) {
        throw new IllegalStateException("no answer to call " + id);
      }
      if (part.getId() != id || part.getStatus().getCode() != 0) {
        throw new IllegalStateException("call " + id + ": " + part.getStatus());
      }
      answer = answer.concat(part.getPayload());
      if (part.hasStatus()) {
        return answer;
      }
    }
  }

  void close() {
    requests.onCompleted();
  }
}
