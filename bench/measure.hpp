#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace constrain::bench {

template <class function> double seconds_of(function const& f) {
  auto const began = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto const n = values.size();
  return n == 0 ? 0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

template <class function> double median_seconds_of(int rounds, function const& f) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(seconds_of(f));
  return median(seconds);
}

/// The process's peak resident memory.
inline std::int64_t process_peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

/// The name, family and model of the processor as lower-case words, for the names of result files.
inline std::string machine_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string name, family, model;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    auto const value = line.substr(std::min(line.size(), line.find(':') + 2));
    if (line.starts_with("model name")) name = value;
    else if (line.starts_with("cpu family")) family = value;
    else if (line.starts_with("model")) model = value;
  }
  // In a virtual machine, the model name may be only "AMD EPYC".
  name += " family " + family + " model " + model;
  std::string words;
  for (unsigned char c : name)
    if (std::isalnum(c)) words += static_cast<char>(std::tolower(c));
    else if (!words.empty() && words.back() != '-') words += '-';
  return words;
}

} // namespace constrain::bench
