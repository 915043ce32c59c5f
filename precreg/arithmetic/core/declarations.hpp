// Declarations whose text Python reads, so that each name is written once on the C++ side.
//
// The preprocessor turns a declaration into text: it drops comments and folds white space. precreg/arithmetic/structs.py
// compares the names in that text with those of its own classes when a core is loaded, and packs structs by its types.
// So a core that was built from other declarations is refused by the names themselves, without a version number.
#pragma once

#include <cstdint>

namespace precreg {

struct Declaration {
    const char *name, *text;
};

// Count the names of a list: names that are separated by commas.
constexpr int32_t names_in(const char* list) {
    int32_t names = 1;
    for (; *list; list++) names += *list == ',';
    return names;
}

} // namespace precreg

// A struct that Python packs, of bool, int32_t, int64_t, double, enums and structs declared before it.
#define PRECREG_STRUCT(NAME, ...)   \
    struct NAME {                   \
        __VA_ARGS__                 \
    };                              \
    constexpr const char* NAME##_TEXT = #__VA_ARGS__;

// An enum whose numbers Python passes, and a check of numbers that came from Python.
#define PRECREG_ENUM(NAME, ...)                                                                                  \
    enum class NAME : int32_t { __VA_ARGS__ };                                                                   \
    constexpr const char* NAME##_TEXT = #__VA_ARGS__;                                                            \
    static constexpr bool is_known(NAME value) { return (uint32_t)value < (uint32_t)names_in(#__VA_ARGS__); }

// Names by which results are indexed: NAME::first, NAME::second, ..., and NAME::SIZE. C++ keywords end in an underscore.
#define PRECREG_INDEX(NAME, ...)            \
    struct NAME {                           \
        enum : int { __VA_ARGS__, SIZE };   \
    };                                      \
    constexpr const char* NAME##_TEXT = #__VA_ARGS__;

#define PRECREG_DECLARED(NAME) {#NAME, NAME##_TEXT}
