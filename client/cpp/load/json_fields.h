// What the JSON reports of all loads have in common.
#ifndef TESSERA_CLIENT_CPP_LOAD_JSON_FIELDS_H_
#define TESSERA_CLIENT_CPP_LOAD_JSON_FIELDS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/load/answer_check.h"
#include "client/cpp/load/histogram.h"
#include "nlohmann/json.hpp"

namespace tessera::load {

using Json = nlohmann::ordered_json;

// The schema's number, when, what and how.
Json Heading(absl::Time started, const std::string& load, const std::string& server,
             const std::vector<std::pair<std::string, std::string>>& configuration);

// `unit` divides the recorded integers: 1000 turns nanoseconds into microseconds.
Json Distribution(const Histogram& histogram, double unit);

Json Check(const CheckResult& check);

// Indented; text that is not UTF-8 is mended.
std::string Dump(const Json& json);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_JSON_FIELDS_H_
