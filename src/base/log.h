// Where an engine tells what happens to it. The sink is called by one thread at a time.
#pragma once

#include "base/error.h"

namespace kimi {

class Log {
  public:
    using Sink = void (*)(void *user, std::int32_t level, const char *text);

    Log() = default;  // nowhere
    Log(Sink sink, void *user) : sink_(sink), user_(user) {}

    template <typename... Parts>
    void error(const Parts &...parts) const noexcept {
        write(KIMI_LOG_ERROR, parts...);
    }
    template <typename... Parts>
    void warning(const Parts &...parts) const noexcept {
        write(KIMI_LOG_WARNING, parts...);
    }
    template <typename... Parts>
    void info(const Parts &...parts) const noexcept {
        write(KIMI_LOG_INFO, parts...);
    }

  private:
    template <typename... Parts>
    void write(std::int32_t level, const Parts &...parts) const noexcept {
        if (sink_ == nullptr) return;
        try {
            sink_(user_, level, cat(parts...).c_str());
        } catch (...) {
            // No memory for the text: what is logged also comes as a status, or is a hint.
        }
    }

    Sink sink_ = nullptr;
    void *user_ = nullptr;
};

}  // namespace kimi
