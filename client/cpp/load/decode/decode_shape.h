// What a decode load does: sequences that are prefilled and then grow token by token through all layers.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_SHAPE_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_SHAPE_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::load {

// Lengths to draw from, in tokens.
struct LengthMix {
  enum class Kind {
    kList,     // one of `values`, each as likely
    kUniform,  // from values[0] to values[1], each as likely
    kSkewed,   // the same with a uniform logarithm: as many from 100 to 1000 as from 1000 to 10000
  };

  Kind kind = Kind::kList;
  std::vector<int64_t> values = {0};

  int64_t Draw(std::mt19937_64& random) const;
  int64_t longest() const;
};

// "512", "128/512/2048", "100..60000", "100~60000" (skewed). INVALID_ARGUMENT, naming `key`, for others and for lengths
// below `least`.
absl::StatusOr<LengthMix> ParseLengthMix(absl::string_view key, absl::string_view text, int64_t least);

struct DecodeShape {
  std::string profile;               // of the server
  int64_t q_heads = 0;               // a multiple of the profile's kv_heads; 0: as many
  int64_t layers = 0;                // 0: the profile's
  LengthMix prefill;                 // tokens that a sequence begins with
  LengthMix steps{.values = {128}};  // decode steps of a sequence
  int64_t tokens = 1;                // of each decode step
  int64_t chunk = 512;               // tokens of one prefill call
  int64_t group = 1;                 // sequences that go in step, in one call

  // Rows of q, and of k and v, in the largest step of one sequence.
  int64_t most_tokens() const;
};

// Parses "profile=main,heads=32,prefill=100~60000,steps=64". Keys: profile (required), heads, layers, prefill, steps,
// tokens, chunk, group. INVALID_ARGUMENT naming the key for anything else.
absl::StatusOr<DecodeShape> ParseDecodeShape(absl::string_view text);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_SHAPE_H_
