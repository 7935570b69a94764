#pragma once

#include "constrain/pass/accumulate.hpp"
#include "constrain/pass/cast.hpp"
#include "constrain/pass/coalesce.hpp"
#include "constrain/pass/differentiate.hpp"
#include "constrain/pass/fuse.hpp"
#include "constrain/pass/in_place.hpp"
#include "constrain/pass/lower.hpp"
#include "constrain/pass/optimize.hpp"
#include "constrain/pass/own_pass.hpp"
#include "constrain/pass/place.hpp"
#include "constrain/pass/prune.hpp"
#include "constrain/pass/recompute.hpp"
#include "constrain/pass/select.hpp"
#include "constrain/pass/shard.hpp"
#include "constrain/pass/verify.hpp"
#include "constrain/program/sound.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// Each pass is a constant of its own: compilers bound the work of one constant, and each can be printed.

/// The passes of the optimizer step that stand before the gradients. `source` says what is built: a stateless type with
/// `build()`, `policies` and an `optimizer`.
template <class source> struct passes_before_gradients {
  using set = typename source::policies;
  using own = own_passes<typename set::in_order>; // of the user's policies, each behind one of the library's
  static constexpr program built = own::template after<pass_name::built>([] { return source::build(); });
  static constexpr program selected = own::template after<pass_name::selected>(
      [] { return select_attention(select(built, mode::training), set::attention::value); });
  static constexpr program pruned = own::template after<pass_name::pruned>([] { return prune(selected); });
  static constexpr program accumulated =
      own::template after<pass_name::accumulated>([] { return accumulate_over(pruned, set::accumulation::value); });
  static constexpr program casted =
      own::template after<pass_name::cast>([] { return cast_to(accumulated, set::precision::value); });
};

namespace detail {

/// Whether the gradient rules of a program's ops can be computed while it compiles.
template <class passes> concept constant_gradients =
    requires { typename std::bool_constant<(static_cast<void>(differentiate(passes::casted)), true)>; };

template <class passes> constexpr program differentiate_or_refuse() {
  if constexpr (constant_gradients<passes>) return differentiate(passes::casted);
  program out = passes::casted;
  out.fail({why::gradient_is_not_constant});
  return out;
}

} // namespace detail

/// From the forward program to the optimizer step's, one constant per pass.
template <class source> struct step_passes : passes_before_gradients<source> {
  using before = passes_before_gradients<source>;
  using typename before::own, typename before::set;
  static constexpr program differentiated =
      own::template after<pass_name::differentiated>([] { return detail::differentiate_or_refuse<before>(); });
  static constexpr program optimized =
      own::template after<pass_name::optimized>([] { return optimize<typename source::optimizer>(differentiated); });
  static constexpr program recomputed =
      own::template after<pass_name::recomputed>([] { return recompute(optimized, set::checkpointing::value); });
  static constexpr program sharded =
      own::template after<pass_name::sharded>([] { return shard(recomputed, set::parallelism::value); });
  static constexpr program fused = own::template after<pass_name::fused>([] { return fuse(sharded, set::fusion::value); });
  static constexpr program coalesced = coalesce(fused);
  static constexpr program final = in_place(coalesced);

  /// Calls f(name, program) for each in turn.
  template <class function> static void for_each(function const& f) {
    f(own::template name<pass_name::built>().c_str(), before::built);
    f(own::template name<pass_name::selected>().c_str(), before::selected);
    f(own::template name<pass_name::pruned>().c_str(), before::pruned);
    f(own::template name<pass_name::accumulated>().c_str(), before::accumulated);
    f(own::template name<pass_name::cast>().c_str(), before::casted);
    f(own::template name<pass_name::differentiated>().c_str(), differentiated);
    f(own::template name<pass_name::optimized>().c_str(), optimized);
    f(own::template name<pass_name::recomputed>().c_str(), recomputed);
    f(own::template name<pass_name::sharded>().c_str(), sharded);
    f(own::template name<pass_name::fused>().c_str(), fused);
    f("coalesced", coalesced), f("in place", final);
  }
};

namespace detail {

/// Without gradients there is nothing to sum: only what is cut must be gathered.
constexpr slot_of::parallelism without_gradients(slot_of::parallelism p) {
  p.distributed = p.shards > 1;
  return p;
}

} // namespace detail

/// From the forward program to that of an entry without gradients.
template <class source> struct forward_passes {
  using set = typename source::policies;
  using own = own_passes<typename set::in_order>;
  static constexpr program built = own::template after<pass_name::built>([] { return source::build(); });
  static constexpr program selected = own::template after<pass_name::selected>(
      [] { return select_attention(select(built, mode::evaluation), set::attention::value); });
  static constexpr program pruned = own::template after<pass_name::pruned>([] { return prune(selected); });
  static constexpr program casted =
      own::template after<pass_name::cast>([] { return cast_to(pruned, set::precision::value); });
  static constexpr program sharded = own::template after<pass_name::sharded>(
      [] { return shard(casted, detail::without_gradients(set::parallelism::value)); });
  static constexpr program fused = own::template after<pass_name::fused>([] { return fuse(sharded, set::fusion::value); });
  static constexpr program coalesced = coalesce(fused);
  static constexpr program final = in_place(coalesced);

  /// Calls f(name, program) for each in turn.
  template <class function> static void for_each(function const& f) {
    f(own::template name<pass_name::built>().c_str(), built);
    f(own::template name<pass_name::selected>().c_str(), selected);
    f(own::template name<pass_name::pruned>().c_str(), pruned);
    f(own::template name<pass_name::cast>().c_str(), casted);
    f(own::template name<pass_name::sharded>().c_str(), sharded);
    f(own::template name<pass_name::fused>().c_str(), fused);
    f("coalesced", coalesced), f("in place", final);
  }
};

/// The last two passes: a program's addresses, and the table the executor walks.
template <class passes, std::int64_t reserved = 0> struct placed {
  static constexpr diagnosis failure = passes::final.failure.ok() ? verify(passes::final) : passes::final.failure;
  static constexpr placement where = place(passes::final, reserved);
  // A program that is refused has no plan, so that its sentence is the only error.
  static constexpr int steps = failure.ok() ? passes::final.nodes.count : 0;
  static constexpr auto value = lower<steps, steps == 0 ? 0 : count_operands(passes::final)>(passes::final, where);
};

} // namespace constrain
