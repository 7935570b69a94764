#include "fuzz.hpp"

#include "constrain/data/packing.hpp"

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

namespace {

namespace data = constrain::data;
using constrain::error, constrain::ignored_label, constrain::test::hold;

/// The documents of an input, and where each token is.
struct numbered_documents {
  data::documents all{};
  std::vector<std::int64_t> document{0}, index{0}; // by token: its document, and its index there. No token is 0
};

/// Two bytes as the length of a row: the highest are the extremes, and any other is a length below 2048.
std::int64_t length_of(std::byte low, std::byte high) {
  using in_32_bits = std::numeric_limits<std::int32_t>;
  using in_64_bits = std::numeric_limits<std::int64_t>;
  constexpr std::int64_t extremes[] = {-1,
                                       in_32_bits::min(),
                                       std::int64_t{in_32_bits::max()} + 1,
                                       std::int64_t{1} << 32,
                                       std::int64_t{1} << 62,
                                       in_64_bits::min(),
                                       in_64_bits::max()};
  auto const value = std::to_integer<std::int64_t>(low) + 256 * std::to_integer<std::int64_t>(high);
  auto const extreme = 0xffff - value;
  return extreme < std::ssize(extremes) ? extremes[extreme] : value % 2048;
}

bool is_prompt(std::int64_t token, std::int64_t prompts) { return prompts > 0 && token % prompts == 0; }

/// Adds a document of `length` tokens: 1, 2, and so on over all documents. Those that `prompts` divides are prompts.
/// An error ends the process.
void add(numbered_documents& to, std::int64_t length, std::int64_t prompts) noexcept {
  std::vector<std::int32_t> tokens;
  std::vector<bool> prompt;
  for (std::int64_t i = 0; i < length; ++i) {
    tokens.push_back(static_cast<std::int32_t>(to.all.all_tokens() + 1 + i));
    if (prompts > 0) prompt.push_back(is_prompt(tokens.back(), prompts));
    to.document.push_back(to.all.size()), to.index.push_back(i);
  }
  to.all.add(tokens, ignored_label, prompt);
}

/// Tries to add a document that must be refused, with nothing changed.
void add_wrong(data::documents& all, int which) {
  auto const size = all.size(), all_tokens = all.all_tokens();
  try {
    if (which == 0) all.add({});
    if (which == 1) all.add(std::vector<std::int32_t>{1, std::numeric_limits<std::int32_t>::min()});
    if (which == 2) all.add(std::vector<std::int32_t>{1, 2}, -1);
    if (which == 3) all.add(std::vector<std::int32_t>{1, 2}, 0, std::vector<bool>(3));
    std::abort();
  } catch (error const&) { hold(all.size() == size && all.all_tokens() == all_tokens); }
}

/// Holds that the rows have every token once, with the position and the label of its document, and that no two rows
/// would fit into one. An error ends the process.
void check_rows(numbered_documents const& from, data::packing_options const& options, std::int64_t prompts) noexcept {
  auto const length = options.length;
  auto const packed = data::pack(from.all, options);
  auto const tokens = packed.inputs()[0].integers(), positions = packed.inputs()[1].integers(),
             labels = packed.labels()[0].integers();
  data::check_positions(positions, length);
  auto const all = from.all.all_tokens(), size = std::ssize(tokens);
  hold(size == std::ssize(positions) && size == std::ssize(labels) && (size == length || size < 2 * all));
  std::vector<bool> seen(from.document.size());
  for (std::int64_t i = 0; i < size; ++i) {
    auto const at = static_cast<std::size_t>(i);
    auto const token = static_cast<std::size_t>(tokens[at]);
    hold(tokens[at] >= 0 && tokens[at] <= all && (token == 0 || !seen[token]));
    seen[token] = true;
    bool const continues = positions[at] > 0;
    if (token == 0) { // the padding goes to the end of the row, each of its tokens as a document
      hold(labels[at] == ignored_label && !continues && (i % length == length - 1 || tokens[at + 1] == 0));
      continue;
    }
    hold(positions[at] == from.index[token] % length && (!continues || tokens[at - 1] == tokens[at] - 1));
    auto const label = token + (options.labels == data::document_labels::next_tokens ? 1 : 0);
    bool const labelled = label < from.document.size() && from.document[label] == from.document[token] &&
                          !is_prompt(static_cast<std::int64_t>(label), prompts);
    hold(labels[at] == (labelled ? static_cast<std::int32_t>(label) : ignored_label));
  }
  for (std::size_t token = 1; token < seen.size(); ++token) hold(seen[token]);
}

} // namespace

// Two bytes are the length of a row, one is the kind of labels, and one marks the prompts. Each further one is the
// length of a document; the bytes from 192 on are long documents, and the highest are wrong ones.
void constrain::test::try_reader(std::span<std::byte const> bytes) {
  if (bytes.size() < 4) return;
  data::packing_options const options{.length = length_of(bytes[0], bytes[1]),
                                      .labels = static_cast<data::document_labels>(bytes[2])};
  auto const prompts = std::to_integer<std::int64_t>(bytes[3]);
  constexpr std::int64_t most = 5000; // tokens, so that an input is tried fast
  numbered_documents from;
  for (auto const each : bytes.subspan(4)) {
    auto const value = std::to_integer<int>(each);
    auto const tokens = value < 192 ? value : (value - 191) * 100;
    if (from.all.all_tokens() + tokens > most) break;
    if (value == 0 || value > 252) add_wrong(from.all, value == 0 ? 0 : value - 252);
    else add(from, tokens, prompts);
  }
  bool const valid = options.length > 0 && options.length < 2048 &&
                     options.labels <= data::document_labels::same_tokens && from.all.size() > 0;
  if (valid) return check_rows(from, options, prompts);
  data::pack(from.all, options);
  std::abort();
}
