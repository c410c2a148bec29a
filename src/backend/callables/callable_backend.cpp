#include "backend/callables/callable_backend.h"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <kscout/family.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "core/log.h"
#include "measure/timing.h"

namespace kscout {

namespace {

constexpr const char* kSocketVariable = "KSCOUT_CALLABLES";

/// The connection to the process of the callables.
class Callables {
 public:
  explicit Callables(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
      fail(Errc::invalid_argument, "{}={}: a socket's path has at most {} bytes", kSocketVariable, path,
           sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.data(), path.size());
    if (fd_ < 0 || connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail(Errc::device_failure, "{}={}: cannot connect: {}; kscout.Family.sweep starts this program",
           kSocketVariable, path, std::strerror(errno));
  }
  ~Callables() { close(fd_); }
  Callables(const Callables&) = delete;
  Callables& operator=(const Callables&) = delete;

  /// Throws what the reply reports: unsupported or device_failure.
  Json ask(const Json& request) {
    const std::string line = request.dump() + '\n';
    for (std::size_t at = 0; at < line.size();) {
      const ssize_t sent = send(fd_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) ended();
      at += static_cast<std::size_t>(sent);
    }
    const std::string reply = read_line();
    try {
      Json json = Json::parse(reply);
      if (!json.contains("failed")) return json;
      if (json.value("lost", false)) usable_ = false;
      throw Error(json.value("unsupported", false) ? Errc::unsupported : Errc::device_failure,
                  json.at("failed").get<std::string>());
    } catch (const Json::exception& error) {
      fail(Errc::corrupt_data, "the callables' reply '{}' is not understood: {}", reply.substr(0, 200),
           reason_of(error));
    }
  }
  bool usable() const noexcept { return usable_; }

 private:
  std::string read_line() {
    for (;;) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      char chunk[4096];
      const ssize_t got = read(fd_, chunk, sizeof chunk);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) ended();
      buffer_.append(chunk, static_cast<std::size_t>(got));
    }
  }

  /// A callable ended its process. Ends this worker as a kernel would that runs in it: the sweep records a
  /// crash and starts another worker, for which another process runs the callables.
  [[noreturn]] static void ended() {
    std::fputs("the process of the callables has ended\n", stderr);
    std::_Exit(kCallablesEnded);
  }

  int fd_;
  std::string buffer_;
  bool usable_ = true;
};

/// The fields by name: for callables in a Python that has no class for the problem.
Json fields_of(const Problem& problem) {
  Json fields = Json::object();
  for (std::size_t i = 0; i < problem.space().fields.size(); ++i) {
    const ProblemField& field = problem.space().fields[i];
    Json& value = fields[std::string(field.name)];
    switch (field.type) {
      case FieldType::word:
        value = field.words[static_cast<std::size_t>(problem[i])];
        break;
      case FieldType::flag:
        value = problem[i] != 0;
        break;
      case FieldType::real:
        value = json_from_number(std::bit_cast<double>(problem[i]));
        break;
      case FieldType::list:
        value = Json::array();
        for (const std::int64_t size : problem.list().sizes()) value.push_back(size);
        break;
      case FieldType::whole:
        value = problem[i];
        break;
    }
  }
  return fields;
}

Json axis_values(const KernelConfig& config) {
  Json values = Json::array();
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) values.push_back(config.value[i]);
  return values;
}

class CallableLaunch final : public Launch {
 public:
  CallableLaunch(Callables& callables, const KernelConfig& config)
      : callables_(callables), config_(axis_values(config)) {
    setup_us_ = callables_.ask({{"do", "prepare"}, {"config", config_}}).value("setup_us", 0.0);
  }
  std::size_t workspace_bytes() const noexcept override { return 0; }
  double setup_us() const noexcept override { return setup_us_; }
  void run(const Buffers& /*buffers*/, void* /*workspace*/, Stream /*stream*/) override { time_us(1, false); }
  double time_us(int calls, bool cold) {
    return callables_.ask({{"do", "time"}, {"config", config_}, {"calls", calls}, {"cold", cold}})
        .at("us")
        .get<double>();
  }

 private:
  Callables& callables_;
  Json config_;
  double setup_us_ = 0;
};

class CallableReference final : public Reference {
 public:
  explicit CallableReference(Callables& callables) : callables_(callables) {}
  /// Checks the result of the newest call.
  Verification check(const void* /*c*/) const override {
    const Json reply = callables_.ask({{"do", "check"}});
    return {number_from_json(reply.at("error"), "a reply", "error"), reply.value("where", std::string())};
  }

 private:
  Callables& callables_;
};

/// Operands and clocks are those of the other process.
class CallableInstruments final : public CopyingInstruments {
 public:
  explicit CallableInstruments(bool on_cpu) : CopyingInstruments(host_memory()), on_cpu_(on_cpu) {}

  double memory_bytes() override { return 0; }
  /// The next call is a cold one: the other process flushes its caches, so that the device does not wait
  /// between flush and call.
  void evict(std::span<const Region> /*operands*/) override { cold_ = true; }
  double time_us(Launch& launch, const Buffers& /*buffers*/, void* /*workspace*/, int calls) override {
    return static_cast<CallableLaunch&>(launch).time_us(calls, std::exchange(cold_, false));
  }
  /// A call of a callable costs microseconds itself.
  double batch_us() const noexcept override { return on_cpu_ ? 10 * kBatchUs : 5 * kBatchUs; }
  double loading_us() const noexcept override { return 1e6; }  // the first call may compile
  bool usable() override { return !callables_ || callables_->usable(); }

  /// Connects at the first use, in a worker.
  Callables& callables() {
    if (!callables_) callables_ = std::make_unique<Callables>(environment(kSocketVariable));
    return *callables_;
  }

 private:
  bool on_cpu_;
  bool cold_ = false;
  std::unique_ptr<Callables> callables_;
};

class CallableBackend final : public MeasuredBackend {
 public:
  explicit CallableBackend(std::string_view device)
      : name_(std::string(kCallablesPrefix) + std::string(device)),
        device_(kscout::backend(device)),
        instruments_(device == "cpu") {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view provider() const noexcept override { return {}; }
  Family family(const Signature& /*signature*/, std::string_view /*rules*/) override {
    fail(Errc::unsupported, "{}: the configs are those of a declared provider; name it", name_);
  }
  const Device& device() override { return device_.device(); }
  std::map<std::string, std::string> versions() override { return device_.versions(); }
  std::string refusal(ProblemRef /*problem*/, const KernelConfig& /*config*/) override { return {}; }
  std::unique_ptr<Launch> prepare(ProblemRef /*problem*/, const KernelConfig& config) override {
    return std::make_unique<CallableLaunch>(instruments_.callables(), config);
  }
  bool prepares_ahead(std::string_view) override { return true; }
  std::vector<std::string> prepare_ahead(ProblemRef /*problem*/, std::span<const KernelConfig> configs,
                                         double seconds) override {
    Json list = Json::array();
    for (const KernelConfig& config : configs) list.push_back(axis_values(config));
    const Json reply =
        instruments_.callables().ask({{"do", "compile"}, {"configs", list}, {"seconds", seconds}});
    return reply.at("left_out").get<std::vector<std::string>>();
  }
  Instruments& instruments() override { return instruments_; }
  std::unique_ptr<Reference> open_problem(const Problem& problem, std::uint64_t seed) override {
    instruments_.callables().ask(
        {{"do", "open"}, {"problem", print(problem)}, {"fields", fields_of(problem)}, {"seed", seed}});
    return std::make_unique<CallableReference>(instruments_.callables());
  }

 private:
  std::string name_;
  Backend& device_;
  CallableInstruments instruments_;
};

}  // namespace

Backend& callable_backend(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<CallableBackend>, std::less<>> made;
  if (environment(kSocketVariable).empty())
    fail(Errc::unsupported, "backend {}: kscout.Family.sweep runs it (it sets {})", name, kSocketVariable);
  const std::string_view device = name.substr(kCallablesPrefix.size());
  const std::lock_guard lock(mutex);
  const auto known = made.find(device);
  if (known != made.end()) return *known->second;
  return *made.emplace(std::string(device), std::make_unique<CallableBackend>(device)).first->second;
}

}  // namespace kscout
