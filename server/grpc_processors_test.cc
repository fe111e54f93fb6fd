#include "server/grpc_processors.h"

#include <dlfcn.h>
#include <grpc/support/cpu.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "grpcpp/grpcpp.h"

namespace tessera {
namespace {

TEST(GrpcProcessorsTest, HalfButTwelveAtLeastOrAll) {
  EXPECT_EQ(GrpcProcessors(1), 1);
  EXPECT_EQ(GrpcProcessors(2), 2);
  EXPECT_EQ(GrpcProcessors(12), 12);
  EXPECT_EQ(GrpcProcessors(13), 12);
  EXPECT_EQ(GrpcProcessors(24), 12);
  EXPECT_EQ(GrpcProcessors(26), 13);
  EXPECT_EQ(GrpcProcessors(32), 16);
  EXPECT_EQ(GrpcProcessors(256), 128);
}

// What gRPC's libraries are given for a name is what the dynamic linker finds first.
TEST(GrpcProcessorsTest, GrpcAsksTheProgram) {
  ASSERT_NE(grpc::Version(), "");  // gRPC is linked
  for (const char* name : {"gpr_cpu_num_cores", "gpr_cpu_current_cpu"}) {
    static const char of_the_program = 0;
    Dl_info asked;
    Dl_info program;
    ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, name), &asked), 0) << name;
    ASSERT_NE(dladdr(&of_the_program, &program), 0);
    EXPECT_EQ(asked.dli_fbase, program.dli_fbase) << name << " is " << asked.dli_fname << "'s";
  }
}

TEST(GrpcProcessorsTest, EveryProcessorIsOneOfThem) {
  EXPECT_EQ(gpr_cpu_num_cores(), GrpcProcessors(UsableProcessors()));
  for (int i = 0; i < 1000; ++i) EXPECT_LT(gpr_cpu_current_cpu(), gpr_cpu_num_cores());
}

TEST(GrpcProcessorsTest, OthersProcessorsAreNotUsable) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(UsableProcessors(), 1);
  }).join();
}

}  // namespace
}  // namespace tessera
