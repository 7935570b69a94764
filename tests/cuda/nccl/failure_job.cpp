// A rank of a run on CUDA devices in which one rank is killed or stopped at a call to CUDA or NCCL: started by
// failures.cpp through mpirun, with NAME=VALUE arguments. Without a fault, prints the number of calls.

#include "cuda/nccl/ranks.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <unistd.h>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 16, .context = 4}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

std::map<std::string, std::string> given;
long number(char const* name) { return std::atol(given[name].c_str()); }
int rank_of_job() { return std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")); }
std::string in_scratch(char const* name) { return given["scratch"] + "/" + name + "-" + std::to_string(rank_of_job()); }

long calls = 0; // to NCCL, without those that poll, whose number depends on the other rank

void before_call(char const* call) {
  std::string_view const name(call);
  if (name.substr(0, 4) != "nccl" || name == "ncclCommGetAsyncError") return;
  if (++calls != number("at") || rank_of_job() != number("victim")) return;
  std::ofstream(in_scratch("fault")) << call << "\n";
  ::kill(::getpid(), given["fault"] == "kill" ? SIGKILL : SIGSTOP);
}

template <class... policies> void run() {
  ct::trainer<task, policies..., device_policy, ct::launch::graph> t(
      {.learning_rate = 1e-2f}, {.seed = 1, .deadline = std::atof(given["deadline"].c_str())});
  train(t, 2);
}

} // namespace

int main(int count, char** arguments) try {
  for (int i = 1; i < count; ++i) {
    std::string const argument = arguments[i];
    auto const equals = argument.find('=');
    given[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  std::ofstream(in_scratch("process")) << ::getpid() << "\n";
  ct::mpi const world(std::atof(given["deadline"].c_str()));
  show_devices(world.size());
  on_host::before_call = &before_call;
  auto const& policy = given["policy"];
  if (policy == "ddp") run<ct::parallel::ddp>();
  if (policy == "zero_1") run<ct::parallel::zero<1, 2>>();
  if (policy == "zero_2") run<ct::parallel::zero<2, 2>>();
  if (policy == "zero_3") run<ct::parallel::zero<3, 2>>();
  std::printf("rank %d: %ld calls\n", world.rank(), calls);
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "rank %d threw: %s\n", rank_of_job(), e.what());
  return 3;
}
