// A page of the KV cache, by its number.
//
// A page holds the K and V rows of `page_tokens` neighbouring tokens of one sequence, in all layers of the cache's
// profile. Where that memory is, and how the rows lie in it, is known to the engine alone.
#ifndef TESSERA_SERVER_CACHE_PAGE_H_
#define TESSERA_SERVER_CACHE_PAGE_H_

#include <cstdint>

namespace tessera {

// Where a page lies. Kernels read pages on the device; pages of idle sequences may wait on the host.
enum class Place : uint8_t { kDevice, kHost };
inline constexpr int kPlaces = 2;

// One page: its place and its number there, 0 to the place's pages - 1. Four bytes, for tables of many.
class PageRef {
 public:
  // No page.
  constexpr PageRef() = default;
  // REQUIRES: number >= 0.
  constexpr PageRef(Place place, int32_t number)
      : bits_(static_cast<uint32_t>(number) | (place == Place::kHost ? kHostBit : 0)) {}

  constexpr bool exists() const { return bits_ != kNone; }
  // REQUIRES: exists(), as does number.
  constexpr Place place() const { return (bits_ & kHostBit) != 0 ? Place::kHost : Place::kDevice; }
  constexpr int32_t number() const { return static_cast<int32_t>(bits_ & ~kHostBit); }

  friend constexpr bool operator==(PageRef, PageRef) = default;

 private:
  static constexpr uint32_t kHostBit = 0x8000'0000u;
  static constexpr uint32_t kNone = 0xffff'ffffu;

  uint32_t bits_ = kNone;
};

// Pages that a place may have at most; the number above is kept out of reach of kNone.
inline constexpr int32_t kMaxPages = 0x7fff'fffe;

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_PAGE_H_
