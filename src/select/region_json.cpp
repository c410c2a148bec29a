#include "select/region_json.h"

#include <cmath>

#include "core/fail.h"

namespace kscout {

Json region_json(const std::optional<Region>& region) {
  if (!region) return nullptr;
  Json prototypes = Json::array();
  for (const auto& of_family : region->prototypes) {
    Json list = Json::array();
    for (const Region::Prototype& prototype : of_family) list.push_back(prototype);
    prototypes.push_back(std::move(list));
  }
  return {{"steps", Region::steps}, {"prototypes", std::move(prototypes)}};
}

std::optional<Region> region_from_json(const Json& json) {
  if (json.is_null()) return std::nullopt;
  if (json.at("steps").get<int>() != Region::steps)
    fail(Errc::invalid_argument, "region: {} steps per factor of 2; this program knows {}",
         json.at("steps").get<int>(), Region::steps);
  Region region;
  for (const Json& of_family : json.at("prototypes"))
    region.prototypes.push_back(of_family.get<std::vector<Region::Prototype>>());
  return region;
}

Json guard_json(const std::optional<Guard>& guard) {
  if (!guard) return nullptr;
  return {{"distance", guard->distance}, {"lead", guard->lead}};
}

std::optional<Guard> guard_from_json(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const Guard guard{json.at("distance").get<double>(), json.at("lead").get<double>()};
  if (!std::isfinite(guard.distance) || !std::isfinite(guard.lead) || guard.distance < 0)
    fail(Errc::invalid_argument, "guard: distance {}, lead {}; both must be finite, the distance at least 0",
         guard.distance, guard.lead);
  return guard;
}

Json listed_kinds_json(std::span<const AlgorithmKind> kinds) {
  Json json = Json::array();
  for (const AlgorithmKind& kind : kinds) {
    json.push_back({{"tile_k", kind.tile_k},
                    {"stages", kind.stages},
                    {"cluster_m", kind.cluster_m},
                    {"cluster_n", kind.cluster_n},
                    {"tiled", kind.tiled}});
    if (kind.engine > 0) json.back()["engine"] = kind.engine;
  }
  return json;
}

std::vector<AlgorithmKind> listed_kinds_from_json(const Json& json) {
  std::vector<AlgorithmKind> kinds;
  for (const Json& kind : json)
    kinds.push_back({kind.at("tile_k").get<double>(), kind.at("stages").get<double>(),
                     kind.at("cluster_m").get<double>(), kind.at("cluster_n").get<double>(),
                     kind.at("tiled").get<bool>(), kind.value("engine", 0.0)});
  return kinds;
}

}  // namespace kscout
