#pragma once

#include <constrain/io/directory_reader.hpp>
#include <constrain/io/directory_writer.hpp>
#include <constrain/io/safetensors_writer.hpp>

#include <string>
#include <vector>

namespace constrain::test {

/// Writes the saved run `from` again as `to`. `change` gets the tensors of optimizer.safetensors, settings included, as
/// a `std::vector<io::tensor>&`, and may change them.
template <class function> void change_tensors(std::string const& from, std::string const& to, function const& change) {
  io::directory_reader const reader(from);
  io::directory_writer writer(to);
  for (auto const& file : reader.entries()) {
    if (file.name != "optimizer.safetensors") {
      writer.write(file.name, reader.bytes(file.name));
      continue;
    }
    auto tensors = io::parse_safetensors(reader.bytes(file.name), file.name).tensors;
    change(tensors);
    writer.write(file.name, [&](io::output_file& out) { io::write_safetensors(out, tensors); });
  }
  writer.commit();
}

} // namespace constrain::test
