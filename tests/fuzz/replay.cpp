#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

// Replays a packed corpus (pack.py): PROGRAM FILE. Every input is also cut short at every byte.

extern "C" int LLVMFuzzerTestOneInput(unsigned char const* data, std::size_t size);

int main(int, char** argv) {
  std::ifstream in(argv[1], std::ios::binary);
  int inputs = 0;
  for (unsigned char length[4]; in.read(reinterpret_cast<char*>(length), 4); ++inputs) {
    std::vector<char> content(length[0] | length[1] << 8 | length[2] << 16 | length[3] << 24);
    if (!in.read(content.data(), static_cast<std::streamsize>(content.size())))
      return std::puts("the corpus ends within an input"), 1;
    for (std::size_t size = 0; size <= content.size(); ++size) {
      // An exact allocation, so that a sanitizer sees a read past the end.
      std::vector<unsigned char> const bytes(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(size));
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs == 0;
}
