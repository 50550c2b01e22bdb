// libnvrtc of the emulated device. The C++ compiler turns a kernel into a separate library, and its path stands for the
// compiled text. cuModuleLoadData opens the library, and execute.cpp runs its kernels.

#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "emulated.h"

namespace {

enum Compiled { COMPILED = 0, INVALID_OPTION = 5, COMPILATION = 6 };

struct Program {
    std::string source, name, log, image;
};

/// Folders of compiled kernels, removed when the process ends.
struct Folders {
    std::vector<std::filesystem::path> paths;
    ~Folders() {
        std::error_code ignored;
        for (const auto &path : paths) std::filesystem::remove_all(path, ignored);
    }
} folders;

std::filesystem::path this_library() {
    Dl_info info;
    dladdr(reinterpret_cast<void *>(&this_library), &info);
    return std::filesystem::absolute(info.dli_fname);
}

/// Translates options of NVRTC to the C++ compiler's. False if NVRTC does not support one.
bool translate(const std::vector<std::string> &options, std::vector<std::string> &arguments) {
    static const std::regex DEFINE("(-D|--define-macro=)(.+)"), INCLUDE("(-I|--include-path=)(.+)");
    static const std::regex IGNORED(
        "(-arch|--gpu-architecture|-?-std|-?-ftz|-?-fmad|-?-prec-div|-?-prec-sqrt|-?-maxrregcount)=.+|"
        "-?-use_fast_math|-?-extra-device-vectorization|-lineinfo|--generate-line-info|-w|--disable-warnings");
    for (size_t i = 0; i < options.size(); i++) {
        std::smatch found;
        std::string option = options[i];
        if ((option == "-D" || option == "--define-macro") && i + 1 < options.size()) option = "-D" + options[++i];
        if (std::regex_match(option, found, DEFINE)) arguments.push_back("-D" + found.str(2));
        else if (std::regex_match(option, found, INCLUDE)) arguments.push_back("-I" + found.str(2));
        else if (!std::regex_match(option, IGNORED)) return arguments = {option}, false;
    }
    return true;
}

/// Returns the lines that export the kernels of `source`: how to call each, and its maximum number of threads.
std::string registrations(const std::string &source) {
    static const std::string BOUNDS = R"re((?:__launch_bounds__\s*\(((?:[^()]|\([^()]*\))*)\)\s*)?)re";
    static const std::regex KERNEL(R"re(extern\s+"C"\s+__global__\s+)re" + BOUNDS + R"re(void\s+)re" + BOUNDS +
                                   R"re((\w+)\s*\()re");
    std::ostringstream lines;
    for (std::sregex_iterator kernel(source.begin(), source.end(), KERNEL), end; kernel != end; ++kernel) {
        std::string name = kernel->str(3), bounds = kernel->str(1) + kernel->str(2);
        lines << "\nextern \"C\" void emulated_kernel_" << name << "(void **p) { emulated::call(" << name << ", p); }\n"
              << "extern \"C\" { extern const int emulated_bounds_" << name << "[]; }\n"
              << "const int emulated_bounds_" << name << "[] = {" << (bounds.empty() ? "1024" : bounds) << "};\n";
    }
    return lines.str();
}

/// Runs a command whose output goes to a file; true when it ends with 0.
bool run(const std::vector<std::string> &command, const std::string &output) {
    std::vector<char *> words;
    for (const auto &word : command) words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int status = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0) emulated::fail("cannot run %s: %s", words[0], strerror(status));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Compiled compile(Program &program, const std::vector<std::string> &arguments) {
    std::string folder = std::filesystem::temp_directory_path() / "emulated-XXXXXX";
    if (!mkdtemp(folder.data())) emulated::fail("cannot make the folder %s", folder.c_str());
    folders.paths.push_back(folder);
    std::string source = folder + "/kernels.cpp", log = folder + "/log", image = folder + "/kernels.so";
    std::ofstream(source) << "#line 1 \"" << program.name << "\"\n"
                          << program.source << registrations(program.source);

    // The library itself is named last: there the kernels find the collectives. -Bsymbolic: a kernel that has the name
    // of a function elsewhere in the process stays itself. A GPU fails at addresses that are not aligned.
    std::vector<std::string> command = {"c++", "-std=c++20", "-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic",
                                        "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error", "-include",
                                        this_library().replace_filename("emulated.h"), "-o", image};
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.insert(command.end(), {source, this_library()});
    bool compiled = run(command, log);
    std::stringstream text;
    text << std::ifstream(log).rdbuf();
    program.log = text.str();
    if (!compiled) return COMPILATION;
    program.image = image;
    return COMPILED;
}

}  // namespace

extern "C" {

Compiled nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 0, COMPILED; }
const char *nvrtcGetErrorString(Compiled code) {
    if (code == COMPILED) return "NVRTC_SUCCESS";
    return code == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_OPTION";
}

Compiled nvrtcCreateProgram(Program **program, const char *source, const char *name, int, const char **,
                            const char **) {
    return *program = new Program{source, name ? name : "default_program", "", ""}, COMPILED;
}
Compiled nvrtcDestroyProgram(Program **program) { return delete *program, *program = nullptr, COMPILED; }

// One process compiles the same text once.
Compiled nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    static std::map<std::vector<std::string>, std::string> images;
    static std::mutex one;
    std::lock_guard guard(one);
    std::vector<std::string> arguments;
    if (!translate({options, options + count}, arguments)) {
        program->log = "unknown option " + arguments[0] + "\n";
        return INVALID_OPTION;
    }
    std::vector<std::string> key = arguments;
    key.push_back(program->source);
    if (auto found = images.find(key); found != images.end()) return program->image = found->second, COMPILED;
    Compiled code = compile(*program, arguments);
    if (code == COMPILED) images[key] = program->image;
    return code;
}

Compiled nvrtcGetPTXSize(Program *program, size_t *bytes) { return *bytes = program->image.size() + 1, COMPILED; }
Compiled nvrtcGetPTX(Program *program, char *text) { return strcpy(text, program->image.c_str()), COMPILED; }
Compiled nvrtcGetCUBINSize(Program *program, size_t *bytes) { return nvrtcGetPTXSize(program, bytes); }
Compiled nvrtcGetCUBIN(Program *program, char *text) { return nvrtcGetPTX(program, text); }
Compiled nvrtcGetProgramLogSize(Program *program, size_t *bytes) { return *bytes = program->log.size() + 1, COMPILED; }
Compiled nvrtcGetProgramLog(Program *program, char *text) { return strcpy(text, program->log.c_str()), COMPILED; }

}  // extern "C"
