#include "tools/heatmap/picture.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace kimi::heatmap {
namespace {

constexpr int kLeft = 150, kTop = 64, kColumnWidth = 4, kLaneHeight = 14, kRankHeight = 34;
constexpr int kPhaseGap = 36, kWidth = kLeft + kColumns * kColumnWidth + 40;
constexpr int kTicks = 6;

std::string fixed(double value, int digits) {
    char text[64];
    const auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits).ptr;
    return {text, end};
}

std::string time_text(double us) {
    if (us >= 1e6) return fixed(us / 1e6, 2) + " s";
    return us >= 1e3 ? fixed(us / 1e3, 2) + " ms" : fixed(us, 0) + " us";
}

enum class Lane { compute, link };

using Cells = std::array<double, kColumns>;

// The busy share of every column.
Cells fill(const Trace &trace, std::size_t rank, bool decode, Lane lane) {
    Cells cells{};
    const double column = trace.end / kColumns;
    for (const Step &step : trace.ranks[rank]) {
        if (step.decode != decode) continue;
        const double share = lane == Lane::compute ? step.compute : step.link;
        for (int c = static_cast<int>(step.begin / column); c < kColumns; ++c) {
            const double begin = std::max(step.begin, c * column);
            const double end = std::min(step.end, (c + 1) * column);
            if (end <= begin) break;
            cells[static_cast<std::size_t>(c)] += share * (end - begin) / column;
        }
    }
    return cells;
}

class Picture {
  public:
    explicit Picture(const Trace &trace) : trace_(trace) {}

    std::string draw() {
        const int n_ranks = static_cast<int>(trace_.ranks.size());
        const int phase_height = n_ranks * kRankHeight + kPhaseGap;
        const int height = kTop + 2 * phase_height + 24;
        out_ = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"",
                   height, "\" font-family=\"sans-serif\" font-size=\"11\">\n");
        text(10, 20, "Where the time of every rank goes", "font-size=\"15\"");
        text(10, 38,
             trace_.link_share
                 ? "compute: share of the time spent computing; link: share of what it carries"
                 : "compute: share of the time spent computing; link: share spent waiting for it");
        phase(kTop, false);
        phase(kTop + phase_height, true);
        axis(kTop + 2 * phase_height);
        return out_ + "</svg>\n";
    }

  private:
    void phase(int top, bool decode) {
        text(10, top + 8, decode ? "decode" : "prefill", "font-weight=\"bold\"");
        for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) {
            const int y = top + 14 + static_cast<int>(rank) * kRankHeight;
            lane(y, rank, decode, Lane::compute);
            lane(y + kLaneHeight + 1, rank, decode, Lane::link);
        }
    }

    void lane(int y, std::size_t rank, bool decode, Lane lane) {
        const char *name = lane == Lane::compute ? "compute" : "link";
        text(kLeft - 8, y + 11, cat("rank ", rank, ' ', name), "text-anchor=\"end\"");
        out_ += cat("<g class=\"lane\" data-phase=\"", decode ? "decode" : "prefill",
                    "\" data-rank=\"", rank, "\" data-lane=\"", name, "\" fill=\"",
                    lane == Lane::compute ? "#08519c" : "#d94801", "\">\n");
        rect(kLeft, y, kColumns * kColumnWidth, "fill=\"#f2f2f2\"", "");
        const Cells cells = fill(trace_, rank, decode, lane);
        for (int c = 0; c < kColumns; ++c) {
            const double busy = std::min(1.0, cells[static_cast<std::size_t>(c)]);
            if (busy < 0.0005) continue;
            rect(kLeft + c * kColumnWidth, y, kColumnWidth,
                 cat("class=\"cell\" fill-opacity=\"", fixed(busy, 3), '"'),
                 cat(fixed(100 * busy, 1), " % at ", time_text(trace_.end * c / kColumns)));
        }
        out_ += "</g>\n";
    }

    void axis(int y) {
        for (int i = 0; i <= kTicks; ++i)
            text(kLeft + i * kColumns * kColumnWidth / kTicks, y,
                 time_text(trace_.end * i / kTicks), "text-anchor=\"middle\"");
    }

    void text(int x, int y, std::string_view content, std::string_view attributes = "") {
        out_ += cat("<text x=\"", x, "\" y=\"", y, "\" ", attributes, '>', content, "</text>\n");
    }
    void rect(int x, int y, int width, std::string_view attributes, std::string_view title) {
        out_ += cat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"",
                    int{kLaneHeight}, "\" ", attributes);
        out_ += title.empty() ? "/>\n" : cat("><title>", title, "</title></rect>\n");
    }

    const Trace &trace_;
    std::string out_;
};

}  // namespace

std::string draw(const Trace &trace) {
    return Picture(trace).draw();
}

}  // namespace kimi::heatmap
