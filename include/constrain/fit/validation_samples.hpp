#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/data/dataset.hpp"
#include "constrain/train/dataset.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The samples of a validation set. `name`: the name of the option in errors. Throws `error` if the set and the
/// training data are of different kinds, or if the set does not fit the trainer or has no valid label.
template <class trainer, class dataset>
[[gnu::noinline, gnu::cold]] sample_set validation_samples(data::dataset_pointer d, std::string const& name) {
  auto const* const data = d.template to<dataset>();
  if (data == nullptr)
    throw error(
        {"fit: ", name, " and the training data are of different kinds; give ", data::kind_of<dataset>, " as ", name});
  auto samples = samples_of<trainer, true>(concat({"fit, ", name}).c_str(), *data);
  auto const wording = samples.wording();
  if (!samples.has_labels())
    throw error(
        {"fit: the ", name, " ", wording.name_has, " no valid label, because ", wording.why_unlabelled, " to predict"});
  return samples;
}

} // namespace constrain::detail
