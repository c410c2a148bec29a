#pragma once
/// \file
/// The arguments of the implicit GEMMs of provider `groupwise`.
///
/// A block computes a tile of one group's product, or of several neighbouring groups together: then a kernel
/// before it has written the filters of these groups as one matrix, with zeros between the groups.
#include "backend/cuda/module/groupwise_conv.cuh"

namespace kscout::cuda {

struct GemmJob {
  const Element* image;   ///< that is read
  const Element* filter;  ///< of conv_bwd_weight: the gradient of the output image
  Element* result;
  float* partial;  ///< of parts > 1: [part][elements of the result]
  Walks walks;
  std::int32_t images;
  std::int32_t image_channels, result_channels;  ///< of all groups; result_channels of conv_bwd_weight: k
  std::int32_t image_per, result_per;            ///< of one group
  std::int32_t image_group, result_group;        ///< of the groups that a block computes together
  std::int32_t merged_groups;
  std::int32_t filter_y, filter_x, filter_elements;
  std::int32_t result_size[3];  ///< d, h, w of the computed image
  std::int32_t m_tiles, n_tiles, parts;
  std::int64_t result_elements;
  FastDivisor by_image_group, by_image_per, by_result_per;
  FastDivisor by_taps[3][kMaxClasses];        ///< of the walks
  FastDivisor by_pixels, by_plane, by_width;  ///< of conv_bwd_weight: d * h * w, h * w, w of the output image
  bool bf16;
  bool aligned_result;  ///< to pairs of elements
};

}  // namespace kscout::cuda
