// Names with template arguments and a destructor, and letters that only assembly can put into a name.
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

namespace archive {
template <typename Key> __attribute__((noinline)) void scan(std::vector<Key> keys) {
    char byte;
    if (read(0, &byte, 1) < 0) keys.clear();
    std::printf("%zu", keys.size());
}
} // namespace archive

extern "C" void hostile() __asm__("\"a;b</text>\"");
extern "C" __attribute__((noinline)) void hostile() {
    archive::scan<std::string>(std::vector<std::string>(3));
    std::printf("%c", ' ');
}

int main() {
    std::puts("ready");
    std::fflush(stdout);
    hostile();
}
