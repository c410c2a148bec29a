#include <atomic>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <kscout/device.h>
#include <kscout/error.h>

#include "core/device_facts.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace kscout {
namespace {

/// Files of a recorded machine: lines "=== PATH", each followed by that file's text.
ReadText recorded(const std::string& name) {
  std::ifstream file(paths::in_repository("tests/unit/cpus/" + name));
  EXPECT_TRUE(file) << name;
  std::map<std::string, std::string> texts;
  std::string path;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      path = line.substr(4);
    } else if (!path.empty()) {
      texts[path] += line + "\n";
    }
  }
  return [texts](const std::string& wanted) {
    const auto found = texts.find(wanted);
    return found == texts.end() ? std::string() : found->second;
  };
}

ReadText cpuinfo_only(const std::string& text) {
  return [text](const std::string& path) { return path == "/proc/cpuinfo" ? text : std::string(); };
}

std::string error_of(const std::string& toml) {
  try {
    parse_device_presets(toml, "test.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_data);
    return error.what();
  }
  return "no error";
}

TEST(Device, ReadsAVirtualMachine) {
  const int cpus[] = {0, 1};
  const Device device = describe_cpu(recorded("zen3_virtual.txt"), cpus);
  EXPECT_EQ(device.name, "zen3-2c");
  EXPECT_EQ(device.vendor, "AMD");
  EXPECT_EQ(device.model, "AMD EPYC");
  EXPECT_EQ(device.isa, "avx2");
  EXPECT_EQ(device.cores, 2);
  EXPECT_EQ(device.threads_per_core, 1);
  EXPECT_EQ(device.l1_bytes, 32 * 1024);
  EXPECT_EQ(device.l2_bytes, 512 * 1024);
  EXPECT_EQ(device.l3_bytes, 32 * 1024 * 1024);
  EXPECT_EQ(device.max_clock_mhz, 2445);
  EXPECT_EQ(device.vector_bytes, 32);
  EXPECT_EQ(device.fma_per_cycle, 2);
  EXPECT_DOUBLE_EQ(peak_fp32_gflops(device), 2 * 2 * 8 * 2 * 2.445);
  EXPECT_TRUE(std::isnan(device.memory_gb_s));
}

TEST(Device, CountsCoresNotHardwareThreads) {
  const int cpus[] = {0, 1, 112, 113};
  const Device device = describe_cpu(recorded("sapphirerapids_threads.txt"), cpus);
  EXPECT_EQ(device.name, "sapphirerapids-2c");
  EXPECT_EQ(device.threads_per_core, 2);
  EXPECT_EQ(device.max_clock_mhz, 3800) << "cpufreq stands over /proc/cpuinfo";
  EXPECT_EQ(device.isa, "avx512");
  EXPECT_EQ(device.vector_bytes, 64);
  EXPECT_EQ(device.l3_bytes, 105.0 * 1024 * 1024);
}

TEST(Device, ASmallerInstructionSetIsADeviceOfItsOwn) {
  const int cpus[] = {0, 1, 112, 113};
  const Device whole = describe_cpu(recorded("sapphirerapids_threads.txt"), cpus);
  const auto restricted = [&](std::string_view isa) {
    Device device = whole;
    restrict_isa(device, isa);
    return device;
  };
  EXPECT_EQ(restricted(""), whole);
  EXPECT_EQ(restricted("avx512"), whole);
  const Device avx2 = restricted("avx2");
  EXPECT_EQ(avx2.name, "sapphirerapids-avx2-2c");
  EXPECT_EQ(avx2.arch, "sapphirerapids-avx2");
  EXPECT_EQ(avx2.isa, "avx2");
  EXPECT_EQ(avx2.vector_bytes, 32);
  EXPECT_EQ(avx2.fma_per_cycle, 2);
  EXPECT_EQ(avx2.l2_bytes, whole.l2_bytes);
  const Device scalar = restricted("scalar");
  EXPECT_EQ(scalar.name, "sapphirerapids-scalar-2c");
  EXPECT_EQ(scalar.vector_bytes, sizeof(float));
  EXPECT_TRUE(std::isnan(scalar.fma_per_cycle)) << "the rate of vector instructions is not a scalar rate";
}

TEST(Device, AnInstructionSetThatTheCpuLacksIsAnError) {
  const int cpus[] = {0, 1};
  Device device = describe_cpu(recorded("zen3_virtual.txt"), cpus);
  const Device before = device;
  test::expect_error(Errc::invalid_argument,
                     "KSCOUT_ISA='avx512': the best instruction set of this CPU is avx2",
                     [&] { restrict_isa(device, "avx512"); });
  test::expect_error(Errc::invalid_argument,
                     "KSCOUT_ISA: unknown instruction set 'avx'; did you mean 'avx2'?",
                     [&] { restrict_isa(device, "avx"); });
  EXPECT_EQ(device, before);
}

TEST(Device, SeesOnlyAllowedCpus) {
  const int one[] = {1};
  EXPECT_EQ(describe_cpu(recorded("sapphirerapids_threads.txt"), one).cores, 1);
}

TEST(Device, NothingReadableIsUnknownAndNoCrash) {
  const Device device = describe_cpu([](const std::string&) { return std::string(); }, {});
  EXPECT_EQ(device.isa, "scalar");
  EXPECT_TRUE(std::isnan(device.max_clock_mhz));
  EXPECT_TRUE(std::isnan(device.l1_bytes));
  EXPECT_TRUE(std::isnan(peak_fp32_gflops(device)));
}

TEST(Device, AVX512WithoutAllPartsIsAVX2) {
  const int cpu[] = {0};
  const std::string text = "vendor_id : GenuineIntel\nflags : avx2 fma f16c abm bmi1 bmi2 avx512f avx512cd\n";
  EXPECT_EQ(describe_cpu(cpuinfo_only(text), cpu).isa, "avx2");
}

TEST(Device, NamesMicroarchitectures) {
  const auto name = [](std::string_view vendor, int family, int model, int stepping = 1) {
    return find_cpu_arch(vendor, family, model, stepping, "").name;
  };
  EXPECT_EQ(name("AMD", 0x17, 0x31), "zen2");
  EXPECT_EQ(name("AMD", 0x19, 0x21), "zen3");
  EXPECT_EQ(name("AMD", 0x19, 0x11), "zen4");
  EXPECT_EQ(name("AMD", 0x1a, 0x02), "zen5");
  EXPECT_EQ(name("Intel", 6, 0x3f), "haswell");
  EXPECT_EQ(name("Intel", 6, 0x55, 4), "skylake-server");
  EXPECT_EQ(name("Intel", 6, 0x55, 7), "cascadelake");
  EXPECT_EQ(name("Intel", 6, 0x6a), "icelake-server");
  EXPECT_EQ(name("Intel", 6, 0x8f), "sapphirerapids");
  EXPECT_EQ(name("AMD", 0x2a, 3), "amd-42-3");
  EXPECT_EQ(name("", -1, -1), "unknown");
}

TEST(Device, AMXSaysMoreThanAnOldModelNumber) {
  const int cpu[] = {0};
  const std::string text = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 167\nflags : avx2 amx_tile\n";
  EXPECT_EQ(describe_cpu(cpuinfo_only(text), cpu).arch, "sapphirerapids");
}

TEST(Device, SomeXeonsHaveOneWideFma) {
  EXPECT_EQ(find_cpu_arch("Intel", 6, 0x55, 4, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz").fma_avx512, 1);
  EXPECT_EQ(find_cpu_arch("Intel", 6, 0x55, 4, "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz").fma_avx512, 2);
}

TEST(Device, HighwayAgreesWithTheDetectedInstructionSet) {
  const std::int64_t targets = hwy::SupportedTargets();
  const bool avx512 = (targets & HWY_AVX3) != 0;
  EXPECT_EQ(detect_cpu().isa, avx512 ? "avx512" : (targets & HWY_AVX2) ? "avx2" : "scalar");
}

TEST(Device, TheProcessorDecidesWhatItComputes) {
  Device promised = device_preset("epyc-9654");
  ASSERT_EQ(promised.isa, "avx512");
  Device emulated = promised;
  use_instruction_set(emulated, InstructionSet::avx2);  // /proc/cpuinfo is that of an emulator's host
  EXPECT_EQ(emulated.isa, "avx2");
  EXPECT_EQ(emulated.arch, "zen4-avx2");
  EXPECT_EQ(emulated.vector_bytes, 32);
  Device unknown = emulated;
  unknown.arch = "unknown";
  unknown.isa = "scalar";  // there is no /proc/cpuinfo
  use_instruction_set(unknown, InstructionSet::avx512_dl);
  EXPECT_EQ(unknown.isa, "avx512");
  EXPECT_EQ(unknown.vector_bytes, 64);
  use_instruction_set(promised, InstructionSet::avx512);
  EXPECT_EQ(promised, device_preset("epyc-9654"));
}

TEST(Device, DetectsThisMachineTheSameWayTwice) {
  const Device here = find_device("auto");
  EXPECT_EQ(here, detect_cpu());
  EXPECT_GE(here.cores, 1);
}

TEST(Device, PresetsAreCompleteEnoughToPredictFor) {
  ASSERT_FALSE(device_preset_names().empty());
  for (const auto& name : device_preset_names()) {
    const Device device = device_preset(name);
    SCOPED_TRACE(name);
    EXPECT_EQ(device.name, name);
    EXPECT_FALSE(device.arch.empty());
    EXPECT_FALSE(device.model.empty());
    EXPECT_GE(device.cores, 1);
    EXPECT_GT(device.l1_bytes, 0);
    if (device.kind == DeviceKind::cpu) {
      EXPECT_GT(peak_fp32_gflops(device), 0) << "its arch lists no FMA rate";
    } else {
      EXPECT_GT(device.shared_bytes_per_core, 0);
    }
  }
}

TEST(Device, UnknownNamesGetTheNearestOne) {
  try {
    find_device("h20");
    FAIL() << "h20 is no preset";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_found);
    EXPECT_NE(std::string(error.what()).find("did you mean 'h200'?"), std::string::npos) << error.what();
  }
}

TEST(Device, BadPresetsAreRefusedWithTheirLine) {
  EXPECT_EQ(parse_device_presets("[x]\nkind='gpu'\ncores=4\n", "f")[0].cores, 4);
  EXPECT_NE(error_of("[x]\nkind='gpu'\ncoers=4\n")
                .find("test.toml:3: device 'x': unknown fact 'coers'; did you mean 'cores'?"),
            std::string::npos);
  EXPECT_NE(error_of("[x]\nkind='gpu'\ncores='4'\n").find("cores must be a number above 0"),
            std::string::npos);
  EXPECT_NE(error_of("[x]\nkind='gpu'\ncores=-1\n").find("cores must be a number above 0"),
            std::string::npos);
  EXPECT_NE(error_of("[x]\nkind=3\n").find("kind must be a text"), std::string::npos);
  EXPECT_NE(error_of("[x]\ncores=4\n").find("does not state its kind"), std::string::npos);
  EXPECT_NE(error_of("[x\n").find("test.toml:1:"), std::string::npos);
  EXPECT_NE(error_of("x=1\n").find("stands outside"), std::string::npos);
}

TEST(Device, PresetsMayBeReadFromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> found = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&found] { found += find_device("gfx950") == device_preset("gfx950"); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(found, 4);
}

}  // namespace
}  // namespace kscout
