#pragma once

#include "constrain/train/saved/saved_run.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/formatted.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/io/directory_writer.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/safetensors_index.hpp"
#include "constrain/policy/policy_name.hpp"
#include "constrain/program/role.hpp"
#include "constrain/program/setting.hpp"
#include "constrain/train/saved/configuration_check.hpp"

#include <cstring>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

// Names of the files of a saved run besides the weights and the configuration.
inline constexpr char const* optimizer_file = "optimizer.safetensors";
inline constexpr char const* state_file = "state.json";
inline constexpr int saved_version = 2; // of the format; version 1 named the optimizer's state fields by index

[[gnu::cold]] CONSTRAIN_INLINE void check_max_shard_size(std::string_view owner, bytes max_shard_size) {
  if (max_shard_size.count() < 0)
    throw error({owner, ": .max_shard_size is ", counted(max_shard_size.count(), "byte"),
                 "; give at least 1 byte, or 0 for one file"});
}

[[gnu::cold]] CONSTRAIN_INLINE std::string shape_text(std::vector<std::int64_t> const& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += concat({(i > 0 ? ", " : ""), shape[i]});
  return concat({text, "]"});
}

/// Throws `error` unless a file has exactly the `wanted` tensors, by name, shape and dtype; the file may lack optional
/// tensors. `directory`: for the error.
[[gnu::cold]] CONSTRAIN_INLINE void check_tensors(std::string const& directory, io::safetensors_files const& file,
                                                  std::vector<file_tensor> const& wanted) {
  for (auto const& w : wanted) {
    auto const& t = w.tensor;
    auto const* saved = file.find(t.name);
    if (saved == nullptr && w.optional) continue;
    if (saved == nullptr)
      throw error({"the saved run '", directory, "' has no tensor '", t.name,
                   "' of the trainer; load the run into a trainer with the same model and optimizer"});
    check_field(directory, concat({"shape of '", t.name, "'"}), shape_text(saved->shape), shape_text(t.shape));
    check_field(directory, concat({"dtype of '", t.name, "'"}), saved->dtype, t.dtype);
  }
  for (auto const* saved : file.tensors()) {
    bool is_known = false;
    for (auto const& w : wanted) is_known = is_known || w.tensor.name == saved->name;
    if (!is_known)
      throw error({"the saved run '", directory, "' has a tensor '", saved->name,
                   "' that the trainer does not have; load the run into a trainer with the same model and optimizer"});
  }
}

/// `names`, a list of policy names, with the roles of freeze and train_only in the order of declaration, each role
/// once: the order in which a user writes the roles does not matter.
[[gnu::cold]] CONSTRAIN_INLINE std::string with_roles_in_order(std::string names) {
  for (std::string_view const policy : {"freeze<", "train_only<"}) {
    auto const start = names.find(policy);
    if (start == std::string::npos || (start > 0 && names[start - 1] != ' ')) continue;
    auto const first = start + policy.size(), end = names.find('>', first);
    if (end == std::string::npos) continue;
    auto given = concat({names.substr(first, end - first), ","});
    std::string roles;
    for (auto const r : {role::weight, role::bias, role::norm, role::embedding, role::head})
      if (auto const name = concat({"role::", name_of(r)}); given.find(name + ",") != std::string::npos) {
        append_to_list(roles, name);
        remove_all(given, name + ",");
      }
    bool const has_only_roles = given.find_first_not_of(' ') == std::string::npos; // not a user's template
    if (has_only_roles) names.replace(first, end - first, roles);
  }
  return names;
}

/// Throws `error` for a setting in `file` whose value `trainer::set` would refuse. `wanted`: the trainer's states and
/// settings. `directory`: for the error.
[[gnu::cold]] CONSTRAIN_INLINE void check_settings(std::string const& directory, io::safetensors_files const& file,
                                                   parameter_list const& list, std::vector<file_tensor> const& wanted) {
  for (auto const& w : wanted) {
    auto const* const saved = w.optional ? file.find(w.tensor.name) : nullptr;
    if (saved == nullptr) continue;
    double x = 0;
    // `check_tensors` has checked that the tensor has the dtype and the shape of a setting: one fp64 number.
    std::memcpy(&x, saved->bytes.data(), sizeof x);
    auto const name = list.name(*w.info);
    if (!is_within(x, range_of_setting(name))) refuse_state(directory, concat({"setting ", name}), number_text(x));
  }
}

/// The names of the files of the weights: `weights_file`, or one name for each shard.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::string> weights_files(std::size_t shards) {
  if (shards <= 1) return {weights_file};
  std::vector<std::string> names;
  for (std::size_t k = 1; k <= shards; ++k) names.push_back(formatted("model-%05zu-of-%05zu.safetensors", k, shards));
  return names;
}

[[gnu::cold]] CONSTRAIN_INLINE io::safetensors_files weights_of(io::directory_reader const& reader) {
  if (!reader.contains(weights_index_file))
    return io::safetensors_files::parse(reader.bytes(weights_file), reader.path(weights_file));
  return io::safetensors_files::parse_indexed(reader.text(weights_index_file), reader.path(weights_index_file),
                                              [&](std::string const& name) { return reader.bytes(name); });
}

[[gnu::cold]] CONSTRAIN_INLINE std::uint64_t content_hash(io::directory_reader const& reader) {
  std::uint64_t content = 0;
  // 0x100000001b3 is the 64-bit FNV prime.
  for (auto const& file : reader.entries()) content = content * 0x100000001b3u + file.crc32c;
  return content;
}

/// The training state in `json`, the state.json of the saved run `directory`. Throws the errors of `saved_state`.
[[gnu::cold]] CONSTRAIN_INLINE training_state state_of(std::string const& directory, io::json const& json) {
  training_state s;
  s.seed = json["seed"].uint64();
  s.steps = json["steps"].int64();
  s.skipped = json["skipped"].int64();
  s.corpus = json["corpus"].uint64();
  s.position = {json["epoch"].int64(), json["sample"].int64()};
  s.best_validation_loss = json["best_validation_loss"].real<double>();
  s.evaluations_since_best = json["evaluations_since_best"].int64();
  // Runs saved before these fields were added lack them.
  if (auto const missed = json.value("missed_evaluation")) s.missed_evaluation = missed->int64();
  if (auto const validation = json.value("validation")) s.validation = validation->uint64();
  s.learning_rate_factor = json["learning_rate_factor"].real();
  check_state(directory, s);
  return s;
}

[[gnu::cold]] CONSTRAIN_INLINE training_state saved_state(std::string const& directory) {
  io::directory_reader const reader(directory);
  return state_of(directory, io::json::parse(reader.text(state_file), reader.path(state_file)));
}

/// Writes the files of a saved run, on the calling rank only. `weights`: all weights. `states`: all optimizer states
/// and settings. Other arguments and errors: as for `save_run`.
[[gnu::cold]] CONSTRAIN_INLINE void write_run(std::string const& directory, save_options const& options,
                                              gathered_tensors const& weights, gathered_tensors const& states,
                                              weight_format const& format, saved_configuration const& c,
                                              training_state const& s) {
  io::json_writer json;
  json.object();
  json.member("version", detail::saved_version);
  json.member("precision", c.precision).member("optimizer", c.optimizer).member("tokens", c.tokens);
  json.member("optimizer_state", c.optimizer_state);
  if (!c.optimizer_state_names.empty()) json.member("optimizer_state_names", c.optimizer_state_names);
  if (!c.policies.empty()) json.member("policies", c.policies);
  json.member("seed", s.seed).member("steps", s.steps.count()).member("skipped", s.skipped);
  json.member("corpus", s.corpus).member("epoch", s.position.epoch).member("sample", s.position.sample);
  json.member("best_validation_loss", s.best_validation_loss)
      .member("evaluations_since_best", s.evaluations_since_best)
      .member("missed_evaluation", s.missed_evaluation)
      .member("validation", s.validation);
  json.member("learning_rate_factor", s.learning_rate_factor);
  json.end();

  io::directory_writer writer(directory);
  auto const maximum_bytes = options.max_shard_size.count();
  auto const shards = weights.shards(maximum_bytes > 0 ? static_cast<std::size_t>(maximum_bytes) : SIZE_MAX);
  auto const files = weights_files(shards.size());
  auto const index = shards.size() > 1 ? weights.index_of(shards, files) : "";
  if (!index.empty()) io::safetensors_index::parse(index, weights_index_file); // throws if it cannot be read back
  auto names = files;
  names.insert(names.end(), {detail::optimizer_file, detail::state_file});
  // Announces only files that are written: a later save removes all announced files, even a user's own file.
  if (!index.empty()) names.push_back(weights_index_file);
  if (!format.configuration.empty()) names.push_back(configuration_file);
  writer.announce(names);
  for (std::size_t k = 0; k < shards.size(); ++k)
    writer.write(files[k], [&](io::output_file& out) { weights.write(out, shards[k]); });
  if (!index.empty()) writer.write(weights_index_file, io::text_bytes(concat({index, "\n"})));
  if (!format.configuration.empty())
    writer.write(configuration_file, io::text_bytes(concat({format.configuration, "\n"})));
  writer.write(optimizer_file, [&](io::output_file& out) { states.write(out); });
  writer.write(state_file, io::text_bytes(concat({json.text(), "\n"})));
  writer.commit();
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void save_run(std::string const& directory, save_options const& options,
                                             parameter_list const& list, weight_format const& format,
                                             saved_configuration const& c, training_state const& s, arena& memory,
                                             communicator& world, communicator& group) {
  agree(world, joint_call::save); // all ranks must be in `save` before the first all-gather
  run_or_end_job(world, joint_call::save, [&] {
    agreed(world, joint_call::save, [&] { detail::check_max_shard_size("save", options.max_shard_size); });
    // Rank 0 writes full tensors, so that the files do not depend on the number of ranks.
    gathered_tensors const weights(weight_tensors(list, format.names), memory, group);
    gathered_tensors const states(state_tensors(list), memory, group);
    agreed(world, joint_call::save, [&] {
      if (world.rank() == 0) detail::write_run(directory, options, weights, states, format, c, s);
    });
  });
}

[[gnu::cold]] CONSTRAIN_INLINE training_state load_run(std::string const& directory, parameter_list const& list,
                                                       weight_format const& format, saved_configuration const& c,
                                                       arena& memory, communicator& group, agreement& ranks) {
  io::directory_reader const reader(directory);
  auto const json = io::json::parse(reader.text(detail::state_file), reader.path(detail::state_file));
  if (auto const version = json["version"].int64(); version != detail::saved_version)
    throw error({"the saved run '", directory, "' has format version ", version, ", but this library reads version ",
                 detail::saved_version,
                 "; resume it with the library version that saved it, or load only its weights with load_pretrained"});
  detail::check_field(directory, "precision", std::string(json["precision"].string()), c.precision);
  detail::check_field(directory, "optimizer", std::string(json["optimizer"].string()), c.optimizer);
  auto const state_text = [](std::string const& state) { return state.empty() ? "defined by an update rule" : state; };
  detail::check_field(directory, "optimizer state", state_text(std::string(json["optimizer_state"].string())),
                      state_text(c.optimizer_state));
  auto const check_names = [&](char const* field, char const* member, std::string const& expected) {
    auto const saved = json.find(member);
    auto const text_of = [](std::string const& names) {
      return names.empty() ? "none" : detail::with_roles_in_order(names);
    };
    detail::check_field(directory, field, text_of(saved ? std::string(saved->string()) : ""), text_of(expected));
  };
  check_names("list of optimizer state names", "optimizer_state_names", c.optimizer_state_names);
  check_names("set of policies fixed for a run", "policies", c.policies);
  detail::check_field(directory, "number of tokens in a sequence", concat({json["tokens"].int64()}),
                      concat({c.tokens}));
  auto const s = detail::state_of(directory, json);

  auto const weights = detail::weights_of(reader);
  auto const states =
      io::safetensors_files::parse(reader.bytes(detail::optimizer_file), reader.path(detail::optimizer_file));
  auto const wanted_weights = weight_tensors(list, format.names, &weights);
  auto const wanted_states = state_tensors(list, &states);
  detail::check_tensors(directory, weights, wanted_weights);
  detail::check_tensors(directory, states, wanted_states);
  detail::check_settings(directory, states, list, wanted_states);
  // A run that was saved before its model had a configuration lacks the file.
  if (!format.configuration.empty() && reader.contains(configuration_file))
    detail::check_configuration({.directory = directory, .loader = "a trainer", .skipped = format.limits},
                                reader.text(configuration_file), reader.path(configuration_file), format);
  ranks.all_can(detail::content_hash(reader));
  for (auto const& t : wanted_weights) take_tensor(t, weights.find(t.tensor.name)->bytes, memory, group);
  for (auto const& t : wanted_states)
    if (auto const* const saved = states.find(t.tensor.name)) take_tensor(t, saved->bytes, memory, group);
  return s;
}

[[gnu::cold]] CONSTRAIN_INLINE training_state load_run(std::string const& directory, parameter_list const& list,
                                                       weight_format const& format, saved_configuration const& c,
                                                       arena& memory, communicator& world, communicator& group) {
  training_state s;
  agreement(world, joint_call::load).run([&](agreement& ranks) {
    s = load_run(directory, list, format, c, memory, group, ranks);
  });
  return s;
}

} // namespace constrain
