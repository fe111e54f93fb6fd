// Bounds of the message Stripe.
#ifndef TESSERA_PROTO_WIRE_STRIPE_LIMITS_H_
#define TESSERA_PROTO_WIRE_STRIPE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace tessera::wire {

inline constexpr size_t kTransferBytes = 16;  // Stripe.transfer
inline constexpr uint32_t kMinStripes = 2;    // Stripe.count
inline constexpr uint32_t kMaxStripes = 64;

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_STRIPE_LIMITS_H_
