// Cuts text into the pieces that BPE works on. Both functions take valid UTF-8 and run in linear
// time whatever the text.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace kimi {

// The size in bytes of the first piece of non-empty text. The rules, of which the first that
// matches wins (tail: an optional 's 't 're 've 'm 'll 'd of any case):
//   1  Han+
//   2  [not CR LF letter number]? UP* LO+ tail
//   3  [not CR LF letter number]? UP+ LO* tail
//   4  number, 1 to 3 of them
//   5  one optional space, [not white space letter number]+, CR and LF*
//   6  white space*, [CR LF]+
//   7  white space+ that no other character follows
//   8  white space+
std::size_t first_piece(std::string_view text);

// Where the reference wrapper cuts a text before anything else looks at it: each 400,000 code
// points, and in longer runs of Python white space or of other characters each 25,000. Returns the
// byte offsets of the cuts, ascending, neither 0 nor the end.
std::vector<std::size_t> hard_cuts(std::string_view text);

}  // namespace kimi
