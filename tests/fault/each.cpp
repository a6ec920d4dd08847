#include "fault/each.h"

#include <cstring>

#include "capi/client.h"
#include "fault/inject.h"

namespace kimi::test {
namespace {

void check_status(Resource resource, kimi_status status, const kimi_error &error) {
    CAPTURE(status);
    CAPTURE(error.message);
    switch (resource) {
        case Resource::memory:
        case Resource::thread:
            CHECK(status == KIMI_OUT_OF_MEMORY);
            break;
        case Resource::file:
            CHECK(status == KIMI_IO);
            break;
    }
    CHECK(error.status == status);
    CHECK(std::strlen(error.message) > 0);
}

// Calls with the n-th request failing until there are fewer; returns how many there are.
std::uint64_t fail_each(const Case &c, Resource resource, bool on, Thorough thorough) {
    for (std::uint64_t n = 1;; n += thorough == Thorough::yes ? 1 : 1 + n / 50) {
        CAPTURE(n);
        c.prepare();
        client::ErrorRecord error;
        Fault fault(resource, n, on);
        const kimi_status status = c.call(&error);
        const bool failed = fault.end();
        if (status != KIMI_OK) {
            REQUIRE(failed);
            check_status(resource, status, error);
            c.unchanged();
            REQUIRE(c.call(&error) == KIMI_OK);
        }
        c.done();
        if (!failed) return n - 1;
    }
}

}  // namespace

void fail_each(const Case &c, Thorough thorough) {
    CAPTURE(c.name);
    for (const Resource resource : {Resource::memory, Resource::file, Resource::thread})
        for (const bool on : {false, true}) {
            CAPTURE(static_cast<int>(resource));
            CAPTURE(on);
            fail_each(c, resource, on, thorough);
        }
}

}  // namespace kimi::test
