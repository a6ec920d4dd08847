// A call of the library, with every request to the system failing in turn: once, and from then on.
#pragma once

#include <kimi/kimi.h>

#include <functional>
#include <string>

namespace kimi::test {

// A call and what must be true of it.
struct Case {
    std::string name;
    std::function<void()> prepare;  // before every call
    std::function<kimi_status(kimi_error *)> call;
    std::function<void()> unchanged = [] {};  // after a failed call
    std::function<void()> done = [] {};       // after one that succeeded
};

// Of many requests about every 50th fails, but every one in the suite "slow".
enum class Thorough { no, yes };

// Fails memory, files and threads. Each failed call gives the right status, leaves nothing behind,
// and works when it is called again.
void fail_each(const Case &c, Thorough thorough = Thorough::no);

}  // namespace kimi::test
