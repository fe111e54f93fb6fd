#include "server/process/version.h"

namespace tessera {

const char* const kVersion = TESSERA_VERSION;
const char* const kRevision = TESSERA_REVISION;

}  // namespace tessera
