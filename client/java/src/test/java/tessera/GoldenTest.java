package tessera;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import tessera.v1.Attention.AttendRequest;
import tessera.v1.Attention.AttendResponse;
import tessera.v1.AttentionServiceGrpc;

/** The vectors of tests/golden through Java's stubs, against the tessera-server that TESSERA_SERVER names. */
class GoldenTest {
  private static final Path VECTORS = Path.of("../../tests/golden/vectors");

  private record GoldenCase(
      String name, String dtype, int o_elements, int lse_elements,
      double atol, double rtol, double lse_atol, double lse_rtol) {}

  private record Refused(String name, String code, String names) {}

  private record Manifest(List<GoldenCase> cases, List<Refused> refused) {}

  private static Process server;
  private static ManagedChannel channel;
  private static Manifest manifest;

  @BeforeAll
  static void startServer() throws IOException {
    manifest = new Gson().fromJson(Files.readString(VECTORS.resolve("manifest.json")), Manifest.class);
    String binary = System.getenv("TESSERA_SERVER");
    assertTrue(binary != null, "TESSERA_SERVER must name a tessera-server");
    server =
        new ProcessBuilder(
                binary, "--listen=127.0.0.1:0", "--metrics_address=", "--backend=cpu", "--drain_grace=0s",
                "--log_level=warning")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String line = new BufferedReader(new InputStreamReader(server.getInputStream())).readLine();
    int port = new Gson().fromJson(line, JsonObject.class).get("grpc_port").getAsInt();
    channel = ManagedChannelBuilder.forAddress("127.0.0.1", port).usePlaintext().build();
  }

  @AfterAll
  static void stopServer() throws InterruptedException {
    if (channel != null) {
      channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    }
    if (server != null) {
      server.destroy();
      assertEquals(0, server.waitFor());
    }
  }

  @Test
  void answersAgree() throws IOException {
    assertTrue(manifest.cases().size() >= 19);
    AttentionServiceGrpc.AttentionServiceBlockingStub stub = AttentionServiceGrpc.newBlockingStub(channel);
    for (GoldenCase golden : manifest.cases()) {
      AttendRequest request = AttendRequest.parseFrom(read(golden.name() + ".request"));
      AttendResponse answer = stub.attend(request);
      check(golden, answer.getO(), answer.getLse());
    }
  }

  @Test
  void streamedAnswersAgree() throws IOException, InterruptedException {
    StreamedCalls stream = new StreamedCalls(AttentionServiceGrpc.newStub(channel));
    for (GoldenCase golden : manifest.cases()) {
      AttendRequest request = AttendRequest.parseFrom(read(golden.name() + ".request"));
      ByteString answer = stream.attend(request, /* chunkBytes= */ 3000);
      int o = request.getQ().size();
      check(golden, answer.substring(0, o), answer.substring(o));
    }
    stream.close();
  }

  @Test
  void refusalsNameTheField() throws IOException {
    assertTrue(manifest.refused().size() >= 15);
    for (Refused refused : manifest.refused()) {
      AttendRequest request;
      try {
        request = AttendRequest.parseFrom(read(refused.name() + ".request"));
      } catch (InvalidProtocolBufferException notParsed) {
        assertEquals("malformed", refused.names(), refused.name());
        continue;
      }
      StatusRuntimeException failed =
          assertThrows(
              StatusRuntimeException.class, () -> AttentionServiceGrpc.newBlockingStub(channel).attend(request));
      assertEquals(Status.Code.valueOf(refused.code()), failed.getStatus().getCode(), refused.name());
      String message = failed.getStatus().getDescription();
      assertTrue(Pattern.compile("\\b" + refused.names() + "\\b").matcher(message).find(), refused.name() + ": " + message);
    }
  }

  private static byte[] read(String name) throws IOException {
    return Files.readAllBytes(VECTORS.resolve(name));
  }

  private static void check(GoldenCase golden, ByteString o, ByteString lse) throws IOException {
    double[] expected = new double[golden.o_elements() + golden.lse_elements()];
    ByteBuffer.wrap(read(golden.name() + ".expected")).order(ByteOrder.LITTLE_ENDIAN).asDoubleBuffer().get(expected);
    double[] actualO = Elements.widen(golden.dtype(), o);
    double[] actualLse = Elements.widen("float32", lse);
    assertEquals(golden.o_elements(), actualO.length, golden.name());
    assertEquals(golden.lse_elements(), actualLse.length, golden.name());
    for (int i = 0; i < expected.length; i++) {
      boolean isO = i < actualO.length;
      double x = isO ? actualO[i] : actualLse[i - actualO.length];
      double y = expected[i];
      double allowed = isO ? golden.atol() + golden.rtol() * Math.abs(y) : golden.lse_atol() + golden.lse_rtol() * Math.abs(y);
      boolean near = Double.isFinite(y) && Math.abs(x - y) <= allowed;
      assertTrue(near || x == y || Double.isNaN(x) && Double.isNaN(y),
          golden.name() + ": element " + i + " is " + x + ", not " + y);
    }
  }
}
