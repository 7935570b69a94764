#pragma once

#include <doctest/doctest.h>

#include <string>
#include <sys/resource.h>

#include "sentence.hpp"

namespace constrain::test {

/// `sentence(action)`, while the process can open no more files.
template <class callable> std::string sentence_without_descriptors(callable&& action) {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlimit const no_more{0, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &no_more) == 0);
  auto const said = sentence(action);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  return said;
}

} // namespace constrain::test
