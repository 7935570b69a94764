#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <string>

// The compiler's constants equal what the same functions return at run time. A compiler whose evaluation of constants
// is wrong would otherwise plan other memory than it should, and say nothing.

using namespace constrain;

namespace {

using small_task = task<gpt2{.layers = 3, .heads = 2, .width = 32, .vocabulary = 64, .context = 16}, causal_lm,
                        micro_batch{.sequences = 4}>;

/// The first difference between two programs; empty if there is none.
std::string difference(program const& a, program const& b) {
  if (a.nodes.size() != b.nodes.size()) return "number of nodes";
  if (a.values.size() != b.values.size()) return "number of values";
  if (a.axes.size() != b.axes.size()) return "number of axes";
  for (int i = 0; i < a.nodes.size(); ++i) {
    auto const &x = a.nodes[i], &y = b.nodes[i];
    bool const same_call = x.op == y.op && x.inputs == y.inputs && x.outputs == y.outputs &&
                           x.attributes == y.attributes && x.random_key == y.random_key;
    bool const same_loop = x.axis == y.axis && x.reversed == y.reversed;
    if (x.kind != y.kind || !same_call || !same_loop) return "node " + std::to_string(i);
  }
  for (int v = 0; v < a.values.size(); ++v) {
    auto const &x = a.values[v], &y = b.values[v];
    bool const same_type = x.type == y.type && x.role == y.role && x.shape == y.shape && x.axes == y.axes;
    bool const same_bytes = x.overwritten_by == y.overwritten_by && x.view.of == y.view.of &&
                            x.view.begin == y.view.begin && x.layout == y.layout;
    bool const same_use = x.loop_carried_axis == y.loop_carried_axis && x.accumulates == y.accumulates &&
                          x.belongs_to == y.belongs_to && x.ends_with_update == y.ends_with_update;
    if (!same_type || !same_bytes || !same_use) return "value " + std::to_string(v);
  }
  return "";
}

/// The first difference between two layouts; empty if there is none.
std::string difference(memory_layout const& a, memory_layout const& b) {
  if (a.buffers.size() != b.buffers.size()) return "number of buffers";
  for (int v = 0; v < a.buffers.size(); ++v) {
    auto const &x = a.buffers[v], &y = b.buffers[v];
    bool const same_bytes = x.offset == y.offset && x.size == y.size && x.strides == y.strides;
    bool const same_instances = x.carried_stride == y.carried_stride && x.carried_instances == y.carried_instances;
    if (!same_bytes || !same_instances || x.born != y.born || x.dies != y.dies) return "buffer " + std::to_string(v);
  }
  return a.end == b.end && a.persistent_end == b.persistent_end ? "" : "an end";
}

template <class... chosen> void compare_step() {
  using entries = typename trainer<small_task, chosen...>::entries;
  using step = typename entries::step_program;
  using set = typename entries::policies;
  auto p = small_task::build(entry::step, set::precision::value.master);
  CHECK(difference(step::built, p) == "");
  p = dead_code_elimination(select_attention(p, set::attention::value));
  CHECK(difference(step::without_dead_code, p) == "");
  p = mixed_precision(accumulate_over(p, set::accumulation::value), set::precision::value);
  CHECK(difference(step::cast, p) == "");
  p = join_slices(differentiate(p, set::precision::value.loss_scale));
  CHECK(difference(step::differentiated, p) == "");
  p = update<typename set::optimizer>(p, set::checkpointing::value.recomputes);
  CHECK(difference(step::updated, p) == "");
  p = recompute(p, set::checkpointing::value);
  CHECK(difference(step::recomputed, p) == "");
  p = fuse(p, set::fusion::value);
  CHECK(difference(step::fused, p) == "");
  CHECK(can_keep_copies(p) == entries::keeps_copies);
  if (entries::keeps_copies) p = keep_copies(p, true);
  p = in_place(slice_views(coalesce(p)));
  CHECK(difference(step::final, p) == "");
  CHECK(verify(p).ok());
  CHECK(difference(entries::step::where, plan_memory(p)) == "");
}

template <class... chosen> void compare_evaluation() {
  using entries = typename trainer<small_task, chosen...>::entries;
  using forward = typename entries::evaluate_program;
  using set = typename entries::policies;
  auto p = small_task::build(entry::evaluate, set::precision::value.master);
  CHECK(difference(forward::built, p) == "");
  p = dead_code_elimination(select_attention(remove_training_ops(p), set::attention::value));
  p = fuse(mixed_precision(p, set::precision::value), set::fusion::value);
  CHECK(difference(forward::fused, p) == "");
  if (entries::keeps_copies) p = keep_copies(p, true);
  p = in_place(slice_views(coalesce(p)));
  CHECK(difference(forward::final, p) == "");
  auto where = plan_memory(p, entries::step::where.persistent_end);
  detail::share_persistent_values(where, p, entries::step::final, entries::step::where);
  CHECK(difference(entries::evaluate::where, where) == "");
}

template <class... chosen> void compare() {
  compare_step<chosen...>();
  compare_evaluation<chosen...>();
}

} // namespace

TEST_CASE("pipeline: the compiler's programs and plans are those of the run time") {
  compare<>();
  compare<precision::bf16, checkpoint::every<1>>();
  compare<precision::fp16, accumulate<3>, optimizer::adafactor>();
  compare<precision::fp64, checkpoint::every<2>, accumulate<2>, optimizer::sgd>();
  compare<precision::pure_bf16, optimizer::in_backward<optimizer::adamw_8bit>, checkpoint::keep<op::linear>>();
  compare<optimizer::averaged<optimizer::muon<optimizer::adamw>>, fusion::all, attention::flash>();
  compare<checkpoint::sqrt, optimizer::lion, fusion::none>();
}
