// Reads every kind as float32 or float64, exactly: these two themselves without a copy, others in pieces.
#pragma once

#include "job.hpp"

#include <cstring>
#include <type_traits>

namespace precreg {
namespace {

constexpr int64_t PIECE = 2048; // 16 kB as float64: stays in the first cache

inline bool needs_float64(Kind kind) { return kind == Kind::float64 || kind == Kind::int32 || kind == Kind::uint32; }

inline float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The exponent of the shifted bits is 112 too small (127 - 15); a multiplication corrects it, subnormals included.
inline float from_float16(uint16_t half) {
    const float magnitude = from_bits((uint32_t)(half & 0x7FFF) << 13) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    bits |= magnitude >= 65536.0f ? 0x7F800000u : 0u;
    return from_bits(bits | (uint32_t)(half & 0x8000) << 16);
}

inline float from_bfloat16(uint16_t half) { return from_bits((uint32_t)half << 16); }

template <class T> T item(const Side& side, int64_t at) {
    T value;
    memcpy(&value, (const char*)side.data + at * (int64_t)sizeof value, sizeof value);
    return value;
}

inline double value_at(const Side& side, int64_t at) {
    switch (side.kind) {
    case Kind::float32: return item<float>(side, at);
    case Kind::float64: return item<double>(side, at);
    case Kind::float16: return from_float16(item<uint16_t>(side, at));
    case Kind::bfloat16: return from_bfloat16(item<uint16_t>(side, at));
    case Kind::byte: return side.table[item<uint8_t>(side, at)];
    case Kind::int16: return item<int16_t>(side, at);
    case Kind::uint16: return item<uint16_t>(side, at);
    case Kind::int32: return item<int32_t>(side, at);
    case Kind::uint32: return item<uint32_t>(side, at);
    }
    return 0.0;
}

template <class T> class Reader {
  public:
    explicit Reader(const Side& side) : side(side) {}

    bool direct() const { return side.kind == (sizeof(T) == 8 ? Kind::float64 : Kind::float32); }

    const T* read(int64_t at, int64_t n) {
        switch (side.kind) {
        case Kind::float16: return convert<uint16_t>(at, n, from_float16);
        case Kind::bfloat16: return convert<uint16_t>(at, n, from_bfloat16);
        case Kind::byte: return convert<uint8_t>(at, n, [this](uint8_t pattern) { return side.table[pattern]; });
        case Kind::int16: return convert<int16_t>(at, n, [](int16_t x) { return (T)x; });
        case Kind::uint16: return convert<uint16_t>(at, n, [](uint16_t x) { return (T)x; });
        case Kind::int32: return convert<int32_t>(at, n, [](int32_t x) { return (T)x; });
        case Kind::uint32: return convert<uint32_t>(at, n, [](uint32_t x) { return (T)x; });
        default: return (const T*)side.data + at;
        }
    }

  private:
    const Side& side;
    alignas(64) T buffer[PIECE];

    template <class From, class Convert> const T* convert(int64_t at, int64_t n, Convert to_number) {
        const From* from = (const From*)side.data + at;
        for (int64_t i = 0; i < n; i++) buffer[i] = (T)to_number(from[i]);
        return buffer;
    }
};

} // namespace
} // namespace precreg
