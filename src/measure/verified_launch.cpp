#include "measure/verified_launch.h"

#include <limits>
#include <utility>
#include <vector>

#include "measure/samples.h"

namespace kscout {

VerifiedLaunch::VerifiedLaunch(std::unique_ptr<Launch> launch, GemmOperands& operands)
    : launch_(std::move(launch)),
      operands_(operands),
      workspace_(3, operands.device()),
      packed_(4, operands.device()) {
  workspace_.resize_workspace(launch_->workspace_bytes());
  packed_.resize(launch_->packed_bytes());
}

Buffers VerifiedLaunch::buffers() {
  Buffers all = operands_.buffers();
  if (launch_->packed_bytes() > 0) all.packed = packed_.data();
  return all;
}

void VerifiedLaunch::run() {
  operands_.reset_c();
  workspace_.poison();
  if (launch_->packed_bytes() > 0) {
    packed_.poison();
    launch_->pack(operands_.packable(), packed_.data());
  }
  launch_->run(buffers(), workspace_.data());
}

Verification VerifiedLaunch::check(const Reference& reference) {
  Verification found = reference.check(operands_.result());
  if (std::string text = operands_.damage(workspace_, packed_); !text.empty()) {
    found = {std::numeric_limits<double>::infinity(), std::move(text)};
    operands_.repair();
    workspace_.repair();
    packed_.repair();
  }
  return found;
}

double VerifiedLaunch::packing_us() {
  constexpr int kMeasuredPackings = 5;
  if (launch_->packed_bytes() == 0) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> samples;
  for (int i = 0; i < kMeasuredPackings; ++i) {
    samples.push_back(operands_.device().pack_us(*launch_, operands_.packable(), packed_.data()));
  }
  return summarise(samples).median;
}

double VerifiedLaunch::time_us(Launch& part, int calls) {
  return operands_.device().time_us(part, buffers(), workspace_.data(), calls);
}

void VerifiedLaunch::evict_from_caches() const {
  operands_.evict_from_caches({workspace_.data(), workspace_.size()});
}

}  // namespace kscout
