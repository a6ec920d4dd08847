// A step of one session that its caller does not wait for.
#pragma once

#include "engine/step_queue.h"

namespace kimi {

class BackgroundStep {
  public:
    // Both outlive it.
    BackgroundStep(StepQueue &queue, Session &session);
    BackgroundStep(const BackgroundStep &) = delete;
    BackgroundStep &operator=(const BackgroundStep &) = delete;
    // Waits for a step that is being computed, and takes back one that is not.
    ~BackgroundStep();

    // Asks for a step; there is none already. Throws std::system_error and std::bad_alloc.
    void submit();
    // True, once, where the step is done.
    bool collect();
    // Readable while a step is done and not collected. Throws KIMI_IO. Any thread.
    int descriptor();

  private:
    StepQueue &queue_;
    Session *session_;
    // The queue's mutex guards all below.
    StepQueue::Caller caller_;
    bool submitted_ = false;
};

}  // namespace kimi
