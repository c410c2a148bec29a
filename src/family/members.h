#pragma once
/// \file
/// A joint family's members: what their rule sets hold, and their rules about problems, in the joint space.
#include <string_view>
#include <vector>

#include "family/family_file.h"
#include "family/why_not.h"

namespace kscout {

/// A list "members: PROVIDER SET, PROVIDER SET": the configs of each member in turn. A member that has none
/// for the signature and device adds nothing. Throws corrupt_data for a list of another form.
ConfigTable members_of(std::string_view list, const FamilyFile& file, const Signature& signature,
                       const Device& device);

/// why_not() of a joint config and such a list: the answer of its member's rule set.
WhyNot why_not_members(std::string_view list, const FamilyFile& file, const FamilyRequest& request,
                       const KernelConfig& config);

/// The members' `serves` rules, each asked of the configs of its member; none when the provider is not a
/// joint one.
std::vector<Rule> members_serve_rules(std::string_view provider, Op op);

inline constexpr std::string_view kMembersList = "members:";

}  // namespace kscout
