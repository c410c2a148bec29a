#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "core/device_facts.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

/// A topology as the driver shows it, in a folder of its own.
class Topology : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  const test::TemporaryFolder folder_;
  const fs::path root_ = folder_ / "topology";  // absent where there is no driver
};

constexpr const char* kCpu =
    "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\ngfx_target_version 0\n";

/// What the driver records of an MI350X as a whole, and of one of eight parts of it.
TEST_F(Topology, WholeGpuAndPartition) {
  write("nodes/0/properties", kCpu);
  write("nodes/2/properties",
        "cpu_cores_count 0\nsimd_count 1024\nmax_waves_per_simd 8\nlds_size_in_kb 160\nwave_front_size "
        "64\narray_count 32\n"
        "simd_arrays_per_engine 1\ncu_per_simd_array 9\nsimd_per_cu 4\ngfx_target_version 90500\ndevice_id "
        "30112\n"
        "max_engine_clk_fcompute 2200\nnum_xcc 8\ncapability 2889327232\n");
  write("nodes/2/caches/0/properties", "level 1\nsize 32\ntype 9\n");
  write("nodes/2/caches/1/properties", "level 1\nsize 64\ntype 10\n");  // instructions
  write("nodes/2/caches/2/properties", "level 2\nsize 4096\ntype 9\n");
  write("nodes/2/caches/10/properties", "level 3\nsize 262144\ntype 9\n");
  write("nodes/10/properties",
        "simd_count 128\nmax_waves_per_simd 8\nlds_size_in_kb 160\nwave_front_size 64\narray_count "
        "4\nsimd_arrays_per_engine 1\n"
        "simd_per_cu 4\ngfx_target_version 90500\nmax_engine_clk_fcompute 2200\nnum_xcc 1\n");
  const auto gpus = detect_amd_gpus(root_);
  ASSERT_EQ(gpus.size(), 2u);
  const Device& whole = gpus[0];
  EXPECT_EQ(whole.name, "gfx950-256cu");
  EXPECT_EQ(whole.arch, "gfx950");
  EXPECT_EQ(whole.cores, 256);
  EXPECT_EQ(whole.shader_engines, 32);
  EXPECT_EQ(whole.max_waves_per_core, 32);
  EXPECT_EQ(whole.shared_bytes_per_core, 163840);
  EXPECT_EQ(whole.l1_bytes, 32768);
  EXPECT_EQ(whole.l2_bytes, 4194304);
  EXPECT_EQ(whole.dies, 8);
  const Device& part = gpus[1];
  EXPECT_EQ(part.name, "gfx950-32cu");
  EXPECT_EQ(part.cores, 32);
  EXPECT_EQ(part.dies, 1);
  EXPECT_TRUE(std::isnan(part.l2_bytes));
}

TEST_F(Topology, ArchitecturesByTheirNumber) {
  write("nodes/0/properties", "simd_count 440\nsimd_per_cu 4\ngfx_target_version 90010\n");
  write("nodes/1/properties", "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\n");
  const auto gpus = detect_amd_gpus(root_);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "gfx90a-110cu");
  EXPECT_EQ(gpus[1].name, "gfx942-304cu");
}

TEST_F(Topology, NoDriverIsNoGpu) { EXPECT_TRUE(detect_amd_gpus(root_).empty()); }

TEST_F(Topology, ANumberThatIsNoneIsSaid) {
  write("nodes/0/properties", "simd_count many\n");
  EXPECT_THROW(detect_amd_gpus(root_), Error);
}

/// Later lines of the ISA and of other agents do not replace an agent's own.
TEST(Rocminfo, AgentsAreKeptApart) {
  const auto gpus = read_rocminfo(
      "Agent 1\n  Name:                    AMD EPYC 9654\n  Device Type:             CPU\n  Cache Info:\n"
      "    L3:                      393216(0x60000) KB\n  Compute Unit:            192\n"
      "Agent 2\n  Name:                    gfx942\n  Marketing Name:          AMD Instinct MI300X\n"
      "  Device Type:             GPU\n  Cache Info:\n    L1:                      32(0x20) KB\n"
      "    L2:                      4096(0x1000) KB\n    L3:                      262144(0x40000) KB\n"
      "  Chip ID:                 29857(0x74a1)\n  Max Clock Freq. (MHz):   2100\n  Compute Unit:            "
      "304\n"
      "  SIMDs per CU:            4\n  Shader Engines:          32\n  Wavefront Size:          64(0x40)\n"
      "  Max Waves Per CU:        32(0x20)\n  Pool Info:\n    Pool 1\n      Segment:                 GLOBAL; "
      "FLAGS: COARSE GRAINED\n"
      "      Size:                    201310208(0xbffc000) KB\n    Pool 4\n      Segment:                 "
      "GROUP\n"
      "      Size:                    64(0x40) KB\n  ISA Info:\n    ISA 1\n"
      "      Name:                    amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-\n      Wavefront Size:       "
      "   32(0x20)\n"
      "Agent 3\n  Name:                    gfx942\n  Device Type:             GPU\n  Compute Unit:           "
      " 38\n  SIMDs per CU:            4\n");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "gfx942-304cu");
  EXPECT_EQ(gpus[0].model, "AMD Instinct MI300X");
  EXPECT_EQ(gpus[0].l3_bytes, 268435456);
  EXPECT_EQ(gpus[0].shared_bytes_per_core, 65536);
  EXPECT_EQ(gpus[0].wavefront_size, 64);
  EXPECT_EQ(gpus[1].name, "gfx942-38cu");
  EXPECT_TRUE(std::isnan(gpus[1].l3_bytes));
}

}  // namespace
}  // namespace kscout
