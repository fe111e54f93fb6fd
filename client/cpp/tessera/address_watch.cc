#include "client/cpp/tessera/address_watch.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// "ipv4:10.0.0.7:7171", "ipv6:[fd00::7]:7171".
std::string TargetOf(const addrinfo& address, const std::string& port) {
  char text[INET6_ADDRSTRLEN];
  if (address.ai_family == AF_INET6) {
    const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
    inet_ntop(AF_INET6, &ipv6->sin6_addr, text, sizeof(text));
    return absl::StrCat("ipv6:[", text, "]:", port);
  }
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address.ai_addr);
  inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof(text));
  return absl::StrCat("ipv4:", text, ":", port);
}

}  // namespace

absl::StatusOr<std::vector<Endpoint>> LookUpAddresses(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos) return absl::UnavailableError(absl::StrCat(name, " names no port"));
  std::string host = name.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port = name.substr(colon + 1);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(name, ": ", gai_strerror(error)));
  }
  std::vector<Endpoint> endpoints;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    // A server that has an address of either family is one server.
    if (address->ai_family == found->ai_family) endpoints.push_back({TargetOf(*address, port), name});
  }
  freeaddrinfo(found);
  return endpoints;
}

AddressWatch::AddressWatch(LookUpFn look_up, ServerSet* servers)
    : look_up_(std::move(look_up)), servers_(servers), thread_([this] { Run(); }) {}

AddressWatch::~AddressWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void AddressWatch::Refresh() {
  absl::MutexLock lock(&mutex_);
  wanted_ = true;
}

void AddressWatch::AwaitFirst(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&looked_), timeout);
}

void AddressWatch::Run() {
  while (true) {
    if (const absl::StatusOr<std::vector<Endpoint>> endpoints = look_up_(); endpoints.ok()) {
      servers_->Update(*endpoints);
    }
    absl::MutexLock lock(&mutex_);
    looked_ = true;
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kShortest)) return;
    mutex_.AwaitWithTimeout(absl::Condition(this, &AddressWatch::Wanted), kPeriod - kShortest);
    if (stopping_) return;
    wanted_ = false;
  }
}

}  // namespace tessera
