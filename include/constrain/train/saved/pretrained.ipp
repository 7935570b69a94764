#pragma once

#include "constrain/train/saved/pretrained.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/convert_reals.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/directory_handle.hpp"
#include "constrain/io/directory_mark.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/real_path.hpp"
#include "constrain/train/saved/configuration_check.hpp"
#include "constrain/train/saved/saved_run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <sys/stat.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The tensor called `name`, or `name` without the format's prefix (GPT-2 files exist with and without "transformer."),
/// or one of these names with one of the format's other suffixes, or else its copy, such as a tied head; null: not
/// found.
[[gnu::cold]] CONSTRAIN_INLINE io::tensor const* find_stored(io::safetensors_files const& file, std::string_view name,
                                                             weight_format const& format) {
  auto const find = [&](std::string_view candidate) {
    auto const* const stored = file.find(candidate);
    return stored == nullptr && candidate.starts_with(format.prefix) ? file.find(candidate.substr(format.prefix.size()))
                                                                     : stored;
  };
  auto const* stored = find(name);
  for (auto const& [suffix, other_suffix] : format.other_suffixes)
    if (stored == nullptr && name.ends_with(suffix))
      stored = find(concat({name.substr(0, name.size() - suffix.size()), other_suffix}));
  for (auto const& [copy, original] : format.copies)
    if (stored == nullptr && name == original) stored = find(copy);
  return stored;
}

/// Weights that are open for reading. All files of a saved run are read through one `directory_reader`, so that they
/// belong to the same run even if a save replaces the directory meanwhile.
struct opened_weights {
  std::unique_ptr<io::directory_reader> run{}; // the reader of a saved run; null: no saved run
  io::safetensors_files files{};
};

/// Whether a directory has a file called `name`. Throws `error` if this cannot be determined.
[[gnu::cold]] CONSTRAIN_INLINE bool has_file(std::string const& directory, std::string_view name) {
  auto const path = concat({directory, "/", name});
  if (io::detail::exists(path)) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw error({"the directory '", directory, "' cannot be searched for ", name, " (", io::reason(), "); ",
               io::lacks_resources() ? io::remedy() : "check the path and its permissions"});
}

/// Whether a directory is a saved run, intact or damaged. Other programs, too, write files called manifest.json. Throws
/// as `has_file` does.
[[gnu::cold]] CONSTRAIN_INLINE bool is_saved_run(std::string const& directory) {
  if (!has_file(directory, io::manifest_name)) return false;
  if (has_file(directory, io::detail::mark_name)) return true;
  try {
    io::mapped_file const file(concat({directory, "/", io::manifest_name}), "the manifest");
    return !io::manifest::is_foreign(file.text());
  } catch (error const&) {
    return true; // `directory_reader` throws the reason, or finds the run of a save that replaced the directory
  }
}

/// Opens the weights at `path`, a file or a directory. For a directory, checks its manifest, if it is a saved run, and
/// its config.json, if this file exists and `format.configuration` is not empty. `strict`: as in `pretrained_options`.
/// `loader`: as in `check_field`.
[[gnu::cold]] CONSTRAIN_INLINE opened_weights open_weights(std::string const& path, bool strict,
                                                           weight_format const& format, std::string_view loader) {
  // After a save was interrupted between its two renames, the reader finds '.<name>.previous'.
  bool const is_interrupted = !io::directory_reader::previous_of(path).empty();
  auto const status = io::detail::status_of(path);
  // A directory that cannot be listed can have files that can be read.
  if (!is_interrupted && !(status && S_ISDIR(status->st_mode))) return {nullptr, io::safetensors_files::open(path)};
  auto const path_of = [&](std::string_view name) { return concat({path, "/", name}); };
  opened_weights opened;
  if (is_interrupted || is_saved_run(path)) opened.run = std::make_unique<io::directory_reader>(path);
  auto const contains = [&](char const* name) {
    return opened.run ? opened.run->contains(name) : has_file(path, name);
  };
  if (!contains(weights_file) && !contains(weights_index_file))
    throw error({"the directory '", path, "' has no ", weights_file, " and no ", weights_index_file,
                 "; save the model there as safetensors"});
  if (auto const file = path_of(configuration_file); !format.configuration.empty() && contains(configuration_file)) {
    configuration_check check{path, loader, format.required_keys};
    if (!strict) check.skipped = format.head_keys;
    if (opened.run) check_configuration(check, opened.run->text(configuration_file), file, format);
    else check_configuration(check, io::mapped_file(file, "the configuration").text(), file, format);
  }
  if (opened.run) opened.files = weights_of(*opened.run);
  else if (contains(weights_file)) opened.files = io::safetensors_files::open(path_of(weights_file));
  else opened.files = io::safetensors_files::open_indexed(path_of(weights_index_file));
  return opened;
}

/// For each tensor of `wanted`, the stored tensor; null: missing. Throws `error` if a stored tensor has a different
/// shape or a dtype other than F64, F32, BF16 and F16.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<io::tensor const*> find_weights(std::string const& path,
                                                                           io::safetensors_files const& saved,
                                                                           std::vector<file_tensor> const& wanted,
                                                                           weight_format const& format,
                                                                           std::string_view loader) {
  std::vector<io::tensor const*> stored;
  for (auto const& w : wanted) {
    auto const* const t = find_stored(saved, w.tensor.name, format);
    stored.push_back(t);
    if (t == nullptr) continue;
    check_field(path, concat({"shape of '", t->name, "'"}), shape_text(t->shape), shape_text(w.tensor.shape), loader);
    if (!io::floating_dtype(t->dtype))
      throw error(
          {"the weights '", path, "' have '", t->name, "' as ", t->dtype, "; save it as F64, F32, BF16 or F16"});
  }
  return stored;
}

/// Lists the tensors of `wanted` that `find_weights` did not find, and the stored tensors that are neither the model's
/// nor ignored by the format. `stored`: the result of `find_weights`.
[[gnu::cold]] CONSTRAIN_INLINE loaded_weights compare(io::safetensors_files const& saved,
                                                      std::vector<file_tensor> const& wanted,
                                                      std::vector<io::tensor const*> const& stored,
                                                      weight_format const& format) {
  loaded_weights result;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (stored[i] == nullptr) result.missing.push_back(wanted[i].tensor.name);
  auto const is_ignored = [&](std::string_view name) {
    for (auto const suffix : format.ignored_suffixes)
      if (name.ends_with(suffix)) return true;
    return false;
  };
  for (auto const* t : saved.tensors())
    if (std::find(stored.begin(), stored.end(), t) == stored.end() && !is_ignored(t->name))
      result.unexpected.push_back(t->name);
  return result;
}

/// Whether two tensors have the same shape and values, which may be stored as different types. Two NaNs count as equal.
[[gnu::cold]] CONSTRAIN_INLINE bool same_values(io::tensor const& a, io::tensor const& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype && std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin())) return true;
  auto const type_a = io::floating_dtype(a.dtype), type_b = io::floating_dtype(b.dtype);
  if (!type_a || !type_b) return false;
  constexpr std::int64_t chunk = 512;
  double values_a[chunk], values_b[chunk];
  auto const size = static_cast<std::int64_t>(a.bytes.size()) / size_of(*type_a);
  for (std::int64_t i = 0; i < size; i += chunk) {
    auto const count = std::min(chunk, size - i);
    auto const convert = [&](io::tensor const& from, dtype type, std::span<double> to) {
      convert_reals(type, from.bytes.data() + i * size_of(type), dtype::f64, std::as_writable_bytes(to).data(), count);
    };
    convert(a, *type_a, values_a), convert(b, *type_b, values_b);
    auto const are_same = [](double x, double y) { return x == y || (is_nan(x) && is_nan(y)); };
    if (!std::equal(values_a, values_a + count, values_b, are_same)) return false;
  }
  return true;
}

/// Throws `error` if one of `format.copies` differs from the tensor that is loaded: the model has one tensor for both.
[[gnu::cold]] CONSTRAIN_INLINE void check_copies(std::string const& path, io::safetensors_files const& saved,
                                                 weight_format const& format) {
  for (auto const& [name, original] : format.copies) {
    auto const* const copy = find_stored(saved, name, format);
    auto const* const loaded = find_stored(saved, original, format);
    if (copy != nullptr && copy != loaded && loaded != nullptr && !same_values(*copy, *loaded))
      throw error({"the weights '", path, "' have a '", copy->name, "' that differs from '", loaded->name,
                   "', but the model ties these two: it has one tensor for both; load the weights into a model that "
                   "does not tie them"});
  }
}

/// Throws `error` if `strict` and a tensor is missing or unexpected, or if not `strict` and all `wanted` tensors are
/// missing. `wanted`: number of tensors of the model.
[[gnu::cold]] CONSTRAIN_INLINE void check_found(std::string const& path, loaded_weights const& result,
                                                std::size_t wanted, bool strict) {
  constexpr char const* advice = "; load the weights of the same model";
  if (!strict && wanted > 0 && result.missing.size() == wanted)
    throw error(
        {"the weights '", path, "' have none of the model's tensors, such as '", result.missing.front(), "'", advice});
  if (!strict) return;
  if (!result.missing.empty())
    throw error({"the weights '", path, "' have no tensor '", result.missing.front(), "'", advice,
                 ", or pass {.strict = false} to keep the values of missing tensors"});
  if (!result.unexpected.empty())
    throw error({"the weights '", path, "' have a tensor '", result.unexpected.front(),
                 "' that the model does not have", advice, ", or pass {.strict = false} to ignore it"});
}

/// A hash of which tensors are loaded, and of their types and bytes. `stored`: the result of `find_weights`. The hash
/// covers all bytes, because a sample could miss a few changed rows or a damaged block. So, with `ddp`,
/// `load_pretrained` takes about a third longer; a saved run is also read in full, for its checksums.
[[gnu::cold]] CONSTRAIN_INLINE std::uint64_t content_hash(std::vector<io::tensor const*> const& stored) {
  std::uint64_t content = 0;
  for (auto const* const t : stored) {
    io::crc32c check;
    if (t != nullptr) check.update(io::text_bytes(t->dtype)).update(t->bytes);
    content = content * 0x100000001b3u + check.value(); // the 64-bit FNV prime
  }
  return content;
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string loaded_weights::text() const {
  auto const joined = [](std::vector<std::string> const& names) {
    std::string list;
    for (auto const& name : names) list += (list.empty() ? "" : ", ") + name;
    return list;
  };
  if (missing.empty() && unexpected.empty()) return "all weights were found, and no others";
  std::string list;
  if (!missing.empty()) list = concat({"not found, values kept: ", joined(missing)});
  if (!missing.empty() && !unexpected.empty()) list += "; ";
  if (!unexpected.empty()) list += concat({"not the model's, ignored: ", joined(unexpected)});
  return list;
}

[[gnu::cold]] CONSTRAIN_INLINE loaded_weights load_pretrained(std::string const& path,
                                                              pretrained_options const& options,
                                                              parameter_list const& list, weight_format const& format,
                                                              arena& memory, communicator& group, agreement& ranks) {
  auto const opened = detail::open_weights(path, options.strict, format, list.owner);
  auto const& saved = opened.files;
  auto const wanted = weight_tensors(list, format.names, &saved);
  auto const stored = detail::find_weights(path, saved, wanted, format, list.owner);
  auto result = detail::compare(saved, wanted, stored, format);
  detail::check_copies(path, saved, format);
  detail::check_found(path, result, wanted.size(), options.strict);
  // All ranks must load the same weights. A saved run has checksums to compare.
  ranks.all_can(ranks.size() == 1 ? 0 : opened.run ? detail::content_hash(*opened.run) : detail::content_hash(stored));
  std::vector<std::byte> converted;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (stored[i] == nullptr) continue;
    auto const& w = wanted[i];
    auto bytes = stored[i]->bytes;
    if (stored[i]->dtype != w.tensor.dtype) {
      converted.resize(w.bytes());
      convert_reals(*io::floating_dtype(stored[i]->dtype), bytes.data(), w.info->type, converted.data(),
                    static_cast<std::int64_t>(w.bytes()) / size_of(w.info->type));
      bytes = {std::as_const(converted).data(), converted.size()};
    }
    take_tensor(w, bytes, memory, group);
  }
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE loaded_weights load_pretrained(std::string const& path,
                                                              pretrained_options const& options,
                                                              parameter_list const& list, weight_format const& format,
                                                              arena& memory, communicator& world, communicator& group) {
  loaded_weights result;
  agreement(world, joint_call::pretrained).run([&](agreement& ranks) {
    result = load_pretrained(path, options, list, format, memory, group, ranks);
  });
  return result;
}

} // namespace constrain
