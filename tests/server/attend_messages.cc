#include "tests/server/attend_messages.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace tessera::testing {
namespace {

size_t Sum(const google::protobuf::RepeatedField<uint32_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), size_t{0});
}

size_t ElementBytes(const v1::AttendHeader& header) { return header.dtype() == v1::DATA_TYPE_FLOAT32 ? 4 : 2; }

}  // namespace

v1::AttendHeader Header(const std::vector<uint32_t>& lengths, uint32_t heads, uint32_t head_dim) {
  v1::AttendHeader header;
  header.set_dtype(v1::DATA_TYPE_FLOAT32);
  header.set_q_heads(heads);
  header.set_kv_heads(heads);
  header.set_head_dim(head_dim);
  for (const uint32_t length : lengths) header.add_q_lengths(length);
  return header;
}

v1::AttendHeader ManyRows(uint32_t rows) {
  v1::AttendHeader header = Header({rows}, 8, 16);
  header.add_kv_lengths(1);
  return header;
}

size_t QBytes(const v1::AttendHeader& header) {
  return Sum(header.q_lengths()) * header.q_heads() * header.head_dim() * ElementBytes(header);
}

size_t KvBytes(const v1::AttendHeader& header) {
  const size_t tokens = header.kv_lengths().empty() ? Sum(header.q_lengths()) : Sum(header.kv_lengths());
  return tokens * header.kv_heads() * header.head_dim() * ElementBytes(header);
}

std::string RandomTensor(size_t bytes, std::mt19937_64& rng) {
  std::string tensor(bytes, '\0');
  std::uniform_real_distribution<float> values(-1, 1);
  for (size_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
    const float value = values(rng);
    std::memcpy(&tensor[i], &value, sizeof(float));
  }
  return tensor;
}

v1::AttendRequest Request(const v1::AttendHeader& header, std::mt19937_64& rng) {
  v1::AttendRequest request;
  *request.mutable_header() = header;
  request.set_q(RandomTensor(QBytes(header), rng));
  request.set_k(RandomTensor(KvBytes(header), rng));
  request.set_v(RandomTensor(KvBytes(header), rng));
  return request;
}

std::string Payload(const v1::AttendRequest& request) { return request.q() + request.k() + request.v(); }

std::vector<v1::AttendStreamRequest> StreamMessages(uint64_t id, const v1::AttendRequest& request, size_t chunk_bytes) {
  const std::string payload = Payload(request);
  std::vector<v1::AttendStreamRequest> messages;
  size_t offset = 0;
  do {
    v1::AttendStreamRequest& message = messages.emplace_back();
    message.set_id(id);
    if (offset == 0) *message.mutable_header() = request.header();
    message.set_payload_offset(offset);
    message.set_payload(payload.substr(offset, chunk_bytes));
    offset += chunk_bytes;
  } while (offset < payload.size());
  return messages;
}

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

std::vector<double> ExpectedOutput(const v1::AttendRequest& request) {
  const v1::AttendHeader& header = request.header();
  const std::vector<float> q = Floats(request.q());
  const std::vector<float> k = Floats(request.k());
  const std::vector<float> v = Floats(request.v());
  const size_t d = header.head_dim();
  const size_t q_heads = header.q_heads();
  const size_t kv_heads = header.kv_heads();
  std::vector<double> o(q.size(), 0.0);
  size_t q_start = 0;
  size_t kv_start = 0;
  for (int sequence = 0; sequence < header.q_lengths_size(); ++sequence) {
    const size_t rows = header.q_lengths(sequence);
    const size_t keys = header.kv_lengths().empty() ? rows : header.kv_lengths(sequence);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t head = 0; head < q_heads; ++head) {
        const size_t kv_head = head / (q_heads / kv_heads);
        const size_t q_at = ((q_start + row) * q_heads + head) * d;
        std::vector<double> weights(keys);
        double largest = -std::numeric_limits<double>::infinity();
        for (size_t key = 0; key < keys; ++key) {
          const size_t k_at = ((kv_start + key) * kv_heads + kv_head) * d;
          double dot = 0;
          for (size_t i = 0; i < d; ++i) dot += static_cast<double>(q[q_at + i]) * k[k_at + i];
          weights[key] = dot / std::sqrt(static_cast<double>(d));
          largest = std::max(largest, weights[key]);
        }
        double sum = 0;
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (size_t key = 0; key < keys; ++key) {
          const size_t v_at = ((kv_start + key) * kv_heads + kv_head) * d;
          for (size_t i = 0; i < d; ++i) o[q_at + i] += weights[key] / sum * v[v_at + i];
        }
      }
    }
    q_start += rows;
    kv_start += keys;
  }
  return o;
}

double Error(const v1::AttendRequest& request, const std::string& o) {
  const std::vector<double> expected = ExpectedOutput(request);
  const std::vector<float> actual = Floats(o);
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
  }
  return worst;
}

}  // namespace tessera::testing
