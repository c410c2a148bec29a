#include <cstdio>

#include <kscout/device.h>
#include <kscout/error.h>
#include <kscout/problem.h>

extern "C" int library_differs_from_header(void);

int main() {
  if (library_differs_from_header()) return 1;
  const kscout::GemmProblem problem = kscout::make_gemm(128, 256, 64);
  std::printf("%s on %s\n", kscout::print(problem).c_str(), kscout::detect_cpu().name.c_str());
  try {
    kscout::find_device("h20");
  } catch (const kscout::Error& error) {  // the exception type crosses the library's border
    return error.code() == kscout::Errc::not_found ? 0 : 1;
  }
  return 1;
}
