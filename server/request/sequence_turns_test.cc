#include "server/request/sequence_turns.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

SequenceHandle Named(uint32_t slot) { return {.epoch = 1, .slot = slot, .generation = 1, .secret = slot}; }

// Joins, and keeps the turn when it comes.
class Caller {
 public:
  Caller(SequenceTurns& turns, std::vector<SequenceHandle> sequences) : turns_(turns) {
    turns.Join(sequences, &place_, [this, kept = kept_](absl::StatusOr<SequenceTurns::Turn> turn) {
      ++calls;
      status = turn.status();
      if (turn.ok()) held = *std::move(turn);
    });
  }

  bool has_turn() const { return calls == 1 && status.ok(); }
  void GiveBack() { held.reset(); }
  void Leave() { turns_.Leave(place_); }
  // Whether the lines hold what the call has given them.
  bool waits() const { return kept_.use_count() > 1; }

  int calls = 0;
  absl::Status status;
  std::optional<SequenceTurns::Turn> held;

 private:
  SequenceTurns& turns_;
  SequenceTurns::Place place_;
  const std::shared_ptr<int> kept_ = std::make_shared<int>();
};

TEST(SequenceTurnsTest, WhoNamesTheSameSequenceWaits) {
  SequenceTurns turns;
  Caller first(turns, {Named(1)}), second(turns, {Named(1)}), third(turns, {Named(1)}), other(turns, {Named(2)});
  EXPECT_TRUE(first.has_turn());
  EXPECT_TRUE(other.has_turn());
  EXPECT_EQ(second.calls, 0);
  first.GiveBack();
  EXPECT_TRUE(second.has_turn());
  EXPECT_EQ(third.calls, 0);
  second.GiveBack();
  EXPECT_TRUE(third.has_turn());
  third.GiveBack();
  other.GiveBack();
  EXPECT_EQ(turns.places(), 0);
}

TEST(SequenceTurnsTest, ACallWaitsForAllThatItNames) {
  SequenceTurns turns;
  Caller one(turns, {Named(1)}), two(turns, {Named(2)}), both(turns, {Named(2), Named(1), Named(2)}),
      behind(turns, {Named(1)});
  one.GiveBack();
  EXPECT_EQ(both.calls, 0);
  EXPECT_EQ(behind.calls, 0);
  two.GiveBack();
  EXPECT_TRUE(both.has_turn());
  EXPECT_EQ(behind.calls, 0);
  both.GiveBack();
  EXPECT_TRUE(behind.has_turn());
}

TEST(SequenceTurnsTest, ATurnThatIsNotKeptPassesOn) {
  SequenceTurns turns;
  Caller first(turns, {Named(1)});
  std::vector<int> order;
  std::vector<SequenceTurns::Place> places(10000);
  for (int i = 0; i < 10000; ++i) {
    turns.Join({Named(1)}, &places[i], [&order, i](const absl::StatusOr<SequenceTurns::Turn>&) { order.push_back(i); });
  }
  EXPECT_TRUE(order.empty());
  first.GiveBack();
  EXPECT_EQ(order.size(), 10000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(turns.places(), 0);
}

TEST(SequenceTurnsTest, AStartThatTakesLongHoldsNoOtherThreadUp) {
  SequenceTurns turns;
  SequenceTurns::Place place;
  absl::Notification begun, other_has_turn;
  std::thread slow([&] {
    turns.Join({Named(1)}, &place, [&](const absl::StatusOr<SequenceTurns::Turn>&) {
      begun.Notify();
      other_has_turn.WaitForNotification();
    });
  });
  begun.WaitForNotification();
  Caller other(turns, {Named(2)});
  EXPECT_TRUE(other.has_turn());
  other_has_turn.Notify();
  slow.join();
}

TEST(SequenceTurnsTest, WhatGetsReadyWithinAStartIsStartedAfterIt) {
  SequenceTurns turns, others;
  std::vector<int> order;
  SequenceTurns::Place first, inner, of_others;
  turns.Join({Named(1)}, &first, [&](const absl::StatusOr<SequenceTurns::Turn>&) {
    turns.Join({Named(2)}, &inner, [&](const absl::StatusOr<SequenceTurns::Turn>& turn) {
      EXPECT_TRUE(turn.ok());
      order.push_back(2);
    });
    others.Join({Named(1)}, &of_others, [&](const absl::StatusOr<SequenceTurns::Turn>&) { order.push_back(3); });
    order.push_back(1);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(turns.places() + others.places(), 0);
}

TEST(SequenceTurnsTest, WhoLeavesIsLetGoOfAtOnce) {
  SequenceTurns turns;
  Caller first(turns, {Named(1)}), second(turns, {Named(1), Named(2)}), third(turns, {Named(1)});
  EXPECT_TRUE(second.waits());
  second.Leave();
  EXPECT_FALSE(second.waits());
  EXPECT_EQ(turns.places(), 2);
  second.Leave();
  first.GiveBack();
  EXPECT_EQ(second.calls, 0);
  EXPECT_TRUE(third.has_turn());
  third.GiveBack();
  EXPECT_EQ(turns.places(), 0);
}

TEST(SequenceTurnsTest, WhoStandsBehindOneThatLeavesMovesUp) {
  SequenceTurns turns;
  Caller first(turns, {Named(1)}), both(turns, {Named(1), Named(2)}), behind(turns, {Named(2)});
  EXPECT_EQ(behind.calls, 0) << "the one before it is the first in line, though it waits elsewhere";
  both.Leave();
  EXPECT_TRUE(behind.has_turn());
  Caller next(turns, {Named(1), Named(2)});
  behind.GiveBack();
  EXPECT_EQ(next.calls, 0);
  first.GiveBack();
  EXPECT_TRUE(next.has_turn());
}

TEST(SequenceTurnsTest, ATurnThatHasComeIsNotLeft) {
  SequenceTurns turns;
  Caller first(turns, {Named(1)}), second(turns, {Named(1)});
  first.Leave();
  EXPECT_EQ(second.calls, 0);
  first.GiveBack();
  EXPECT_TRUE(second.has_turn());
  first.Leave();
  EXPECT_EQ(turns.places(), 1);
  SequenceTurns::Place nowhere;
  turns.Leave(nowhere);
  EXPECT_EQ(turns.places(), 1);
}

TEST(SequenceTurnsTest, EndEndsWhoWaitsForTheSequence) {
  SequenceTurns turns;
  Caller first(turns, {Named(1)}), waits(turns, {Named(1)}), both(turns, {Named(1), Named(2)}),
      behind(turns, {Named(2)}), last(turns, {Named(1)});
  turns.End(Named(1), absl::NotFoundError("gone"));
  for (const Caller* caller : {&waits, &both, &last}) {
    EXPECT_EQ(caller->calls, 1);
    EXPECT_TRUE(absl::IsNotFound(caller->status));
  }
  EXPECT_TRUE(first.has_turn());
  EXPECT_TRUE(behind.has_turn()) << "the one before it has gone";
  Caller late(turns, {Named(1)});
  EXPECT_EQ(late.calls, 0);
  first.GiveBack();
  EXPECT_TRUE(late.has_turn());
  late.GiveBack();
  behind.GiveBack();
  turns.End(Named(1), absl::NotFoundError("gone"));
  EXPECT_EQ(turns.places(), 0);
}

TEST(SequenceTurnsTest, CloseEndsWhoWaitsAndWhoComes) {
  SequenceTurns turns;
  Caller first(turns, {Named(1)}), waits(turns, {Named(1), Named(2)}), behind(turns, {Named(2)});
  turns.Close(absl::UnavailableError("gone"));
  EXPECT_TRUE(first.has_turn());
  EXPECT_TRUE(absl::IsUnavailable(waits.status));
  EXPECT_TRUE(absl::IsUnavailable(behind.status));
  Caller late(turns, {Named(3)});
  EXPECT_TRUE(absl::IsUnavailable(late.status));
  first.GiveBack();
  EXPECT_EQ(waits.calls, 1);
  EXPECT_EQ(turns.places(), 0);
}

TEST(SequenceTurnsTest, NeverTwoAtOnceAndNobodyIsForgotten) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 2000;
  constexpr uint32_t kSequences = 5;
  const uint64_t seed = RandomSeed();
  SequenceTurns turns;
  std::vector<std::atomic<int>> inside(kSequences);
  std::atomic<int> started = 0;
  std::atomic<int> stayed = 0;  // those of the calls that have not tried to leave, and were started or ended
  std::atomic<int> left = 0;
  std::vector<SequenceTurns::Place> places(kThreads * kCalls);
  std::atomic<bool> collided = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(seed + static_cast<uint64_t>(t));
      for (int i = 0; i < kCalls; ++i) {
        std::vector<uint32_t> slots;
        std::vector<SequenceHandle> names;
        for (uint32_t slot = 0; slot < kSequences; ++slot) {
          if (rng() % 3 != 0) continue;
          slots.push_back(slot);
          names.push_back(Named(slot));
        }
        const bool leaves = rng() % 4 == 0;
        SequenceTurns::Place& place = places[static_cast<size_t>(t * kCalls + i)];
        turns.Join(names, &place, [&, slots, leaves](absl::StatusOr<SequenceTurns::Turn> turn) {
          if (!leaves) ++stayed;
          if (!turn.ok()) return;
          for (const uint32_t slot : slots) {
            if (inside[slot]++ != 0) collided = true;
          }
          ++started;
          for (const uint32_t slot : slots) --inside[slot];
          turn->GiveBack();
        });
        if (leaves) {
          turns.Leave(place);
          ++left;
        }
        if (rng() % 16 == 0) turns.End(Named(static_cast<uint32_t>(rng() % kSequences)), absl::NotFoundError("gone"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(collided);
  EXPECT_EQ(stayed, kThreads * kCalls - left);
  EXPECT_LE(started, kThreads * kCalls);
  EXPECT_EQ(turns.places(), 0);
}

}  // namespace
}  // namespace tessera
