// Streams and events.
#include "tests/cudart/runtime.h"

using namespace kimi::cudart;

namespace {

cudaError_t create(Runtime &r, cudaStream_t *out, unsigned flags) {
    if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    auto stream = std::make_unique<Stream>();
    stream->device = Runtime::of_thread().device;
    stream->flags = flags;
    stream->lane = r.engine.new_lane();
    r.streams.insert(stream.get());
    *out = stream.release();
    return cudaSuccess;
}

Event *find(Runtime &r, cudaEvent_t handle) {
    return r.events.count(handle) != 0 ? handle : nullptr;
}

cudaError_t query(Runtime &r, Lock &lock, OpPtr op, int device) {
    if (op != nullptr && !op->done && !r.engine.look(lock, op)) return cudaErrorNotReady;
    if (op != nullptr) r.engine.seen(*op);
    return r.device(device).error;
}

// Nobody can wait for what is being captured, and who tries breaks the capture.
cudaError_t waited_for(const Captured &captured, cudaError_t error) {
    captured.capture->invalid = true;
    return error;
}

cudaError_t still_valid(const Capture &capture) {
    return capture.invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

// An event of a capture draws a stream into it.
cudaError_t wait_in_capture(Stream &stream, const Event &event) {
    Captured &mine = stream.captured;
    if (!event.captured) {
        if (event.recorded == nullptr) return cudaSuccess;
        return waited_for(mine, cudaErrorStreamCaptureIsolation);
    }
    const auto &capture = event.captured.capture;
    if (capture->ended) return cudaErrorCapturedEvent;
    if (mine && mine.capture != capture) {
        capture->invalid = true;
        return waited_for(mine, cudaErrorStreamCaptureMerge);
    }
    if (!mine) {
        mine.capture = capture;
        mine.lane = capture->graph.n_lanes++;
    }
    mine.tips.insert(mine.tips.end(), event.captured.tips.begin(), event.captured.tips.end());
    return still_valid(*capture);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return call(__func__, Needs::kDevice,
                [&](Runtime &r, Lock &) { return create(r, stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    return call(__func__, Needs::kDevice,
                [&](Runtime &r, Lock &) { return create(r, stream, flags); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    return call(__func__, Needs::kDevice, [&](Runtime &, Lock &) {
        *least = 0;
        *greatest = -5;
        return cudaSuccess;
    });
}

// What is in it still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        if (stream->captured) stream->captured.capture->invalid = true;
        stream->captured = {};
        stream->destroyed = true;
        r.forget_drained_streams();
        return r.current().error;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    return call(__func__, Needs::kNoCapture, [&](Runtime &r, Lock &lock) {
        const Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        if (stream->captured)
            return waited_for(stream->captured, cudaErrorStreamCaptureUnsupported);
        const int device = stream->device;
        r.engine.wait(lock, OpPtr(stream->last));
        return r.device(device).error;
    });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    return call(__func__, Needs::kNoCapture, [&](Runtime &r, Lock &lock) {
        const Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        if (stream->captured)
            return waited_for(stream->captured, cudaErrorStreamCaptureUnsupported);
        return query(r, lock, stream->last, stream->device);
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        Stream *stream = r.find(handle);
        const Event *e = find(r, event);
        if (stream == nullptr || e == nullptr) return cudaErrorInvalidResourceHandle;
        if (flags != 0) return cudaErrorInvalidValue;
        if (e->captured || stream->captured) return wait_in_capture(*stream, *e);
        if (e->recorded == nullptr) return cudaSuccess;
        return r.append(*stream, {.name = "wait for an event"}, {e->recorded});
    });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        if (flags > (cudaEventBlockingSync | cudaEventDisableTiming)) return cudaErrorInvalidValue;
        auto e = std::make_unique<Event>();
        e->device = Runtime::of_thread().device;
        e->flags = flags;
        r.events.insert(e.get());
        *event = e.release();
        return cudaSuccess;
    });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        if (r.events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
        delete event;
        return r.current().error;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        Stream *stream = r.find(handle);
        Event *e = find(r, event);
        if (stream == nullptr || e == nullptr) return cudaErrorInvalidResourceHandle;
        if (stream->device != e->device) {
            return r.refused(cudaErrorInvalidResourceHandle,
                             "an event of one device is recorded in a stream of another");
        }
        e->captured = stream->captured;
        if (e->captured) return still_valid(*e->captured.capture);
        r.append(*stream, {.name = "event"});
        e->recorded = stream->last;
        return cudaSuccess;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return call(__func__, Needs::kNoCapture, [&](Runtime &r, Lock &lock) {
        const Event *e = find(r, event);
        if (e == nullptr) return cudaErrorInvalidResourceHandle;
        if (e->captured) return waited_for(e->captured, cudaErrorCapturedEvent);
        const int device = e->device;
        r.engine.wait(lock, OpPtr(e->recorded));
        return r.device(device).error;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return call(__func__, Needs::kNoCapture, [&](Runtime &r, Lock &lock) {
        const Event *e = find(r, event);
        if (e == nullptr) return cudaErrorInvalidResourceHandle;
        if (e->captured) return waited_for(e->captured, cudaErrorCapturedEvent);
        return query(r, lock, e->recorded, e->device);
    });
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        const Event *a = find(r, from), *b = find(r, to);
        if (a == nullptr || b == nullptr || a->recorded == nullptr || b->recorded == nullptr ||
            ((a->flags | b->flags) & cudaEventDisableTiming) != 0) {
            return cudaErrorInvalidResourceHandle;
        }
        if (!a->recorded->done || !b->recorded->done) return cudaErrorNotReady;
        *ms = static_cast<float>((b->recorded->end_us - a->recorded->end_us) / 1000);
        return cudaSuccess;
    });
}

// It must not call CUDA.
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t f, void *user) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        return r.append(
            *stream, {Task::Kind::kHost, "host function", {}, [f, user](Running &) { f(user); }});
    });
}
}
