#pragma once

#include "violation.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace on_host {

/// How many objects of each kind are alive: what a program leaks.
inline std::map<std::string, int> alive;

/// The objects alive, as "2 stream, 1 graph"; empty if there are none.
inline std::string still_alive() {
  std::string all;
  for (auto const& [name, count] : alive)
    if (count != 0) all += (all.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  return all;
}

/// Objects that a program makes and destroys by handle. Their memory is kept, so that a dead handle is known as one.
template <class T> class handles {
public:
  template <class... arguments> static T* make(arguments&&... a) {
    auto& objects = all();
    objects.kept.push_back(std::make_unique<T>(std::forward<arguments>(a)...));
    auto* const made = objects.kept.back().get();
    objects.living.insert(made);
    ++alive[T::name];
    return made;
  }
  /// The object; `call` must not be given one that is dead or was never made.
  static T& use(char const* call, T* object) {
    if (all().living.count(object) == 0)
      violated(call,
               std::string("this ") + T::name + (object == nullptr ? " is null" : " was destroyed, or never made"),
               "a handle is valid from its creation to its destruction");
    return *object;
  }
  static void destroy(char const* call, T* object) {
    use(call, object).end();
    all().living.erase(object);
    --alive[T::name];
  }
  static std::set<T*> const& living() { return all().living; }

private:
  struct objects {
    std::vector<std::unique_ptr<T>> kept;
    std::set<T*> living;
  };
  static objects& all() {
    static auto* const made = new objects; // for handles that are destroyed at the end of the program
    return *made;
  }
};

} // namespace on_host
