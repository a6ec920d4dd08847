// How many prompt rows a pass with decode rows carries, so that long prompts do not stall others.
//
// A decode pass earns prompts a share of the time that it takes alone, and prompt rows pay what
// they add to a pass, both as measured. So the mean step of a session that decodes is longer by
// that share at most, whatever a row costs: where one is worth many passes, it is computed that
// rarely.
#pragma once

#include <array>
#include <cstdint>

namespace kimi {

class PromptBudget {
  public:
    // Of the time that a decode pass takes alone.
    static constexpr double kShare = 0.5;

    // Prompt rows for the next pass, beside the decode rows of n_decoding sessions. Now and then
    // none, so that the decode rows are measured alone.
    std::uint32_t rows(std::uint32_t n_decoding) const;
    // What a pass took.
    void observe(std::uint32_t n_decoding, std::uint32_t prompt_rows, double seconds);
    // A pass without decode rows delayed sessions that decode.
    void observe_delay(double seconds);

  private:
    // Passes without prompt rows.
    struct Alone {
        double seconds = 0;              // fading mean; 0: none yet
        std::uint32_t passes_since = 0;  // with prompt rows
    };
    static std::size_t bucket(std::uint32_t n_decoding);
    void pay(double seconds, double alone);

    std::array<Alone, 8> alone_;   // by powers of two of the sessions
    double rows_ = 0, extra_ = 0;  // fading sums: prompt rows, and the seconds that they added
    double row_seconds_ = 0;       // 0: not known
    std::uint32_t most_ = 0;       // rows: what was tried grows step by step
    double credit_ = 0;            // seconds
};

}  // namespace kimi
