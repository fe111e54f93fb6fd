// A server's shared memory, mapped into this process.
#ifndef TESSERA_CLIENT_CPP_TESSERA_SHARED_MAPPING_H_
#define TESSERA_CLIENT_CPP_TESSERA_SHARED_MAPPING_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tessera {

class SharedMapping {
 public:
  // `path`, `name` and `bytes` as RegionOpened has them. FAILED_PRECONDITION where the path does not lead to the memory
  // of that name, as on another host or in another container, or this user may not open it. A file that is not that
  // memory is never opened.
  static absl::StatusOr<std::unique_ptr<SharedMapping>> Open(const std::string& path, const std::string& name,
                                                             size_t bytes);
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  ~SharedMapping();

  absl::Span<std::byte> memory() const { return memory_; }

 private:
  explicit SharedMapping(absl::Span<std::byte> memory) : memory_(memory) {}

  const absl::Span<std::byte> memory_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_SHARED_MAPPING_H_
