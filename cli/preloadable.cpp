#include "preloadable.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/files.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

/// What the kernel follows from script to script.
constexpr int kMaxScripts = 5;

constexpr const char* kRunWithout = "run it without kscout exec";

bool is_executable_file(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
}

/// The parts of an executable file that decide what the loader does.
class ProgramFile {
 public:
  explicit ProgramFile(const fs::path& file) : stream_(file, std::ios::binary) {
    if (!stream_) fail(Errc::unsupported, "{}: cannot be read: {}", file.string(), std::strerror(errno));
    first_ = bytes(0, kFirstBytes);
  }

  bool is_script() const { return first_.starts_with("#!"); }
  bool is_elf() const { return first_.size() > EI_CLASS && first_.starts_with(ELFMAG); }
  bool is_64_bit() const { return first_[EI_CLASS] == ELFCLASS64; }
  int machine() const {
    return is_64_bit() ? header<Elf64_Ehdr>().e_machine : header<Elf32_Ehdr>().e_machine;
  }

  /// The program of a script's first line; empty where none is named.
  fs::path script_program() const {
    const std::string line = first_.substr(2, first_.find('\n') - 2);
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) return {};
    return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
  }

  /// The loader that a 64-bit program names (PT_INTERP); empty for a static one.
  fs::path loader() {
    const auto head = header<Elf64_Ehdr>();
    for (int i = 0; i < head.e_phnum; ++i) {
      const std::string text = bytes(head.e_phoff + std::uint64_t{head.e_phentsize} * i, sizeof(Elf64_Phdr));
      Elf64_Phdr part{};
      if (text.size() != sizeof part) return {};
      std::memcpy(&part, text.data(), sizeof part);
      if (part.p_type == PT_INTERP && part.p_filesz <= kFirstBytes)
        return bytes(part.p_offset, part.p_filesz).c_str();  // up to its NUL
    }
    return {};
  }

 private:
  static constexpr std::size_t kFirstBytes = 4096;

  std::string bytes(std::uint64_t at, std::size_t size) {
    std::string read(size, '\0');
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(at));
    stream_.read(read.data(), static_cast<std::streamsize>(size));
    read.resize(static_cast<std::size_t>(stream_.gcount()));
    return read;
  }
  template <class Header>
  Header header() const {
    Header head{};
    std::memcpy(&head, first_.data(), std::min(sizeof head, first_.size()));
    return head;
  }

  std::ifstream stream_;
  std::string first_;
};

/// Why the process would gain rights; null when it does not. The loader then ignores LD_PRELOAD.
const char* gained_rights(const fs::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return nullptr;
  if ((found.st_mode & S_ISUID) && found.st_uid != geteuid()) return "setuid";
  if ((found.st_mode & S_ISGID) && (found.st_mode & S_IXGRP) && found.st_gid != getegid()) return "setgid";
  if (geteuid() != 0 && getxattr(file.c_str(), "security.capability", nullptr, 0) > 0)
    return "a program with file capabilities";
  return nullptr;
}

void check_elf(const fs::path& file, ProgramFile& program) {
  ProgramFile own("/proc/self/exe");
  if (program.is_64_bit() != own.is_64_bit()) {
    fail(Errc::unsupported,
         "{}: is a 32-bit program, and the library to preload has 64 bits; use a 64-bit build of it, or {}",
         file.string(), kRunWithout);
  }
  if (program.machine() != own.machine()) {
    fail(Errc::unsupported,
         "{}: is built for another processor (ELF machine {}, here {}); use a build for this one",
         file.string(), program.machine(), own.machine());
  }
  const fs::path loader = program.loader();
  if (loader.empty()) {
    fail(Errc::unsupported,
         "{}: is linked statically, so nothing can be preloaded; link it dynamically, or {}", file.string(),
         kRunWithout);
  }
  if (const fs::path here = own.loader(); loader.filename() != here.filename()) {
    fail(Errc::unsupported,
         "{}: is built for another C library (its loader is {}, here {}); use a build for this one, or {}",
         file.string(), loader.string(), here.string(), kRunWithout);
  }
}

}  // namespace

std::filesystem::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_executable_file(name)) return name;
    std::error_code error;
    if (fs::is_directory(name, error)) fail(Errc::not_found, "{}: is a folder, and no program", name);
    if (is_absent(name)) fail(Errc::not_found, "{}: there is no such program", name);
    fail(Errc::unsupported, "{}: may not be executed; chmod +x allows it", name);
  }
  const char* const path = std::getenv("PATH");
  std::string_view folders = path ? path : "/bin:/usr/bin";
  while (true) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const fs::path file = (end ? fs::path(folders.substr(0, end)) : fs::path(".")) / name;
    if (is_executable_file(file)) return file;
    if (end == folders.size()) break;
    folders.remove_prefix(end + 1);
  }
  fail(Errc::not_found, "'{}': no folder of PATH has such a program; give its path", name);
}

void check_preloadable(const std::filesystem::path& program) {
  fs::path file = program;
  for (int scripts = 0; scripts <= kMaxScripts; ++scripts) {
    if (const char* const rights = gained_rights(file)) {
      fail(Errc::unsupported, "{}: is {}, and the loader preloads nothing into such programs; {}",
           file.string(), rights, kRunWithout);
    }
    ProgramFile one(file);
    if (one.is_elf()) return check_elf(file, one);
    if (!one.is_script()) return;  // the kernel, or a shell, says what it thinks of the file
    file = one.script_program();
    if (!is_executable_file(file)) {
      fail(Errc::not_found, "{}: is a script for '{}', which is no program here", program.string(),
           file.string());
    }
  }
}

}  // namespace kscout::cli
