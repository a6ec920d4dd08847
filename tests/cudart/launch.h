// Kernel launches of host threads.
#pragma once

namespace kimi::cudart {

// From now on, launches of this thread go to the streams of the runtime.
void collect_launches_of_this_thread();

}  // namespace kimi::cudart
