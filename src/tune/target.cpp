#include "tune/target.h"

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "core/fail.h"
#include "core/owners.h"
#include "family/family_file.h"
#include "family/rules.h"
#include "op/operation.h"
#include "select/model.h"
#include "train/train.h"

namespace kscout {

namespace fs = std::filesystem;

Schema tune_schema(Op op, const TuneRequest& options, bool after_shared) {
  const std::string provider = options.provider_for(op);
  if (options.schema.empty()) {
    const DeviceKind kind = options.on_gpu() ? DeviceKind::gpu : DeviceKind::cpu;
    const std::string usual =
        after_shared ? any_cpu_schema(op) : std::string(default_schema(op, provider, kind));
    return Schema::find(usual).for_op(op);
  }
  const Schema schema = Schema::named(options.schema);
  const SchemaData& data = schema.data();
  if (same_operation(data.op, op) && (data.provider.empty() || data.provider == provider))
    return schema.for_op(op);
  fail(Errc::invalid_argument, "--schema {}: it is of {} {}; tune measures {} of provider {}", options.schema,
       word(data.op), data.provider.empty() ? "problems" : "kernels of provider " + data.provider, word(op),
       provider);
}

namespace {

/// With several operations, --out is the folder of their models, as a folder of KSCOUT_MODEL_PATH is.
fs::path target_of(Op op, const TuneRequest& options, const Device& device) {
  const std::string name = model_folder_name(op, options.dtype, device);
  if (options.out.empty()) {
    const fs::path own = user_model_folder();
    if (own.empty())
      fail(Errc::invalid_argument, "{}: set HOME, or name a folder with --out",
           no_user_folder("XDG_DATA_HOME"));
    return real_model_folder(own / name);
  }
  if (options.ops.size() == 1) return real_model_folder(options.out);
  if (fs::exists(fs::path(options.out) / "model.ksf")) {
    fail(Errc::invalid_argument,
         "--out {}: is a model; with several operations --out is the folder of their models, so name another",
         options.out);
  }
  return real_model_folder(fs::path(options.out) / name);
}

}  // namespace

fs::path checked_target(Op op, const TuneRequest& options, const Device& device) {
  find_rules(options.provider_for(op), op, options.rules);
  tune_schema(op, options, false);
  fs::path target = target_of(op, options, device);
  check_model_folder(target);
  return target;
}

}  // namespace kscout
