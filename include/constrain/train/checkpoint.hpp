#pragma once

#include "constrain/io/directory_reader.hpp"
#include "constrain/io/directory_writer.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/safetensors.hpp"
#include "constrain/io/safetensors_writer.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/tensor_view.hpp"
#include "constrain/train/training_state.hpp"

#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The parameters of any trainer.
struct parameter_list {
  parameter_info const* parameters = nullptr;
  int size = 0;
  char const* names = nullptr;

  std::string name(int i) const {
    return {names + parameters[i].name_offset, static_cast<std::size_t>(parameters[i].name_length)};
  }
};

/// What two trainers must share beside their parameters for one to go on where the other stopped.
struct checkpoint_configuration {
  std::string precision;
  std::string optimizer;
  std::int64_t tokens = 0; // of a sequence: positions in the corpus count samples of that length
};

namespace detail {

inline constexpr char const* checkpoint_weights = "model.safetensors";
inline constexpr char const* checkpoint_optimizer = "optimizer.safetensors";
inline constexpr char const* checkpoint_state = "state.json";

/// A tensor as the file has it: whole. `data` is this rank's part of it.
inline io::tensor checkpoint_tensor(parameter_info const& info, std::string name, std::byte const* data) {
  io::tensor t{std::move(name), info.type == dtype::f64 ? "F64" : "F32", {}, {}};
  if (info.stacked) t.shape.push_back(info.trips);
  for (int i = 0; i < info.shape.rank; ++i) t.shape.push_back(info.shape.extent[i]);
  t.bytes = {data, static_cast<std::size_t>(info.elements() * size_of(info.type))};
  return t;
}

/// Calls f(info, name, offset) for every tensor of a list, weights or optimizer states.
template <class function> void for_each_tensor(parameter_list const& list, bool states, function const& f) {
  for (int i = 0; i < list.size; ++i) {
    auto const& info = list.parameters[i];
    if (!states) f(info, list.name(i), info.offset);
    for (int field = 0; states && field < op::maximum_state_fields; ++field)
      if (info.state_offset[field] >= 0) f(info, list.name(i) + ".state" + std::to_string(field), info.state_offset[field]);
  }
}

/// The tensors of a file, whole: those that are cut over ranks, or that the host cannot address, are put together in
/// `wholes`.
inline std::vector<io::tensor> checkpoint_tensors(parameter_list const& list, bool states, arena& memory, communicator& group,
                                                  std::vector<std::vector<std::byte>>& wholes) {
  std::vector<io::tensor> tensors;
  for_each_tensor(list, states, [&](parameter_info const& info, std::string const& name, std::int64_t offset) {
    std::byte const* data = memory.host() == nullptr ? nullptr : memory.host() + offset;
    if (info.shards > 1 || data == nullptr) {
      auto& whole = wholes.emplace_back(static_cast<std::size_t>(info.elements() * size_of(info.type)));
      tensor_view const view(memory, offset, info.type, info.trips, info.stacked, info.shape, info.shards > 1 ? &group : nullptr);
      if (info.type == dtype::f64) view.copy_to(std::span(reinterpret_cast<double*>(whole.data()), whole.size() / 8));
      else view.copy_to(std::span(reinterpret_cast<float*>(whole.data()), whole.size() / 4));
      data = whole.data();
    }
    tensors.push_back(checkpoint_tensor(info, name, data));
  });
  return tensors;
}

/// What the file must hold.
inline std::vector<io::tensor> wanted_tensors(parameter_list const& list, bool states) {
  std::vector<io::tensor> tensors;
  for_each_tensor(list, states, [&](parameter_info const& info, std::string const& name, std::int64_t) {
    tensors.push_back(checkpoint_tensor(info, name, nullptr));
  });
  return tensors;
}

inline std::string shape_text(std::vector<std::int64_t> const& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Throws, naming the field, where a checkpoint has another value.
inline void check_field(std::string const& directory, std::string const& field, std::string const& saved, std::string const& here) {
  if (saved != here)
    throw error("the checkpoint '" + directory + "' is of another configuration: its " + field + " is " + saved +
                ", the trainer's is " + here + "; load it into a trainer of the same " + field);
}

inline void check_tensors(std::string const& directory, io::safetensors const& file, std::vector<io::tensor> const& wanted) {
  for (auto const& t : wanted) {
    auto const* saved = file.find(t.name);
    if (saved == nullptr)
      throw error("the checkpoint '" + directory + "' has no tensor '" + t.name +
                  "', which the trainer has; load it into a trainer of the same model and optimizer");
    check_field(directory, "shape of '" + t.name + "'", shape_text(saved->shape), shape_text(t.shape));
    check_field(directory, "dtype of '" + t.name + "'", saved->dtype, t.dtype);
  }
  for (auto const& saved : file.tensors) {
    bool known = false;
    for (auto const& t : wanted) known = known || t.name == saved.name;
    if (!known)
      throw error("the checkpoint '" + directory + "' has a tensor '" + saved.name +
                  "' which the trainer has not; load it into a trainer of the same model and optimizer");
  }
}

} // namespace detail

/// Writes weights, optimizer states, data position and counters into a directory that appears whole or not at all; an
/// older checkpoint of that name survives every failure. Throws `error`.
inline void save_checkpoint(std::string const& directory, parameter_list const& list, checkpoint_configuration const& c,
                            training_state const& s, arena& memory, communicator& world, communicator& group) {
  // All ranks put the pieces together, one writes: the file does not depend on how many they were.
  std::vector<std::vector<std::byte>> wholes;
  auto const weights = detail::checkpoint_tensors(list, false, memory, group, wholes);
  auto const states = detail::checkpoint_tensors(list, true, memory, group, wholes);
  if (world.rank() != 0) return world.barrier();
  io::json_writer json;
  json.object();
  json.member("version", 1);
  json.member("precision", c.precision).member("optimizer", c.optimizer).member("tokens", c.tokens);
  json.member("seed", s.seed).member("steps", s.steps.count()).member("skipped", s.skipped);
  json.member("corpus", s.corpus).member("epoch", s.position.epoch).member("sample", s.position.sample);
  json.member("best_validation_loss", s.best_validation_loss).member("evaluations_since_best", s.evaluations_since_best);
  json.end();

  io::directory_writer writer(directory);
  writer.write(detail::checkpoint_weights, [&](io::output_file& out) {
    io::write_safetensors(out, weights, {{"format", "constrain"}});
  });
  writer.write(detail::checkpoint_optimizer, [&](io::output_file& out) {
    io::write_safetensors(out, states, {{"format", "constrain"}});
  });
  writer.write(detail::checkpoint_state, std::string_view(json.text() + "\n"));
  writer.commit();
  world.barrier();
}

/// Reads what `save_checkpoint` wrote into the arena and returns the rest. Everything is checked before the first byte
/// is changed. Throws `error`, and names the field where the checkpoint is of another configuration.
inline training_state load_checkpoint(std::string const& directory, parameter_list const& list,
                                      checkpoint_configuration const& c, arena& memory, communicator& group) {
  io::directory_reader const reader(directory);
  auto const json = io::json::parse(reader.text(detail::checkpoint_state), reader.path(detail::checkpoint_state));
  detail::check_field(directory, "version", std::to_string(json["version"].int64()), "1");
  detail::check_field(directory, "precision", std::string(json["precision"].string()), c.precision);
  detail::check_field(directory, "optimizer", std::string(json["optimizer"].string()), c.optimizer);
  detail::check_field(directory, "number of tokens in a sequence", std::to_string(json["tokens"].int64()), std::to_string(c.tokens));
  training_state s;
  s.seed = json["seed"].uint64();
  s.steps = json["steps"].int64();
  s.skipped = json["skipped"].int64();
  s.corpus = json["corpus"].uint64();
  s.position = {json["epoch"].int64(), json["sample"].int64()};
  s.best_validation_loss = json["best_validation_loss"].real<double>();
  s.evaluations_since_best = json["evaluations_since_best"].int64();

  auto const weights = io::parse_safetensors(reader.bytes(detail::checkpoint_weights), reader.path(detail::checkpoint_weights));
  auto const states = io::parse_safetensors(reader.bytes(detail::checkpoint_optimizer), reader.path(detail::checkpoint_optimizer));
  auto const wanted_weights = detail::wanted_tensors(list, false);
  auto const wanted_states = detail::wanted_tensors(list, true);
  detail::check_tensors(directory, weights, wanted_weights);
  detail::check_tensors(directory, states, wanted_states);
  auto const take = [&](io::safetensors const& file, bool of_states) {
    detail::for_each_tensor(list, of_states, [&](parameter_info const& info, std::string const& name, std::int64_t offset) {
      auto const map = info.map();
      auto const shard = info.shards > 1 ? group.rank() : 0;
      auto const width = size_of(info.type);
      for (std::int64_t trip = 0; trip < info.trips; ++trip)
        memory.write(offset + trip * map.stored() * width,
                     file.find(name)->bytes.data() + (trip * map.elements + map.begin(shard)) * width,
                     map.length(shard) * width);
    });
  };
  take(weights, false);
  take(states, true);
  return s;
}

} // namespace constrain
