#pragma once

#include "sanitizers.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace on_host {

/// The facts about a kernel in the program's symbols.
struct kernel_symbols {
  struct variable {
    void* address;
    std::size_t bytes;
  };
  std::string name;             // without namespaces and template arguments
  std::vector<variable> shared; // its __shared__ variables: static ones that can be written
  std::size_t shared_bytes = 0; // as CUDA counts: each at a multiple of 16
};

/// The symbols of this program, read from its file: a kernel f of the mangled name _Zx has the variables _ZZxE....
class program_symbols {
public:
  static kernel_symbols const& of(void const* kernel) {
    static program_symbols const all;
    static std::map<void const*, kernel_symbols> known;
    auto const [found, is_new] = known.try_emplace(kernel);
    if (is_new) all.find(reinterpret_cast<std::uintptr_t>(kernel), found->second);
    return found->second;
  }

private:
  struct object {
    std::uintptr_t address;
    std::size_t bytes;
  };

  program_symbols() {
    std::ifstream in("/proc/self/exe", std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    auto const& header = at<Elf64_Ehdr>(0);
    auto const section = [&](std::size_t i) -> Elf64_Shdr const& {
      return at<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize);
    };
    std::uintptr_t base = 0; // where the program was loaded
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) { // the first one is the program itself
          return *static_cast<std::uintptr_t*>(to) = info->dlpi_addr, 1;
        },
        &base);
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
      if (section(i).sh_type != SHT_SYMTAB) continue;
      auto const names = section(section(i).sh_link).sh_offset;
      for (std::size_t k = 0; k < section(i).sh_size / sizeof(Elf64_Sym); ++k) {
        auto const& s = at<Elf64_Sym>(section(i).sh_offset + k * sizeof(Elf64_Sym));
        std::string_view const name(file_.data() + names + s.st_name);
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC) functions_[base + s.st_value] = name;
        bool const written = s.st_shndx < header.e_shnum && (section(s.st_shndx).sh_flags & SHF_WRITE) != 0;
        if (written && name.substr(0, 3) == "_ZZ") variables_[name] = {base + s.st_value, s.st_size};
      }
    }
  }
  template <class T> T const& at(std::size_t offset) const {
    return *reinterpret_cast<T const*>(file_.data() + offset);
  }
  void find(std::uintptr_t kernel, kernel_symbols& to) const {
    auto const function = functions_.find(kernel);
    if (function == functions_.end()) return;
    auto const prefix = "_ZZ" + std::string(function->second.substr(2)) + "E";
    for (auto v = variables_.lower_bound(prefix); v != variables_.end() && v->first.substr(0, prefix.size()) == prefix;
         ++v) {
      kernel_symbols::variable found{reinterpret_cast<void*>(v->second.address), v->second.bytes};
#if defined(ON_HOST_ASAN)
      // clang counts the space that AddressSanitizer puts behind a variable.
      if (auto* const end = __asan_region_is_poisoned(found.address, found.bytes); end != nullptr)
        found.bytes = static_cast<std::size_t>(static_cast<char*>(end) - static_cast<char*>(found.address));
#endif
      to.shared.push_back(found);
      to.shared_bytes += (found.bytes + 15) / 16 * 16;
    }
    char* const readable = abi::__cxa_demangle(std::string(function->second).c_str(), nullptr, nullptr, nullptr);
    to.name = readable == nullptr ? std::string(function->second) : readable;
    std::free(readable);
    constexpr std::string_view anonymous = "(anonymous namespace)::";
    for (auto found = to.name.find(anonymous); found != std::string::npos; found = to.name.find(anonymous))
      to.name.erase(found, anonymous.size());
    if (auto const end = to.name.find_first_of("<("); end != std::string::npos) to.name.resize(end);
    if (auto const begin = to.name.find_last_of(": "); begin != std::string::npos) to.name.erase(0, begin + 1);
  }

  std::string file_;
  std::map<std::uintptr_t, std::string_view> functions_;
  std::map<std::string_view, object> variables_;
};

} // namespace on_host
