#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/split.h"
#include "dataset/possible_time.h"
#include "family/family_file.h"
#include "import/import.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/miopen/miopen.h"

namespace kscout {

void each_line(const std::filesystem::path& file, const std::function<void(const LogLine& line)>& use) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(Errc::not_found, "{}: no such file", file.string());
  std::vector<char> buffer(1 << 20);
  std::size_t held = 0, number = 0;
  const auto give = [&](const char* begin, const char* end, bool ended) {
    std::string_view text(begin, static_cast<std::size_t>(end - begin));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (++number == 1) text = without_byte_order_mark(text);
    use({.text = text, .number = number, .ended = ended});
  };
  while (stream) {
    if (held == buffer.size()) buffer.resize(2 * buffer.size());  // a line longer than the buffer
    stream.read(buffer.data() + held, static_cast<std::streamsize>(buffer.size() - held));
    const char* at = buffer.data();
    const char* const end = at + held + stream.gcount();
    while (const void* found = std::memchr(at, '\n', static_cast<std::size_t>(end - at))) {
      const char* const line_end = static_cast<const char*>(found);
      give(at, line_end, true);
      at = line_end + 1;
    }
    held = static_cast<std::size_t>(end - at);
    std::memmove(buffer.data(), at, held);
  }
  if (held > 0) give(buffer.data(), buffer.data() + held, false);
}

namespace {

/// A format that is read.
struct Reader {
  ImportFormat format;
  const Provider& (*provider)();  ///< whose kernels it names
  std::string_view tool;
  void (*read)(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to);
};
constexpr Reader kReaders[] = {
    {ImportFormat::ck_csv, ck_tile_provider, "CK Tile", read_ck_csv},
    {ImportFormat::ck_log, ck_tile_provider, "CK Tile", read_ck_log},
    {ImportFormat::ck_json, ck_tile_provider, "CK Tile", read_ck_json},
    {ImportFormat::ck_profiler, ck_tile_provider, "CK Tile", read_ck_profiler},
    {ImportFormat::parquet, ck_tile_provider, "CK Tile", read_ck_parquet},
    {ImportFormat::miopen_find_db, miopen_provider, "MIOpen", read_miopen_find_db},
};
static_assert(std::size(kReaders) == EnumWords<ImportFormat>::words.size());

const Reader& reader_of(ImportFormat format) { return *std::ranges::find(kReaders, format, &Reader::format); }

}  // namespace

ImportTable::ImportTable(const ImportRequest& request) : request_(request) {
  imported_.table.device = request.device;
}

const ImportTable::Kernel& ImportTable::kernel(std::string_view name) {
  if (last_kernel_ && last_name_ == name) return *last_kernel_;
  last_name_ = name;
  const auto [at, is_new] = kernels_.try_emplace(last_name_);
  last_kernel_ = &at->second;
  if (!is_new) return *last_kernel_;
  try {
    const Provider& provider = reader_of(request_.from).provider();
    const NamedConfig named = provider.parse(name);
    if (named.signature.op != request_.op) {
      fail(Errc::invalid_argument, "a kernel of {}, not of {}", word(named.signature.op), word(request_.op));
    }
    at->second.signature = named.signature;
    const KernelConfig runs = provider.canonical(named.config);
    // Datasets store names: a config without one must not reach the table.
    (void)provider.print(named.signature, runs);
    const auto [config, first] =
        configs_.try_emplace(runs, static_cast<std::uint32_t>(imported_.table.configs.size()));
    if (first) imported_.table.configs.push_back(config->first);
    at->second.config = config->second;
  } catch (const Error& error) {
    at->second.refusal = error.what();
  }
  return *last_kernel_;
}

void ImportTable::skip(std::size_t line, std::string reason) {
  if (imported_.skipped_count++ < Imported::kMaxSkipped)
    imported_.skipped.push_back({line, std::move(reason)});
}

void ImportTable::add(const ForeignRow& row) {
  const Kernel& of = kernel(row.kernel);
  if (!of.refusal.empty()) return skip(row.line, of.refusal);
  if (row.valid && !(row.time_us > 0 && std::isfinite(row.time_us)))
    return skip(row.line, "a valid row without a time above 0");
  auto known = problems_.find(row.problem);
  if (known == problems_.end()) {
    try {
      check(row.problem);
    } catch (const Error& error) {
      return skip(row.line, error.what());
    }
    known = problems_.emplace(row.problem, static_cast<std::uint32_t>(imported_.table.problems.size())).first;
    imported_.table.problems.push_back(row.problem);
  }
  if (row.valid) {
    std::string why = impossible_time(row.problem, row.time_us, imported_.table.device,
                                      reader_of(request_.from).provider());
    if (!why.empty()) return skip(row.line, std::move(why));
  }
  if (of.signature != signature_of(row.problem)) {
    return skip(row.line, fmt::format("kernel {} has other types or another layout than {}", row.kernel,
                                      print(row.problem)));
  }
  Measurement measured;
  measured.status = row.valid ? Status::ok : Status::unsupported;
  measured.time_us = row.valid ? row.time_us : Measurement::unknown;
  measured.workspace_bytes = row.workspace_bytes;
  measured.repeats = row.repeats;
  const std::uint64_t key = (std::uint64_t{known->second} << 32) | of.config;
  const auto [place, is_new] = rows_.try_emplace(key, imported_.table.rows.size());
  if (is_new) {
    imported_.table.rows.push_back({known->second, of.config, measured});
    return;
  }
  ++imported_.repeated;
  Measurement& before = imported_.table.rows[place->second].measured;
  const bool better =
      measured.status == Status::ok && (before.status != Status::ok || measured.time_us < before.time_us);
  if (better) before = measured;
}

void ImportTable::fact(double Device::*fact, double value) {
  const auto known = std::ranges::find(facts_, fact, &std::pair<double Device::*, double>::first);
  if (!(value > 0)) fail(Errc::corrupt_data, "a hardware column holds {}", value);
  if (known == facts_.end()) {
    facts_.emplace_back(fact, value);
    imported_.table.device.*fact = value;
  } else if (known->second != value) {
    fail(Errc::corrupt_data, "a hardware column holds {} after {}: import each device by itself", value,
         known->second);
  }
}

Imported ImportTable::finish(const std::filesystem::path& file) {
  if (imported_.table.rows.empty()) {
    const std::string first =
        imported_.skipped.empty()
            ? std::string("it holds no measurement")
            : fmt::format("line {}: {}", imported_.skipped.front().line, imported_.skipped.front().reason);
    fail(Errc::corrupt_data, "{}: nothing could be read as {}: {}", file.string(), word(request_.from),
         first);
  }
  auto& about = imported_.table.metadata;
  about["rules"] = std::string(kMeasuredRules);
  about["imported_from"] = file.filename().string();
  about["imported_as"] = std::string(word(request_.from));
  about["skipped"] = std::to_string(imported_.skipped_count);
  return std::move(imported_);
}

Imported import_file(const std::filesystem::path& file, const ImportRequest& request) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail(Errc::not_found, "{}: is a folder; name the file that the tool wrote", file.string());
  const Reader& reader = reader_of(request.from);
  if (!reader.provider().runs_on(request.device)) {
    fail(Errc::invalid_argument,
         "device '{}': {} is of {}, whose kernels run on AMD's GPUs; name the GPU that was measured "
         "(gfx90a, gfx942, gfx950)",
         request.device.name, word(request.from), reader.tool);
  }
  ImportTable to(request);
  reader.read(file, request, to);
  return to.finish(file);
}

}  // namespace kscout
