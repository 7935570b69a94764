#pragma once

#include "measure.hpp"

#include <constrain/device/cpu/gemm.hpp>

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#if defined(CONSTRAIN_WITH_ONEDNN)
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace constrain::bench {

/// The shape of the GEMM op(A) op(B) on dense row-major matrices; op(A) is [m, k], and op(B) is [k, n].
struct gemm_shape {
  bool a_transposed = false, b_transposed = false;
  std::int64_t m = 0, n = 0, k = 0;

  std::int64_t lda() const { return a_transposed ? m : k; }
  std::int64_t ldb() const { return b_transposed ? k : n; }
  auto key() const { return std::tuple(a_transposed, b_transposed, m, n, k); }
};

/// An implementation of GEMM with operands of type `stored` and a result of type `result`.
template <class stored, class result> struct provider {
  std::string name;
  std::function<void(gemm_shape const&, stored const*, stored const*, result*)> multiply;
};

namespace detail {

inline constrain::transpose transposed(bool t) { return t ? transpose::yes : transpose::no; }

using cblas_sgemm_function = void (*)(int, int, int, int, int, int, float, float const*, int, float const*, int, float,
                                      float*, int);

/// OpenBLAS's GEMM; null if OpenBLAS is not installed. It is loaded with dlopen, because ConsTrain itself may be linked
/// with another CBLAS that has the same symbols.
inline cblas_sgemm_function find_openblas() {
  static auto const found = [] {
    unsetenv("OPENBLAS_CORETYPE"), unsetenv("OPENBLAS_L2_SIZE");
    for (auto const* name : {CONSTRAIN_BENCH_OPENBLAS, "libopenblas.so.0"})
      if (auto* const library = *name != 0 ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr)
        return reinterpret_cast<cblas_sgemm_function>(dlsym(library, "cblas_sgemm"));
    return cblas_sgemm_function{};
  }();
  return found;
}

inline void openblas(gemm_shape const& p, float const* a, float const* b, float* c) {
  constexpr int row_major = 101, plain = 111, transposed = 112;
  find_openblas()(row_major, p.a_transposed ? transposed : plain, p.b_transposed ? transposed : plain,
                  static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), 1, a, static_cast<int>(p.lda()),
                  b, static_cast<int>(p.ldb()), 0, c, static_cast<int>(p.n));
}

#if defined(CONSTRAIN_WITH_ONEDNN)

/// oneDNN's matmul on row-major matrices. Creates one primitive per shape, on first use.
template <class stored, class result> class matmul_primitives {
public:
  void operator()(gemm_shape const& p, stored const* a, stored const* b, result* c) {
    auto& made = primitives_[p.key()];
    if (!made) made = std::make_unique<primitive>(p, engine_);
    made->run(stream_, a, b, c);
  }

private:
  using type = dnnl::memory::data_type;
  template <class T> static constexpr type type_of = std::is_same_v<T, float> ? type::f32 : type::bf16;

  struct primitive {
    dnnl::memory a, b, c;
    dnnl::matmul matmul;

    static dnnl::memory::desc layout(std::int64_t rows, std::int64_t columns, type t, bool transposed) {
      return {{rows, columns}, t, transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1}};
    }
    primitive(gemm_shape const& p, dnnl::engine const& engine)
        : a(layout(p.m, p.k, type_of<stored>, p.a_transposed), engine, nullptr),
          b(layout(p.k, p.n, type_of<stored>, p.b_transposed), engine, nullptr),
          c(layout(p.m, p.n, type_of<result>, false), engine, nullptr),
#if DNNL_VERSION_MAJOR < 3
          matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a.get_desc(), b.get_desc(), c.get_desc()), engine)) {
    }
#else
          matmul(dnnl::matmul::primitive_desc(engine, a.get_desc(), b.get_desc(), c.get_desc())) {
    }
#endif
    void run(dnnl::stream& stream, stored const* x, stored const* y, result* z) {
      a.set_data_handle(const_cast<stored*>(x));
      b.set_data_handle(const_cast<stored*>(y));
      c.set_data_handle(z);
      matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
      stream.wait();
    }
  };

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<decltype(gemm_shape{}.key()), std::unique_ptr<primitive>> primitives_;
};

#endif

/// A bf16 GEMM for machines without bf16 instructions: converts the operands to fp32, multiplies in fp32 and stores
/// the result as type `result`.
template <class result> class converted_gemm {
public:
  void operator()(gemm_shape const& p, bfloat16 const* a, bfloat16 const* b, result* c) {
    widen(a, p.m * p.k, a_);
    widen(b, p.k * p.n, b_);
    if constexpr (std::is_same_v<result, float>) multiply(p, c);
    else {
      reserve(c_, p.m * p.n);
      multiply(p, c_.data());
      parallel_chunks(p.m * p.n, 16384, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) c[i] = c_[static_cast<std::size_t>(i)];
      });
    }
  }

private:
  static void reserve(std::vector<float>& to, std::int64_t count) {
    if (static_cast<std::int64_t>(to.size()) < count) to.resize(static_cast<std::size_t>(count));
  }
  static void widen(bfloat16 const* from, std::int64_t count, std::vector<float>& to) {
    reserve(to, count);
    parallel_chunks(count, 16384, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[static_cast<std::size_t>(i)] = from[i];
    });
  }
  void multiply(gemm_shape const& p, float* c) {
    gemm(transposed(p.a_transposed), transposed(p.b_transposed), p.m, p.n, p.k, 1, a_.data(), p.lda(), b_.data(),
         p.ldb(), 0, c, p.n);
  }

  std::vector<float> a_, b_, c_;
};

} // namespace detail

/// All providers that are available on this machine.
template <class stored, class result> std::vector<provider<stored, result>> providers() {
  using detail::transposed;
  std::vector<provider<stored, result>> all;
  all.push_back({"gemm", [](gemm_shape const& p, stored const* a, stored const* b, result* c) {
                   gemm(transposed(p.a_transposed), transposed(p.b_transposed), p.m, p.n, p.k, 1, a, p.lda(), b,
                        p.ldb(), 0, c, p.n);
                 }});
  all.push_back({"built-in", [](gemm_shape const& p, stored const* a, stored const* b, result* c) {
                   gemm_builtin(transposed(p.a_transposed), transposed(p.b_transposed), p.m, p.n, p.k, 1, a, p.lda(), b,
                                p.ldb(), 0, c, p.n);
                 }});
#if defined(CONSTRAIN_WITH_ONEDNN)
  // oneDNN multiplies bf16 only with AVX-512.
  if (std::is_same_v<stored, float> || constrain::detail::has_avx512()) {
    auto const matmul = std::make_shared<detail::matmul_primitives<stored, result>>();
    all.push_back({"oneDNN matmul", [matmul](gemm_shape const& p, stored const* a, stored const* b, result* c) {
                     (*matmul)(p, a, b, c);
                   }});
  }
#endif
  if constexpr (std::is_same_v<stored, float> && std::is_same_v<result, float>) {
#if defined(CONSTRAIN_WITH_ONEDNN)
    all.push_back({"dnnl_sgemm", [](gemm_shape const& p, float const* a, float const* b, float* c) {
                     dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, 1, a, p.lda(), b,
                                p.ldb(), 0, c, p.n);
                   }});
#endif
    if (detail::find_openblas()) all.push_back({"OpenBLAS", detail::openblas});
  } else {
    auto const converted = std::make_shared<detail::converted_gemm<result>>();
    all.push_back({"fp32 GEMM, converted", [converted](gemm_shape const& p, stored const* a, stored const* b,
                                                       result* c) { (*converted)(p, a, b, c); }});
  }
  return all;
}

/// The fastest provider for one shape, and the times of all that were tried.
template <class stored, class result> struct chosen_provider {
  provider<stored, result> best;
  std::vector<std::pair<std::string, double>> tried; // name and seconds
};

/// Times the providers on these operands, in turn. Ignores a provider that throws, or whose result differs by more than
/// 1 % from that of the first provider that does not throw.
template <class stored, class result>
chosen_provider<stored, result> choose(std::vector<provider<stored, result>> const& all, gemm_shape const& p,
                                       stored const* a, stored const* b, result* c) {
  std::vector<double> expected; // the first result, at sampled positions
  std::int64_t const stride = p.m * p.n / 1009 + 1;
  auto const agrees = [&] {
    bool const first = expected.empty();
    double off = 0, size = 0;
    for (std::int64_t i = 0, k = 0; i < p.m * p.n; i += stride, ++k) {
      auto const value = static_cast<double>(static_cast<float>(c[i]));
      if (first) expected.push_back(value);
      auto const wanted = expected[static_cast<std::size_t>(k)];
      off += std::abs(value - wanted);
      size += std::abs(wanted);
    }
    return off <= 0.01 * size;
  };
  std::vector<provider<stored, result>> usable;
  for (auto const& candidate : all) {
    try {
      candidate.multiply(p, a, b, c); // warm-up: providers create their primitives and buffers
    } catch (std::exception const&) { continue; }
    if (agrees()) usable.push_back(candidate);
  }
  std::vector<double> least(usable.size(), 1e30);
  for (int round = 0; round < 4; ++round)
    for (std::size_t i = 0; i < usable.size(); ++i)
      least[i] = std::min(least[i], seconds_of([&] { usable[i].multiply(p, a, b, c); }));
  chosen_provider<stored, result> chosen;
  chosen.best = usable[static_cast<std::size_t>(std::min_element(least.begin(), least.end()) - least.begin())];
  for (std::size_t i = 0; i < usable.size(); ++i) chosen.tried.push_back({usable[i].name, least[i]});
  return chosen;
}

} // namespace constrain::bench
