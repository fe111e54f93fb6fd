// Both spellings of a flag's name: --head-dim and --head_dim.
#ifndef TESSERA_CLIENT_CPP_FLAGS_FLAG_NAMES_H_
#define TESSERA_CLIENT_CPP_FLAGS_FLAG_NAMES_H_

namespace tessera {

// "--slo-p99=5-ms" becomes "--slo_p99=5-ms", which absl::ParseCommandLine knows. In place; stops at "--".
void AcceptDashesInFlagNames(int argc, char** argv);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_FLAGS_FLAG_NAMES_H_
