// What kimi-plan says about a deployment, as JSON; the table is printed from it.
#pragma once

#include <nlohmann/json.hpp>

#include "deploy/deployment.h"
#include "placement/planner.h"

namespace kimi::plan {

using Report = nlohmann::ordered_json;

// Tokens per verify step that speeds are given for.
inline constexpr double kAcceptance[] = {1, 4, 7};

// placement, kv: those of the deployment; none: only what is recommended.
Report make_report(const PlanRequest &request, const std::optional<Placement> &placement,
                   KvFormat kv, bool with_search);

std::string to_table(const Report &report);

}  // namespace kimi::plan
