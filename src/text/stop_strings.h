// Text up to the first of some strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kimi {

// However the text is cut into pieces, the output is the same: all that stands before the string
// that ends first, of several that end there before the longest.
class StopStrings {
  public:
    StopStrings() = default;
    // None may be empty.
    explicit StopStrings(std::vector<std::string> strings);

    // Appends to `out` what no later match can take back. True where a string ended: the text is
    // over. The output is whole characters if the pieces and the strings are. Allocates nothing but
    // for `out`.
    bool push(std::string_view piece, std::string &out);
    // The text is over without a match: appends what was held back.
    void flush(std::string &out);

  private:
    std::vector<std::string> strings_;
    std::string held_;  // the longest end of the text that some string begins with
};

}  // namespace kimi
