#include "backend/library/seal.h"

#include <string>
#include <vector>

#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/kernel_library.h>
#include <kscout/provider.h>

#include "backend/library/library_backend.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json_fields.h"
#include "core/name_rules.h"
#include "family/family_file.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;

std::string checksum_text(std::uint64_t checksum) { return "fnv1a64:" + hash_digits(checksum); }

/// The index as it stands, with another checksum.
Json sealed_again(const fs::path& file, const std::string& name, const std::string& device,
                  std::uint64_t checksum) {
  Json json = Json::parse(read_file(file), nullptr, false);
  if (!json.is_object())
    fail(Errc::corrupt_data, "{}: no JSON object; remove the file to write a new index", file.string());
  const auto keeps = [&](const char* member, const char* option, const std::string& given) {
    const std::string stated = json.value(member, "");
    if (given.empty() || given == stated) return;
    fail(Errc::invalid_argument, "{} {}: {} exists and states '{}'; edit or remove it", option, given,
         file.string(), stated);
  };
  keeps("name", "--name", name);
  keeps("device", "--device", device == "auto" ? "" : device);
  json["checksum"] = checksum_text(checksum);
  return json;
}

/// The configs of a declared family, each with its kernel.
Json kernels_of_family(const fs::path& family, const std::string& device_name,
                       const std::vector<std::string>& kernels) {
  const Provider& of = declare_provider(read_file(family), family.string());
  const Device device = find_device(device_name);
  Json listed = Json::array();
  for (const Signature& signature : family_signatures(of.name())) {
    const Family configs = enumerate({std::string(of.name()), signature, device, "default", ""});
    for (std::size_t i = 0; i < configs.configs.size(); ++i) {
      const std::string config = configs.name(i);
      const std::string* longest = nullptr;
      for (const std::string& kernel : kernels) {
        if (config.starts_with(kernel) && (!longest || longest->size() < kernel.size())) longest = &kernel;
      }
      if (longest) listed.push_back({{"config", config}, {"kernel", *longest}});
    }
  }
  if (listed.empty())
    fail(Errc::invalid_argument, "{}: no config's name begins with the name of a kernel ({})",
         family.string(), fmt::join(kernels, ", "));
  return listed;
}

Json sealed_first(const fs::path& library, const std::string& name, const std::string& device,
                  const fs::path& family, std::uint64_t checksum) {
  LibraryIndex index{};
  index.file = index.library = library;
  index.checksum = checksum;
  const kscout_kernel_library& loaded = load_library_file(index);
  Json json;
  json["format"] = "kscout-kernel-library";
  json["version"] = 1;
  json["abi"] = KSCOUT_KERNEL_ABI;
  json["name"] = name.empty() ? library.stem().string() : name;
  json["library"] = library.filename().string();
  json["checksum"] = checksum_text(checksum);
  json["backend"] = loaded.backend;
  json["device"] = device;
  json["serves"] = Json::array();
  json["kernels"] = Json::array();
  std::vector<std::string> kernels;
  for (const kscout_kernel* const kernel : kernels_of(loaded)) kernels.emplace_back(kernel->name);
  if (!family.empty()) {
    json["family"] = fs::proximate(family, library.parent_path()).string();
    json["kernels"] = kernels_of_family(family, device, kernels);
    return json;
  }
  for (const std::string& kernel : kernels) {
    try {
      parse_kernel_to_run(kernel);
    } catch (const Error& error) {
      fail(Errc::invalid_argument,
           "{}: kernel '{}' is not named like a config ({}); declare a family of your own (--family; `kscout "
           "generate --template` writes one), or write an index that maps a config to it",
           library.string(), kernel, error.what());
    }
    json["kernels"].push_back({{"config", kernel}});
  }
  return json;
}

}  // namespace

fs::path seal_library(const fs::path& library, const std::string& name, const std::string& device,
                      const fs::path& family) {
  if (!name.empty()) check_name("--name", name);
  const std::uint64_t checksum = text_hash(read_file(library));
  fs::path file = library;
  file.replace_extension(".kscout-library.json");
  const Json json = is_absent(file) ? sealed_first(library, name, device, family, checksum)
                                    : sealed_again(file, name, device, checksum);
  const std::string text = json.dump(1) + "\n";
  load_library_file(parse_library_index(text, file));
  write_file_atomically(file, text, kOwnersMode);
  return file;
}

}  // namespace kscout
