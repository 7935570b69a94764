#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// A real task: an encoder of bytes learns from which folder of headers a snippet is. Comments and #include lines are
// removed, and the snippets of the test are from files without a snippet in the training. By default, a small encoder
// learns folders that the test writes. With CONSTRAIN_EXHAUSTIVE, a larger one learns the folders of /usr/include, with
// and without pretraining (about 16 minutes on one core).

namespace ct = constrain;
namespace fs = std::filesystem;
using ct::test::read_file, ct::test::write_file, ct::test::temporary_directory;

namespace {

constexpr int folder_count = 8;

/// `text` without comments, #include lines and blank lines.
std::string code_of(std::string const& text) {
  std::string kept, line;
  auto const end_line = [&] {
    auto const first = line.find_first_not_of(" \t#");
    bool const is_include = first != line.npos && line.find('#') < first && line.compare(first, 7, "include") == 0;
    if (first != line.npos && !is_include) (kept += line) += '\n';
    line.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) i = std::min(text.find('\n', i), text.size()) - 1;
    else if (text.compare(i, 2, "/*") == 0) i = std::min(text.find("*/", i + 2), text.size() - 2) + 1;
    else if (text[i] == '\n') end_line();
    else line += text[i];
  }
  end_line();
  return kept;
}

/// A folder with its subfolders: the code of its headers, in the order of their paths, and the names of the subfolders.
/// If several headers have the same code, `headers` has it once.
struct folder {
  std::string name{};
  std::vector<std::string> headers{};
  std::set<std::string> subfolders{};
};

/// Reads the headers with at least `length` bytes of code. The headers of the C++ library have no extension.
folder read_folder(fs::path const& at, std::size_t length) {
  static std::set<std::string> const extensions{"", ".h", ".hpp", ".tcc"};
  folder f{.name = at.filename().string()};
  std::map<std::string, std::string> by_path;
  for (auto const& e : fs::recursive_directory_iterator(at, fs::directory_options::skip_permission_denied)) {
    if (e.is_symlink()) continue;
    if (e.is_directory()) f.subfolders.insert(e.path().filename().string());
    else if (e.is_regular_file() && extensions.contains(e.path().extension().string()))
      by_path[e.path().string()] = code_of(read_file(e.path()));
  }
  std::set<std::string_view> seen;
  for (auto const& [path, code] : by_path)
    if (code.size() >= length && seen.insert(code).second) f.headers.push_back(code);
  return f;
}

/// Calls `f` with every line of at least 20 characters.
void for_each_long_line(folder const& of, auto const& f) {
  for (std::string_view code : of.headers)
    for (std::size_t end; (end = code.find('\n')) != code.npos; code.remove_prefix(end + 1))
      if (end >= 20) f(std::hash<std::string_view>()(code.substr(0, end)));
}

/// For each folder, the share of its different long lines that are also in another of the folders.
std::vector<double> shared_lines(std::vector<folder> const& folders) {
  constexpr int several = -1;
  std::unordered_map<std::size_t, int> holders; // the folder with this line
  for (int i = 0; auto const& f : folders) {
    for_each_long_line(f, [&](std::size_t line) {
      auto const [at, is_new] = holders.try_emplace(line, i);
      if (!is_new && at->second != i) at->second = several;
    });
    ++i;
  }
  std::vector<double> shares;
  for (auto const& f : folders) {
    std::set<std::size_t> all, shared;
    for_each_long_line(f, [&](std::size_t line) {
      all.insert(line);
      if (holders[line] == several) shared.insert(line);
    });
    shares.push_back(all.empty() ? 0 : static_cast<double>(shared.size()) / static_cast<double>(all.size()));
  }
  return shares;
}

/// The folders in `root` with at least 20 headers; of these, the `folder_count` with the most headers. Left out are
/// folders that hold parts of others: two or more of their subfolders have the names of other folders, as in Debian's
/// folder for an architecture, or more than a twentieth of their lines is in other folders, too.
std::vector<folder> find_folders(fs::path const& root, std::size_t length) {
  std::vector<folder> all;
  std::set<std::string> names;
  for (auto const& e : fs::directory_iterator(root))
    if (e.is_directory() && !e.is_symlink()) {
      names.insert(e.path().filename().string());
      if (auto f = read_folder(e.path(), length); f.headers.size() >= 20) all.push_back(std::move(f));
    }
  std::ranges::sort(all, {}, &folder::name);
  auto const shares = shared_lines(all);
  std::vector<folder> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const of_others = std::ranges::count_if(
        all[i].subfolders, [&](std::string const& name) { return name != all[i].name && names.contains(name); });
    if (of_others < 2 && shares[i] <= 0.05) kept.push_back(std::move(all[i]));
  }
  std::ranges::stable_sort(kept, std::ranges::greater{}, [](folder const& f) { return f.headers.size(); });
  kept.resize(std::min<std::size_t>(kept.size(), folder_count));
  return kept;
}

/// Snippets of `length` bytes and their folders: equally many of each.
struct snippets {
  std::vector<std::int32_t> tokens{}, folders{};

  /// Draws `count` snippets from every folder: from every fifth header for the test, else from the other headers.
  snippets(std::vector<folder> const& from, int count, std::size_t length, bool for_test) {
    std::mt19937_64 random(for_test);
    for (std::size_t f = 0; f < from.size(); ++f) {
      std::vector<std::string_view> headers;
      for (std::size_t i = 0; i < from[f].headers.size(); ++i)
        if ((i % 5 == 0) == for_test) headers.push_back(from[f].headers[i]);
      for (int i = 0; i < count; ++i) {
        auto const code = headers[random() % headers.size()];
        for (unsigned char byte : code.substr(random() % (code.size() - length + 1), length)) tokens.push_back(byte);
        folders.push_back(static_cast<std::int32_t>(f));
      }
    }
  }
  ct::data::examples labelled() const { return {tokens, folders}; }
  ct::data::examples masked() const {
    return ct::data::examples(tokens, tokens)
        .with_masks({.mask_token = 256, .vocabulary = 257, .share = 0.3, .span = 4});
  }
};

/// A pre-norm encoder of bytes, like CANINE (Clark et al. 2022) in little: a convolution over five bytes, then a
/// transformer whose tokens are patches of four bytes. Without `classes`, the model is for masked language modeling:
/// the features of a byte and of its patch predict the byte. Without the convolution, pretraining takes much longer:
/// after 500 steps, post-norm and pre-norm transformers of bytes had hardly a lower loss than the frequencies of bytes
/// give.
struct encoder {
  int context = 512, bytes = 48, width = 128, layers = 2;
  int classes = 0;
  static constexpr int patch = 4;

  constexpr encoder with_classes(int n) const {
    auto m = *this;
    m.classes = n;
    return m;
  }
  constexpr ct::value operator()(ct::value tokens) const {
    auto const near = ct::gelu(ct::linear("near", windows(tokens), width));
    auto const patches = ct::shape(tokens.shape().extent[0], context / patch, patch * width);
    auto x = ct::linear("patch", ct::reshape(near, patches), width);
    x = ct::position_embedding("position", x, {.context = context / patch});
    x = ct::repeat("block", layers, x, [&](ct::value h) { return block(h); });
    x = ct::layer_norm("norm", x);
    if (classes != 0)
      return ct::linear("head", ct::mean(ct::gelu(ct::linear("pool", x, 2 * width)), ct::axis::tokens), classes);
    auto const of_patches = ct::reshape(ct::linear("spread", x, patch * width), near.shape());
    return ct::linear("predict", ct::layer_norm("spread_norm", near + of_patches), 257);
  }

private:
  /// The features of each byte and of the four bytes after it; after the last byte comes the first.
  constexpr ct::value windows(ct::value tokens) const {
    auto const x = ct::embedding("byte", tokens, {.vocabulary = 257, .width = bytes, .stddev = 0.5});
    auto const after = [&](int n) {
      return ct::concatenate({ct::slice(x, 1, n, context - n), ct::slice(x, 1, 0, n)}, 1);
    };
    return ct::concatenate({x, after(1), after(2), after(3), after(4)}, 2);
  }
  constexpr ct::value block(ct::value h) const {
    auto const qkv = ct::linear("qkv", ct::layer_norm("norm_1", h), 3 * width);
    h = h + ct::dropout(ct::linear("projection", ct::self_attention(qkv, {.heads = 4, .causal = false}), width));
    auto const up = ct::gelu(ct::linear("up", ct::layer_norm("norm_2", h), 4 * width));
    return h + ct::dropout(ct::linear("down", up, width));
  }
};

struct curve_point {
  std::int64_t step;
  double accuracy;
};
using curve = std::vector<curve_point>;

/// The first step of an evaluation with at least this accuracy; without one, the largest integer.
std::int64_t step_of(curve const& c, double accuracy) {
  auto const at = std::ranges::find_if(c, [&](curve_point const& p) { return p.accuracy >= accuracy; });
  return at == c.end() ? std::numeric_limits<std::int64_t>::max() : at->step;
}

/// The learning rate rises to `rate` for a tenth of the steps, and then falls to 0.
struct phase {
  std::int64_t steps;
  float rate;

  ct::run_options run() const {
    return {.seed = 1,
            .clip_norm = 1,
            .schedule = ct::schedule::linear{.warmup = steps / 10, .steps = steps},
            .dropout = 0.1};
  }
  ct::optimizer::adamw::hyper hyper() const { return {.learning_rate = rate, .weight_decay = 0.01f}; }
};

/// Pretrains an encoder, and trains its classifier.
template <encoder model> struct experiment {
  static constexpr ct::micro_batch batch{.sequences = 16};
  using pretraining = ct::trainer<ct::task<model, ct::masked_lm, batch>>;
  using classification = ct::trainer<ct::task<model.with_classes(folder_count), ct::classification, batch>>;

  std::vector<folder> const& folders;
  phase before, after;         // pretraining and classification
  std::int64_t evaluate_every; // steps of the classification between two evaluations
  int of_test;                 // snippets of each folder in the test
  snippets test{folders, of_test, model.context, true};

  /// As many snippets as the training reads.
  snippets training(phase const& of) const {
    return {folders, static_cast<int>(of.steps * batch.sequences / folder_count), model.context, false};
  }
  /// Saves the pretrained encoder, and returns the loss on the test's snippets before and after.
  std::array<double, 2> pretrain(std::string const& directory, std::FILE* log) const {
    auto const train = training(before);
    auto const masked = train.masked(), validation = test.masked();
    pretraining t{before.hyper(), before.run()};
    auto const first = t.evaluate(validation).loss;
    ct::fit(t, masked, {.steps = before.steps, .log = log, .log_every = 50});
    t.save(directory);
    return {first, t.evaluate(validation).loss};
  }
  /// Trains the classifier from new weights or, if `pretrained` is not empty, from those in this directory.
  curve classify(std::string const& pretrained) const {
    auto const train = training(after);
    auto const examples = train.labelled(), validation = test.labelled();
    classification t{after.hyper(), after.run()};
    if (!pretrained.empty()) {
      auto const loaded = t.load_pretrained(pretrained, {.strict = false});
      CHECK(loaded.missing.size() == 4); // weights and biases of "pool" and "head"
    }
    struct {
      curve points{};
      void on_evaluation(ct::fit_context& c) { points.push_back({c.step.count(), c.validation->accuracy}); }
    } found;
    ct::fit(t, examples,
            {.steps = after.steps, .validation = &validation, .evaluate_every = evaluate_every, .log = nullptr}, found);
    return found.points;
  }
};

/// Writes 25 headers that differ from those of other seeds in four of their words, and in no word of their comments.
void write_folder(fs::path const& at, unsigned seed) {
  auto const words_of = [](unsigned from) {
    std::mt19937 random(from);
    std::vector<std::string> words(4);
    for (auto& word : words)
      for (int i = 0; i < 5; ++i) word += static_cast<char>('a' + random() % 26);
    return words;
  };
  auto const own = words_of(seed), common = words_of(0);
  std::mt19937 random(seed);
  fs::create_directories(at);
  for (int file = 0; file < 25; ++file) {
    std::string text = "/* The licence\n of all files. */\n#include <common>\n";
    for (int line = 0; line < 30; ++line) {
      for (int i = 0; i < 5; ++i) text += (random() % 2 == 0 ? own : common)[random() % 4] + ' ';
      text += "// comment\n";
    }
    write_file(at / (std::to_string(file) + ".h"), text);
  }
}

/// Writes eight folders that `find_folders` finds, and others that it leaves out.
void write_folders(fs::path const& root) {
  for (unsigned i = 1; i <= folder_count; ++i) write_folder(root / ("folder_" + std::to_string(i)), i);
  write_folder(root / "original", 20), write_folder(root / "copies" / "lib", 20);
  write_folder(root / "machine" / "folder_1", 21), write_folder(root / "machine" / "folder_2", 22);
  write_folder(root / "small", 23);
  for (int file = 0; file < 6; ++file) fs::remove(root / "small" / (std::to_string(file) + ".h"));
  fs::create_directory(root / "empty");
}

} // namespace

TEST_CASE("code has no comments, #include lines and blank lines") {
  CHECK(code_of("#include <a>\n  # include \"b\"\nint x; // y\n/* a\nb */int y;\n\n#define include 1\n") ==
        "int x; \nint y;\n#define include 1\n");
  CHECK(code_of("a /* b") == "a \n");
  CHECK(code_of("a // b") == "a \n");
}

TEST_CASE("folders with too few headers, copies of headers or parts of other folders are left out") {
  temporary_directory const root;
  write_folders(root.path);
  auto folders = find_folders(root.path, 64);
  REQUIRE(folders.size() == folder_count);
  std::ranges::sort(folders, {}, &folder::name);
  for (int i = 1; auto const& f : folders) {
    CHECK(f.name == "folder_" + std::to_string(i++));
    CHECK(f.headers.size() == 25);
    for (auto const& code : f.headers) CHECK(code.find_first_of("/#") == code.npos);
  }
  auto const twice = root.path / "folder_1" / "deeper";
  fs::create_directory(twice);
  fs::copy_file(root.path / "folder_1" / "0.h", twice / "again.h");
  CHECK(read_folder(root.path / "folder_1", 64).headers.size() == 25);
  CHECK(read_folder(root.path / "folder_1", 100'000).headers.empty());
}

TEST_CASE("a small encoder is pretrained, and then learns the folders that the test writes") {
  temporary_directory const root, saved;
  write_folders(root.path);
  auto const folders = find_folders(root.path, 64);
  REQUIRE(folders.size() == folder_count);
  using small = experiment<encoder{.context = 64, .bytes = 16, .width = 32, .layers = 1}>;
  small const e{.folders = folders,
                .before = {.steps = 80, .rate = 5e-3f},
                .after = {.steps = 100, .rate = 5e-3f},
                .evaluate_every = 50,
                .of_test = 20};
  auto const [before, after] = e.pretrain(saved / "encoder", nullptr);
  CHECK(after < 0.6 * before);
  auto const c = e.classify(saved / "encoder");
  REQUIRE(c.size() == 2);
  CHECK(c.back().accuracy >= 0.9);
}

TEST_CASE("an encoder learns the folders of /usr/include, and in fewer steps with pretraining") {
  if (std::getenv("CONSTRAIN_EXHAUSTIVE") == nullptr) return;
  fs::path const root = "/usr/include";
  constexpr encoder model;
  auto const folders = fs::is_directory(root) ? find_folders(root, model.context) : std::vector<folder>();
  if (folders.size() < folder_count) {
    MESSAGE("only " << folders.size() << " folders of " << root << " have enough headers: not run");
    return;
  }
  for (auto const& f : folders) std::printf("%s: %zu headers\n", f.name.c_str(), f.headers.size());
  experiment<model> const e{.folders = folders,
                            .before = {.steps = 1500, .rate = 3e-3f},
                            .after = {.steps = 400, .rate = 1e-3f},
                            .evaluate_every = 25,
                            .of_test = 100};

  temporary_directory const saved;
  auto const [before, after] = e.pretrain(saved / "encoder", stdout);
  CHECK(after < before);
  auto const with = e.classify(saved / "encoder"), without = e.classify("");
  REQUIRE(with.size() == without.size());
  std::printf("steps  accuracy on other files  with pretraining\n");
  for (std::size_t i = 0; i < with.size(); ++i)
    std::printf("%5lld  %23.3f  %16.3f\n", static_cast<long long>(with[i].step), without[i].accuracy, with[i].accuracy);
  CHECK(without.back().accuracy >= 0.9);
  CHECK(with.back().accuracy >= 0.9);
  CHECK(step_of(with, 0.9) < step_of(without, 0.9));
}
