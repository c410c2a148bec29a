#pragma once
/// \file
/// Decodes the inputs of the fuzzers of `.ksf` files, and mutates them in ways that pass the checksum.
///
/// An input that starts with the format's magic bytes is a file. Any other is a list of 4-byte edits of a
/// valid file: 3 bytes of position, 1 of value; 3 remaining bytes give a length to cut it to. So seeds are
/// small and stay valid when the format grows.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <kscout/error.h>

#include "forest/ksf.h"

#ifdef KSCOUT_FUZZ
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
#endif

namespace kscout::fuzz {

/// The good file: each fuzzer has its own.
const std::string& good_ksf();

inline std::string ksf_input(const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  if (file.starts_with("\x89KSF")) return file;
  file = good_ksf();
  for (std::size_t i = 0; i + 4 <= size; i += 4) {
    const std::size_t at =
        (data[i] | std::size_t{data[i + 1]} << 8 | std::size_t{data[i + 2]} << 16) % file.size();
    file[at] = static_cast<char>(data[i + 3]);
  }
  if (size % 4 == 3)
    file.resize(32 + (data[size - 1] | std::size_t{data[size - 2]} << 8) % (file.size() - 32));
  seal_ksf(file);
  return file;
}

#ifdef KSCOUT_FUZZ

inline std::string mutated(std::string bytes, std::size_t room) {
  const std::size_t size = bytes.size();
  bytes.resize(std::max(size, std::size_t{1}) + room);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
  return bytes;
}

/// One 32-bit number becomes one where readers go wrong: counts, indices, children, offsets.
inline void change_number(std::string& bytes, std::mt19937& rng) {
  if (bytes.size() < 4) return;
  const std::size_t at = rng() % (bytes.size() / 4) * 4;
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + at, 4);
  const std::uint32_t values[] = {0,          1,          value + 1,
                                  value - 1,  ~value,     value * 2,
                                  0x7fffffff, 0x80000000, static_cast<std::uint32_t>(rng() % 64)};
  value = values[rng() % std::size(values)];
  std::memcpy(bytes.data() + at, &value, 4);
}

inline void change_sections(std::vector<KsfSection>& sections, std::mt19937& rng) {
  KsfSection& one = sections[rng() % sections.size()];
  const auto other = sections.begin() + static_cast<std::ptrdiff_t>(rng() % sections.size());
  switch (rng() % 8) {
    case 0:
      one.bytes.swap(other->bytes);
      break;
    case 1:
      if (sections.size() > 1) sections.erase(other);
      break;
    case 2:
      sections.insert(other + 1, {other->kind, other->index + 1, other->bytes});
      break;
    case 3:
    case 4:
    case 5:
      change_number(one.bytes, rng);
      break;
    default:
      one.bytes = mutated(std::move(one.bytes), 64);
  }
}

/// libFuzzer's changes to one section, or ours to its numbers and to the list of sections, packed and sealed
/// again; one time in eight a change to the raw file with only size and checksum made right.
inline std::size_t mutate_ksf(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  std::mt19937 rng(seed);
  std::string file = ksf_input(data, size);
  std::vector<KsfSection> sections;
  try {
    for (const KsfView& view : unpack_ksf(file))
      sections.push_back({view.kind, view.index, std::string(view.bytes)});
  } catch (const Error&) {  // a container that is damaged already
  }
  if (sections.empty() || rng() % 8 == 0) {
    file = mutated(std::move(file), 64);
    if (file.size() >= 32) seal_ksf(file);
  } else {
    change_sections(sections, rng);
    file = pack_ksf(sections);
  }
  if (file.size() > max_size) return size;
  std::memcpy(data, file.data(), file.size());
  return file.size();
}

#endif

}  // namespace kscout::fuzz

#ifdef KSCOUT_FUZZ
// A fuzzer has one source, which includes this.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return kscout::fuzz::mutate_ksf(data, size, max_size, seed);
}
#endif
