#pragma once
/// \file
/// Times work on a GPU's stream without waiting for it: marks around a call are read at a later one.
///
///     if (StreamClock* clock = instruments.stream_clock(); clock && !clock->captures(stream)) {
///       StreamClock::Span span = clock->start(stream);
///       ...
///       if (clock->stop(span, stream)) later([&] { return clock->read(span, us); });
///     }
#include <cstdint>

#include <kscout/launch.h>

namespace kscout {

enum class SpanState : std::uint8_t { pending, done, failed };

/// Thread-safe.
class StreamClock {
 public:
  struct Span {
    void *begin = nullptr, *end = nullptr;
    std::int64_t begun_ns = 0;
    double host_us = 0;  ///< of the program, for which the device may have waited
  };
  virtual ~StreamClock() = default;

  /// Null marks where the device refuses.
  virtual Span start(Stream stream) noexcept = 0;
  virtual bool stop(Span& span, Stream stream) noexcept = 0;
  /// Sets `us` when the state is done. Waits for nothing. Failed is also a span of which the device may have
  /// waited for the program in more than a tenth: nothing else was left to do when it began.
  virtual SpanState read(const Span& span, double& us) noexcept = 0;
  /// Later spans use the marks again.
  virtual void give_back(const Span& span) noexcept = 0;
  /// Whether the stream is being captured into a graph, where nothing can be timed. Also true where the
  /// device cannot say.
  virtual bool captures(Stream stream) noexcept = 0;
};

}  // namespace kscout
