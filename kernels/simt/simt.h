// Everything a kernel's source needs; README.md is the manual.
#pragma once

#include "kernels/simt/launch.h"
#include "kernels/simt/types.h"

#ifdef __CUDACC__
#include "kernels/simt/ptx.h"
#else
#include "tests/simt/intrinsics.h"
#endif
