// Which device a trainer uses, and the error for a device that it cannot use. The stand-in has as many devices as a
// test needs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using tiny = gpt<1, 1, 4, 7, 3, 1>;
using trainer = ct::trainer<tiny, device_policy, ct::launch::graph>;

/// The devices of a test; afterwards there is one again.
struct machine {
  explicit machine(std::vector<on_host::device_properties> const& devices) { on_host::devices = devices; }
  ~machine() {
    on_host::devices.assign(1, {});
    on_host::current_device = 0;
    on_host::binary_version = on_host::ptx_version = 90;
  }
  machine(machine const&) = delete;
  machine& operator=(machine const&) = delete;
};

ct::run_options on_device(int index) { return {.cuda_device = index}; }
std::string refusal(ct::run_options const& o = {}) {
  return sentence([&] { trainer t({}, o); });
}
bool contains(std::string const& text, char const* piece) { return text.find(piece) != std::string::npos; }
std::size_t used(int device) { return on_host::device_memory::used(device); }

} // namespace

TEST_CASE("a trainer works on its device, whatever the current one is, and leaves that as it is") {
  machine const two(std::vector<on_host::device_properties>(2));
  trainer first;
  CHECK(used(0) > 0);
  CHECK(used(1) == 0);
  auto const of_first = used(0);
  trainer second({}, on_device(1));
  CHECK(on_host::current_device == 0);
  CHECK(used(0) == of_first);
  CHECK(used(1) == of_first);
  cudaSetDevice(1);
  std::optional<trainer> third; // on the current device of this thread
  third.emplace();
  CHECK(used(1) == 2 * of_first);
  for (int current : {0, 1}) {
    cudaSetDevice(current);
    auto const losses = losses_of(first, 3);
    CHECK(same_bits(losses_of(second, 3), losses));
    CHECK(same_bits(losses_of(*third, 3), losses));
    CHECK(same_bits(weights_of(second), weights_of(first)));
    CHECK(on_host::current_device == current);
  }
  third.reset();
  CHECK(used(1) == of_first);
  CHECK(on_host::current_device == 1);
}

TEST_CASE("errors do not change the current device either") {
  machine const two(std::vector<on_host::device_properties>(2));
  on_host::devices[1].memory = 1000;
  auto const text = refusal(on_device(1));
  CAPTURE(text);
  CHECK(contains(text, "could not be allocated on CUDA device 1, which has 1000 of 1000 bytes free"));
  CHECK(on_host::current_device == 0);
  on_host::devices[1].memory = on_host::devices[0].memory;
  trainer t({}, on_device(1));
  for (int n = 1; n < 40; ++n) {
    on_host::let_fail(n);
    sentence([&] { losses_of(t, 1); });
    std::string const failed = on_host::failed == nullptr ? "" : on_host::failed;
    on_host::let_fail(0);
    CAPTURE(n);
    CAPTURE(failed);
    // Unless it is the call that fails which makes the former device current again.
    if (failed == "cudaSetDevice") cudaSetDevice(0);
    CHECK(on_host::current_device == 0);
  }
}

TEST_CASE("a device that is not there is named") {
  machine const two(std::vector<on_host::device_properties>(2));
  CHECK(contains(refusal(on_device(2)), "there is no CUDA device 2 here; choose `.cuda_device` from 0 to 1"));
  CHECK(contains(refusal(on_device(-2)), "run_options: .cuda_device is -2"));
  on_host::devices.clear();
  CHECK(contains(refusal(), "device::cuda: there is no CUDA device here, or CUDA_VISIBLE_DEVICES hides it"));
}

TEST_CASE("an old driver is not taken for a missing device") {
  on_host::let_fail(1);
  auto const text = refusal();
  on_host::let_fail(0);
  CAPTURE(text);
  CHECK(contains(text, "CUDA could not find the devices: CUDA driver version is insufficient"));
  CHECK(contains(text, "check with nvidia-smi that the driver supports CUDA 13"));
}

TEST_CASE("the architecture is one that the device has and the kernels were compiled for") {
  machine const one({{.major = 7, .minor = 5}});
  CHECK(contains(refusal(), "device::cuda<sm<80>>: CUDA device 0 has compute capability 7.5, but the policy needs 8.0; "
                            "choose another device as `.cuda_device`, or write device::cpu")); // sm<75>: no policy
  ct::cuda_device const older;
  on_host::devices[0] = {.major = 8, .minor = 6};
  CHECK(contains(sentence([&] { ct::check_code_for<ct::sm<90>>(older); }),
                 "8.6, but the policy needs 9.0; write sm<86> and compile for it"));
  on_host::devices[0] = {.major = 9, .minor = 0};
  on_host::binary_version = on_host::ptx_version = 75; // nvcc was told less than sm<80>
  CHECK(contains(refusal(), "device::cuda<sm<80>>: the code of this program for CUDA device 0 was compiled for compute "
                            "capability 7.5, but the policy needs 8.0; compile it with -arch=sm_80 (in CMake: "
                            "CMAKE_CUDA_ARCHITECTURES=80)"));
  on_host::binary_version = on_host::ptx_version = 80;
  CHECK(refusal().empty());
  // A program for 8.0 to 12.0 with PTX for 12.0, on a newer device: the driver has compiled the PTX.
  on_host::devices[0] = {.major = 13, .minor = 0};
  on_host::binary_version = 130, on_host::ptx_version = 120;
  CHECK(refusal().empty());
  on_host::binary_version = on_host::ptx_version = 80;
  on_host::devices[0] = {.major = 12, .minor = 0};
  on_host::has_code = false; // a cubin for 9.0 runs on no device of 12.0
  auto const text = refusal();
  on_host::has_code = true;
  CAPTURE(text);
  CHECK(contains(text, "this program has no code for CUDA device 0 of compute capability 12.0 (no kernel image is "
                       "available for execution on the device); compile it with -arch=sm_120"));
}
