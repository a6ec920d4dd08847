// Included before every FlatBuffers header: its assertions become errors instead of ending the
// process.
#pragma once

#include "base/error.h"

#define FLATBUFFERS_ASSERT(condition) KIMI_CHECK(condition)
