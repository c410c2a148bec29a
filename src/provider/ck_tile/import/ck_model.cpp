#include "provider/ck_tile/import/ck_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <unordered_set>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"
#include "dataset/parquet.h"
#include "family/family_file.h"
#include "features/schema.h"
#include "forest/ksf.h"
#include "op/operation.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/ck_tile/select/ck_folder.h"
#include "provider/kernel_list.h"

namespace kscout {
namespace {

bool is_parquet(const std::filesystem::path& file) {
  constexpr std::string_view kMark = "PAR1";
  std::ifstream stream(file, std::ios::binary);
  std::string first(kMark.size(), '\0');
  return stream.read(first.data(), static_cast<std::streamsize>(first.size())) && first == kMark;
}

std::vector<ListedKernel> names_in_parquet(const std::filesystem::path& file) {
  std::vector<ListedKernel> names;
  std::size_t column = 0, row = 0;
  read_parquet_as_text(
      file.string(), file.filename().string(),
      [&](const ParquetHeader& header) {
        const auto at = std::ranges::find_if(header.names, is_kernel_column);
        if (at == header.names.end())
          fail(Errc::corrupt_data, "{}: the table has no column of kernel names", file.string());
        column = static_cast<std::size_t>(at - header.names.begin());
        std::vector<bool> wanted(header.names.size());
        wanted[column] = true;
        return wanted;
      },
      [&](const std::vector<std::string_view>& cells) {
        names.push_back({std::string(cells[column]), ++row});
      });
  return names;
}

/// The kernels of the list that the folder's models are for, by signature.
class Kernels {
 public:
  std::size_t repeated = 0;
  std::vector<Skipped> skipped;

  explicit Kernels(const CkFolder& of) : of_(of) {}

  void add(const ListedKernel& listed) {
    if (!seen_.insert(listed.name).second) {
      ++repeated;
      return;
    }
    try {
      add(parse_kernel_to_run(listed.name));
    } catch (const Error& error) {
      skipped.push_back({listed.line, error.what()});
    }
  }

  std::vector<Family> families(const std::filesystem::path& list) const {
    if (kernels_.empty()) {
      fail(Errc::invalid_argument, "{}: none of its {} names is a kernel of {}{}{}", list.string(),
           seen_.size(), described(),
           skipped.empty() ? "" : "; the first: ", skipped.empty() ? "" : skipped.front().reason);
    }
    const Op op = kernels_.front().signature.op;
    std::vector<Family> families;
    for (const SignatureConfigs& one : kernels_) {
      if (one.signature.op != op) {
        fail(Errc::invalid_argument,
             "{}: kernels of {} and of {}: a model is for one of them; list its kernels", list.string(),
             word(op), word(one.signature.op));
      }
      families.push_back(family_of_configs(one.signature, of_.device, one.configs));
    }
    return families;
  }

 private:
  /// What the folder says that it was trained for.
  std::string described() const { return fmt::format("{} {}", of_.folder.op, of_.folder.dtype); }

  void add(const NamedConfig& named) {
    const std::string& dtype = of_.folder.dtype;
    const bool fits = named.config.space->provider == "ck_tile" &&
                      same_operation(named.signature.op, of_.schema.data().op) &&
                      (dtype.empty() || word(named.signature.dtype_a) == dtype);
    if (!fits) {
      fail(Errc::unsupported, "a kernel of {} {} {}; the folder is of {}", named.config.space->provider,
           word(named.signature.op), word(named.signature.dtype_a), described());
    }
    // Several names may mean one kernel.
    if (!known_.insert(config_name(named.signature, named.config)).second) {
      ++repeated;
      return;
    }
    auto at = std::ranges::find(kernels_, named.signature, &SignatureConfigs::signature);
    if (at == kernels_.end()) at = kernels_.insert(at, {named.signature, ConfigTable(*named.config.space)});
    at->configs.push_back(named.config);
  }

  const CkFolder& of_;
  std::unordered_set<std::string> seen_, known_;  ///< names as listed, and as the provider prints them
  std::vector<SignatureConfigs> kernels_;
};

Scale scale_of(const LightgbmTarget& target, const std::string& path) {
  if (target.model.link == Link::identity) return target.log1p ? Scale::log1p : Scale::value;
  if (target.model.link == Link::exponential && !target.log1p) return Scale::log;
  fail(Errc::unsupported,
       "{}: target {} has objective '{}'{}: models that choose are of objective regression, with or without "
       "log_targets, or of one with an exponential link",
       path, target.name, target.model.objective, target.log1p ? " and is in log_targets" : "");
}

std::vector<ModelTarget> targets_of(const CkFolder& read, const std::string& path) {
  std::vector<ModelTarget> targets;
  for (const Target wanted : {Target::tflops, Target::latency, Target::bandwidth}) {
    const auto found = std::ranges::find(read.folder.targets, word(wanted), &LightgbmTarget::name);
    if (found == read.folder.targets.end()) continue;
    ModelTarget target{.target = wanted, .forest = found->model.forest, .scale = scale_of(*found, path)};
    if (wanted == Target::latency) target.offset = -std::log(microseconds_per_latency(read.folder));
    targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace

CkModel import_ck_model(const CkModelRequest& request) {
  const CkFolder read = read_ck_folder(request.folder, request.schema, request.device);
  check_runs_on(ck_tile_provider(), read.schema.data().op, read.device);
  Kernels kernels(read);
  const auto listed = is_parquet(request.kernels)
                          ? names_in_parquet(request.kernels)
                          : listed_kernels(read_plain_text(request.kernels), request.kernels.string());
  for (const ListedKernel& one : listed) kernels.add(one);
  ModelData data;
  data.families = kernels.families(request.kernels);
  data.schema = std::make_shared<Schema>(read.schema.for_op(data.families.front().signature.op));
  data.targets = targets_of(read, request.folder.string());
  std::uint64_t hash = data.schema->hash();
  for (const ModelTarget& target : data.targets) hash = text_hash(forest_bytes(target.forest), hash);
  data.fingerprint = hash_digits(hash);
  return {Model(std::move(data)), kernels.repeated, std::move(kernels.skipped)};
}

}  // namespace kscout
