// Expands the networks of families/conv_networks.toml, whose header defines the layers, into convolutions.

#include <array>
#include <optional>
#include <tuple>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "core/numbers.h"
#include "core/toml_reader.h"
#include "op/conv/conv_sets.h"

namespace kscout {

namespace {

constexpr std::string_view kNetworkFile = "families/conv_networks.toml";

/// d, h, w.
using Axes = std::array<std::int64_t, 3>;

/// What flows from layer to layer.
struct Image {
  std::int64_t c = 1;
  Axes sizes = {1, 1, 1};
};

struct Layer {
  std::int64_t k = 0;  ///< 0: as many channels as the input
  Axes filter = {1, 1, 1}, stride = {1, 1, 1};
  std::optional<Axes> pad = {};
  std::int64_t dilation = 1, groups = 1, repeats = 1;
  std::int64_t squeeze = 0, squeeze_share = 0;  ///< channels, or the input's channels over this
  std::int64_t expand = 0, hidden = 0;          ///< of mb
  bool depthwise = false;
  std::vector<std::int64_t> plain;  ///< numbers without a letter
};

std::vector<std::string_view> split_at(std::string_view text, std::string_view mark) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + mark.size();
  }
  return parts;
}

/// Writes the convolutions of one network.
class Network {
 public:
  Network(std::string_view name, std::string_view input, DType dtype) : name_(name), dtype_(dtype) {
    const auto sizes = numbers(input);
    if (sizes.size() != 3 && sizes.size() != 4) refuse(input);
    is_3d_ = sizes.size() == 4;
    image_ = resized(sizes);
  }

  void add(std::string_view text) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string_view kind = text.substr(0, blank), rest = text.substr(std::min(blank + 1, text.size()));
    if (kind == "to") {
      image_ = resized(numbers(rest));
      return;
    }
    const bool parts = kind == "chain" || kind == "branch";
    // The repeats of a chain stand in its last part.
    Layer layer = parsed(parts ? rest.substr(std::min(rest.rfind('>') + 1, rest.size())) : rest);
    for (std::int64_t i = 0; i < layer.repeats; ++i) {
      if (i > 0) layer.stride = {1, 1, 1};
      if (kind == "conv") {
        conv(layer);
      } else if (kind == "chain") {
        chain(rest);
      } else if (kind == "branch") {
        const Image before = image_;
        chain(rest);
        image_ = before;
      } else if (kind == "basic") {
        basic(layer);
      } else if (kind == "bottleneck") {
        bottleneck(layer);
      } else if (kind == "mb") {
        inverted_bottleneck(layer);
      } else if (kind == "dense") {
        dense(layer);
      } else if (kind == "pool") {
        for (std::size_t axis = 0; axis < 3; ++axis)
          image_.sizes[axis] = (image_.sizes[axis] + layer.stride[axis] - 1) / layer.stride[axis];
      } else {
        refuse(text);
      }
    }
  }

  const std::vector<ConvProblem>& problems() const { return problems_; }

 private:
  [[noreturn]] void refuse(std::string_view text) const {
    fail(Errc::corrupt_data, "{}: network {}: cannot read '{}'", kNetworkFile, name_, text);
  }

  /// "3x224x224" as numbers.
  std::vector<std::int64_t> numbers(std::string_view text) const {
    std::vector<std::int64_t> values;
    for (const std::string_view part : split_at(text, "x")) {
      const auto value = number_in<std::int64_t>(part);
      if (!value || *value < 0) refuse(text);
      values.push_back(*value);
    }
    if (values.empty()) refuse(text);
    return values;
  }
  /// One number for all axes, or one per axis of the network. Axis d of a 2-D network has no meaning.
  Axes axes(std::string_view text) const {
    const auto values = numbers(text);
    const std::size_t dimensions = is_3d_ ? 3 : 2;
    if (values.size() == 1) return {values[0], values[0], values[0]};
    if (values.size() != dimensions) refuse(text);
    return is_3d_ ? Axes{values[0], values[1], values[2]} : Axes{0, values[0], values[1]};
  }
  /// Channels, then maybe sizes.
  Image resized(const std::vector<std::int64_t>& values) const {
    Image image = image_;
    image.c = values[0];
    const std::size_t given = values.size() - 1;
    for (std::size_t i = 0; i < given && i < 3; ++i) image.sizes[3 - given + i] = values[1 + i];
    return image;
  }

  Layer parsed(std::string_view text) const {
    Layer layer;
    for (const std::string_view word : split_at(text, " ")) {
      const std::string_view rest = word.substr(1);
      if (word == "=") {
        layer.k = 0;
      } else if (word == "dw") {
        layer.depthwise = true;
      } else if (word.starts_with("se/")) {
        layer.squeeze_share = numbers(word.substr(3))[0];
      } else if (word.starts_with("se")) {
        layer.squeeze = numbers(word.substr(2))[0];
      } else if (word.starts_with('s')) {
        layer.stride = with_ones(axes(rest));
      } else if (word.starts_with('p')) {
        layer.pad = axes(rest);
        if (!is_3d_) (*layer.pad)[0] = 0;
      } else if (word.starts_with('d')) {
        layer.dilation = numbers(rest)[0];
      } else if (word.starts_with('g')) {
        layer.groups = numbers(rest)[0];
      } else if (word.starts_with('e')) {
        layer.expand = numbers(rest)[0];
      } else if (word.starts_with('h')) {
        layer.hidden = numbers(rest)[0];
      } else if (word.starts_with('x')) {
        layer.repeats = numbers(rest)[0];
      } else if (word.find('x') != std::string_view::npos) {
        layer.filter = with_ones(axes(word));
      } else {
        layer.plain.push_back(numbers(word)[0]);
      }
    }
    if (!layer.plain.empty()) layer.k = layer.plain[0];
    return layer;
  }
  Axes with_ones(Axes values) const {
    if (!is_3d_) values[0] = 1;
    return values;
  }

  void conv(const Layer& layer) {
    ConvProblem p = make_conv(Op::conv_fwd, dtype_, is_3d_ ? Layout::ndhwgc : Layout::nhwgc);
    p.c = image_.c;
    p.k = layer.k == 0 ? image_.c : layer.k;
    p.g = layer.depthwise ? image_.c : layer.groups;
    std::tie(p.d, p.h, p.w) = std::tie(image_.sizes[0], image_.sizes[1], image_.sizes[2]);
    std::tie(p.z, p.y, p.x) = std::tie(layer.filter[0], layer.filter[1], layer.filter[2]);
    std::tie(p.stride_d, p.stride_h, p.stride_w) =
        std::tie(layer.stride[0], layer.stride[1], layer.stride[2]);
    p.dilation_h = p.dilation_w = layer.dilation;
    if (is_3d_) p.dilation_d = layer.dilation;
    Axes pad;
    for (std::size_t axis = 0; axis < 3; ++axis)
      pad[axis] = layer.pad ? (*layer.pad)[axis] : layer.dilation * (layer.filter[axis] - 1) / 2;
    p.left_pad_d = p.right_pad_d = pad[0];
    p.left_pad_h = p.right_pad_h = pad[1];
    p.left_pad_w = p.right_pad_w = pad[2];
    check(p);
    problems_.push_back(p);
    const ConvOutput out = output_sizes(p);
    image_ = {p.k, {out.d, out.h, out.w}};
  }
  void pointwise(std::int64_t k) {
    Layer layer;
    layer.k = k;
    conv(layer);
  }

  void chain(std::string_view text) {
    for (const std::string_view part : split_at(text, " > ")) {
      if (part.starts_with("to ")) {
        image_ = resized(numbers(part.substr(3)));
      } else {
        conv(parsed(part));
      }
    }
  }

  /// The 1x1 that brings a block's input to the shape of its output, where they differ.
  void shortcut(const Layer& block) {
    if (image_.c == block.k && block.stride == Axes{1, 1, 1}) return;
    const Image before = image_;
    Layer layer;
    layer.k = block.k;
    layer.stride = block.stride;
    conv(layer);
    image_ = before;
  }
  void squeeze(const Layer& block, std::int64_t input) {
    const std::int64_t channels = block.squeeze_share != 0 ? input / block.squeeze_share : block.squeeze;
    if (channels == 0) return;
    const Image before = image_;
    image_.sizes = {1, 1, 1};
    pointwise(channels);
    pointwise(before.c);
    image_ = before;
  }
  Layer of_3x3(const Layer& block, std::int64_t k) const {
    Layer layer = block;
    layer.k = k;
    layer.filter = {is_3d_ ? 3 : 1, 3, 3};
    return layer;
  }

  void basic(const Layer& block) {
    shortcut(block);
    conv(of_3x3(block, block.k));
    Layer second = of_3x3(block, block.k);
    second.stride = {1, 1, 1};
    conv(second);
  }
  void bottleneck(const Layer& block) {
    if (block.plain.size() != 2) refuse("bottleneck");
    const std::int64_t input = image_.c;
    shortcut(block);
    pointwise(block.plain[1]);
    conv(of_3x3(block, block.plain[1]));
    squeeze(block, input);
    pointwise(block.k);
  }
  void inverted_bottleneck(const Layer& block) {
    const std::int64_t input = image_.c, hidden = block.hidden != 0 ? block.hidden : input * block.expand;
    if (hidden != input) pointwise(hidden);
    Layer layer = block;
    layer.k = 0;
    layer.depthwise = true;
    conv(layer);
    squeeze(block, input);
    pointwise(block.k);
  }
  void dense(const Layer& block) {
    if (block.plain.size() != 2) refuse("dense");
    const Image before = image_;
    pointwise(block.plain[1]);
    conv(of_3x3(block, block.plain[0]));
    image_ = before;
    image_.c += block.plain[0];
  }

  std::string_view name_;
  DType dtype_;
  bool is_3d_ = false;
  Image image_;
  std::vector<ConvProblem> problems_;
};

}  // namespace

std::vector<ConvProblem> convs_of_networks(DType dtype, const std::vector<std::string>& asked) {
  const toml::table file = parse_toml(embedded_file(kNetworkFile), kNetworkFile);
  const toml::table& all = *file["networks"].as_table();
  std::vector<std::string_view> names;
  for (const auto& [key, node] : all) names.push_back(key.str());
  const std::vector<std::string_view> chosen =
      asked.empty() ? names : std::vector<std::string_view>(asked.begin(), asked.end());
  std::vector<ConvProblem> problems;
  for (const std::string_view name : chosen) {
    const toml::table& described = *all[names[index_of_word("network", name, names)]].as_table();
    Network network(name, described["input"].value_or(""), dtype);
    for (const auto& layer : *described["layers"].as_array()) network.add(*layer.value<std::string_view>());
    for (const auto& images : *file["images"].as_array()) {
      for (ConvProblem problem : network.problems()) {
        problem.n = *images.value<std::int64_t>();
        problems.push_back(problem);
      }
    }
  }
  return problems;
}

}  // namespace kscout
