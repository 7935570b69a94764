#pragma once

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace constrain::test {

/// An operand with its elements: a kernel called directly, without a program around it.
template <class T> class array {
public:
  /// An output: full of what a kernel must neither leave nor read.
  explicit array(shape s) : shape_(s), values_(static_cast<std::size_t>(s.elements()), poison()) {}
  template <class from> array(shape s, std::vector<from> const& values) : shape_(s) {
    REQUIRE(static_cast<std::int64_t>(values.size()) == s.elements());
    for (auto const& x : values) values_.push_back(static_cast<T>(x));
  }
  array(shape s, std::initializer_list<T> values) : array(s, std::vector<T>(values)) {}

  static array random(shape s, unsigned seed, double stddev = 1) {
    std::mt19937 bits(seed);
    std::normal_distribution<double> normal(0.0, stddev);
    array result(s);
    for (auto& x : result.values_) x = static_cast<T>(normal(bits));
    return result;
  }
  static array integers(shape s, unsigned seed, int below) {
    std::mt19937 bits(seed);
    array result(s);
    for (auto& x : result.values_) x = static_cast<T>(bits() % static_cast<unsigned>(below));
    return result;
  }

  tensor<T const> in() const { return {values_.data(), &shape_, shape_.elements()}; }
  tensor<T> out() { return {values_.data(), &shape_, shape_.elements()}; }
  std::vector<T> const& values() const { return values_; }
  T& operator[](std::size_t i) { return values_[i]; }
  T const& operator[](std::size_t i) const { return values_[i]; }

private:
  static T poison() {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::quiet_NaN();
    else return T(77);
  }

  shape shape_;
  std::vector<T> values_;
};

/// Calls the kernel of `op` on this processor.
template <class op, class... operands> void call_kernel(call const& c, operands... o) {
  call_of<op> const& with_options = c;
  kernel<op, cpu>::run(with_options, o...);
}

inline attributes const no_attributes{};
inline step_parameters const no_parameters{};
inline call const plain{no_attributes, no_parameters};

/// A call whose output `j` adds, for each bit j of `adds`.
inline call adding(unsigned adds) {
  call c{no_attributes, no_parameters};
  c.adds = adds;
  return c;
}

/// How far a kernel may be from the exact result, relative to the norm of the tensor.
template <class real> inline constexpr double tolerance = std::is_same_v<real, double> ? 1e-10 : 1e-5;
template <> inline constexpr double tolerance<float16> = 2e-3;
template <> inline constexpr double tolerance<bfloat16> = 1.6e-2;

/// The operands of a rule.
constexpr operand_types types(std::initializer_list<operand_type> list) {
  operand_types result;
  for (auto const& type : list) result.push_back(type);
  return result;
}
constexpr operand_type f32(shape s) { return {dtype::f32, s}; }
constexpr operand_type i32(shape s) { return {dtype::i32, s}; }
constexpr operand_type f64(shape s) { return {dtype::f64, s}; }

/// Whether a shape rule refuses the operands with this refusal and these two numbers.
template <template <diagnosis> class sentence>
constexpr bool refuses(inferred const& result, std::int64_t expected, std::int64_t got) {
  return result.outputs.empty() && result.at(0, 0) == diagnosis_with<sentence>(0, 0, expected, got);
}

template <class T> bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Checks that `compute`, which returns an array, is bit-identical on 1, 2 and 4 threads.
template <class function> void check_same_on_all_threads(function const& compute) {
#if defined(_OPENMP)
  int const before = omp_get_max_threads();
  omp_set_num_threads(1);
  auto const expected = compute();
  for (int threads : {2, 4}) {
    omp_set_num_threads(threads);
    CAPTURE(threads);
    CHECK(same_bits(compute(), expected));
  }
  omp_set_num_threads(before);
#else
  CHECK(same_bits(compute(), compute()));
#endif
}

} // namespace constrain::test
