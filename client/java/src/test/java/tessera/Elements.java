package tessera;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Little-endian elements of the wire, widened. */
final class Elements {
  private Elements() {}

  /** REQUIRES: dtype is float32, float16 or bfloat16. */
  static double[] widen(String dtype, ByteString bytes) {
    ByteBuffer buffer = bytes.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    double[] elements = new double[bytes.size() / (dtype.equals("float32") ? 4 : 2)];
    for (int i = 0; i < elements.length; i++) {
      elements[i] =
          switch (dtype) {
            case "float32" -> buffer.getFloat();
            case "float16" -> half(buffer.getShort());
            case "bfloat16" -> Float.intBitsToFloat(buffer.getShort() << 16);
            default -> throw new IllegalArgumentException(dtype);
          };
    }
    return elements;
  }

  private static double half(short bits) {
    double sign = bits < 0 ? -1 : 1;
    int exponent = bits >> 10 & 0x1f;
    int significand = bits & 0x3ff;
    if (exponent == 0x1f) {
      return significand == 0 ? sign * Double.POSITIVE_INFINITY : Double.NaN;
    }
    return exponent == 0
        ? sign * Math.scalb((double) significand, -24)
        : sign * Math.scalb(1 + significand / 1024.0, exponent - 15);
  }
}
