#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "base/error.h"

REGISTER_EXCEPTION_TRANSLATOR(kimi::Error &error) {
    return doctest::String(kimi::cat("status ", error.status, ": ", error.text).c_str());
}
