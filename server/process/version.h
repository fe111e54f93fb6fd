// What this build calls itself.
#ifndef TESSERA_SERVER_PROCESS_VERSION_H_
#define TESSERA_SERVER_PROCESS_VERSION_H_

namespace tessera {

// Semantic version.
extern const char* const kVersion;
// Source revision, "unknown" unless the build was told.
extern const char* const kRevision;

}  // namespace tessera

#endif  // TESSERA_SERVER_PROCESS_VERSION_H_
