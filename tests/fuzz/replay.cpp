#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

// Replays a corpus: PROGRAM DIRECTORY. Every file is also cut short at every byte.

extern "C" int LLVMFuzzerTestOneInput(unsigned char const* data, std::size_t size);

int main(int, char** argv) {
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::vector<char> const content{std::istreambuf_iterator<char>(in), {}};
    for (std::size_t size = 0; size <= content.size(); ++size) {
      // An exact allocation, so that the sanitizer sees a read past the end.
      std::vector<unsigned char> const bytes(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(size));
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    ++files;
  }
  std::printf("%d files\n", files);
  return files == 0;
}
