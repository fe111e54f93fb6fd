// The load's calls and answers as the protocol has them.
#ifndef TESSERA_CLIENT_CPP_LOAD_ATTEND_MESSAGES_H_
#define TESSERA_CLIENT_CPP_LOAD_ATTEND_MESSAGES_H_

#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/target.h"
#include "tessera/v1/attention.pb.h"

namespace tessera::load {

// `default_priority` is for a shape that names none.
v1::AttendHeader HeaderOf(const CallShape& shape, v1::Priority default_priority);

ServerTiming TimingOf(const v1::Timing& timing);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ATTEND_MESSAGES_H_
