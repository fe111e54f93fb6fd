// Attend messages for tests, in generated protobuf classes: an independent client of the protocol.
#ifndef TESSERA_TESTS_SERVER_ATTEND_MESSAGES_H_
#define TESSERA_TESTS_SERVER_ATTEND_MESSAGES_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/v1/attention.pb.h"

namespace tessera::testing {

// A float32 header with these query lengths; keys are as many.
v1::AttendHeader Header(const std::vector<uint32_t>& lengths, uint32_t heads = 2, uint32_t head_dim = 16);

// One sequence of many query rows and a single key: its answer, 512 bytes a row, is large, and costs next to nothing.
v1::AttendHeader ManyRows(uint32_t rows);

// Bytes of q, and of o, as the header says; float32 or two-byte elements.
size_t QBytes(const v1::AttendHeader& header);
size_t KvBytes(const v1::AttendHeader& header);

// `bytes` bytes of float32 values in [-1, 1).
std::string RandomTensor(size_t bytes, std::mt19937_64& rng);

// A request whose tensors are random float32 values. REQUIRES: the header says float32.
v1::AttendRequest Request(const v1::AttendHeader& header, std::mt19937_64& rng);

// q, k and v of `request` end to end.
std::string Payload(const v1::AttendRequest& request);

// The request as stream messages of at most `chunk_bytes` of payload. The first carries the header.
std::vector<v1::AttendStreamRequest> StreamMessages(uint64_t id, const v1::AttendRequest& request, size_t chunk_bytes);

std::vector<float> Floats(const std::string& bytes);

// o of `request` in double precision by the definition. REQUIRES: float32, full mask, default scale, no softcap.
std::vector<double> ExpectedOutput(const v1::AttendRequest& request);

// The largest difference between `o` and the definition.
double Error(const v1::AttendRequest& request, const std::string& o);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_ATTEND_MESSAGES_H_
