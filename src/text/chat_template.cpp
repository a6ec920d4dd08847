#include "text/chat_template.h"

#include "base/error.h"
#include "text/tool_declarations.h"

namespace kimi {
namespace {

class Renderer {
  public:
    explicit Renderer(const Chat &chat) : chat_(chat) {}

    std::vector<Segment> render() {
        if (!chat_.tools.items.empty()) {
            header("<|im_system|>", "tool_declare");
            text(declare_tools(chat_.tools));
            special("<|im_end|>");
        }
        const std::size_t n_finished = chat_.preserve_thinking ? 0 : finished_messages();
        for (std::size_t i = 0; i < chat_.messages.size(); ++i)
            message(chat_.messages[i], i < n_finished);
        if (chat_.add_generation_prompt) {
            header("<|im_assistant|>", "assistant");
            special("<think>");
            if (!chat_.thinking) special("</think>");
        }
        return std::move(segments_);
    }

  private:
    void special(std::string_view name) { segments_.push_back({true, std::string(name)}); }
    void text(std::string_view text) {
        if (text.empty()) return;
        if (segments_.empty() || segments_.back().special) segments_.push_back({false, {}});
        segments_.back().text += text;
    }

    void header(std::string_view role, std::string_view name) {
        special(role);
        text(name);
        special("<|im_middle|>");
    }

    // The messages up to the last answer, that is, assistant message without tool calls: their
    // reasoning is dropped.
    std::size_t finished_messages() const {
        std::size_t n = chat_.messages.size();
        while (n > 0 && !(chat_.messages[n - 1].role == "assistant" &&
                          chat_.messages[n - 1].tool_calls.empty()))
            --n;
        return n;
    }

    void message(const Message &message, bool finished) {
        const std::string &name = message.name.empty() ? message.role : message.name;
        if (message.role == "assistant") {
            header("<|im_assistant|>", name);
            special("<think>");
            if (!finished && (chat_.thinking || chat_.preserve_thinking)) text(message.reasoning);
            special("</think>");
        } else {
            header(message.role == "user" ? "<|im_user|>" : "<|im_system|>", name);
            if (message.role == "tool") text(cat("## Return of ", message.tool_call_id, "\n"));
        }
        for (const ContentPart &part : message.content) content(part);
        if (!message.tool_calls.empty()) tool_calls(message.tool_calls);
        special("<|im_end|>");
    }

    void content(const ContentPart &part) {
        switch (part.kind) {
            case ContentPart::Kind::text:
                return text(part.text);
            case ContentPart::Kind::image:
                special("<|media_begin|>");
                text("image");
                special("<|media_content|>");
                special("<|media_pad|>");
                special("<|media_end|>");
                return text("\n");
            case ContentPart::Kind::video:
                return text("<|kimi_k25_video_placeholder|>\n");
        }
    }

    void tool_calls(const std::vector<ToolCall> &calls) {
        special("<|tool_calls_section_begin|>");
        for (const ToolCall &call : calls) {
            special("<|tool_call_begin|>");
            text(call.id);
            special("<|tool_call_argument_begin|>");
            text(call.arguments);
            special("<|tool_call_end|>");
        }
        special("<|tool_calls_section_end|>");
    }

    const Chat &chat_;
    std::vector<Segment> segments_;
};

}  // namespace

std::vector<Segment> render_chat(const Chat &chat) {
    return Renderer(chat).render();
}

std::string text_of(const std::vector<Segment> &segments) {
    std::string text;
    for (const Segment &segment : segments) text += segment.text;
    return text;
}

std::vector<std::int32_t> encode_segments(const Tokenizer &tokenizer,
                                          const std::vector<Segment> &segments) {
    std::vector<std::int32_t> tokens;
    for (const Segment &segment : segments) {
        if (!segment.special) {
            const auto added = tokenizer.encode(segment.text, false);
            tokens.insert(tokens.end(), added.begin(), added.end());
        } else if (const auto id = tokenizer.special(segment.text)) {
            tokens.push_back(*id);
        } else {
            fail(KIMI_UNSUPPORTED, "the tokenizer has no special token ", segment.text);
        }
    }
    return tokens;
}

}  // namespace kimi
