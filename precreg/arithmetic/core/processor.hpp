// Which instructions does the processor have, and does a thread compute as IEEE 754 says?
//
// Kernels are compiled once for each instruction set, each into the namespace of its name, PRECREG_SET. They share no
// template and no inline function outside anonymous namespaces, because the linker would keep one copy for all sets.
#pragma once

#include <cfenv>
#include <cstdlib>
#include <cstring>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace precreg {
namespace {

enum class InstructionSet { generic, avx2, avx512 };

// Return the widest set that the processor has and that was compiled, or the one that PRECREG_ISA names if it can run.
InstructionSet widest() {
    const char* wanted = std::getenv("PRECREG_ISA");
    (void)wanted; // no other architecture reads it
#if defined(PRECREG_X86)
    const bool any = !wanted || !*wanted;
    const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if ((any || !strcmp(wanted, "avx512")) && fused && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return InstructionSet::avx512;
    if ((any || !strcmp(wanted, "avx2")) && fused) return InstructionSet::avx2;
#endif
    return InstructionSet::generic;
}

const char* name_of(InstructionSet set) {
    return set == InstructionSet::avx512 ? "avx512" : set == InstructionSet::avx2 ? "avx2" : "generic";
}

// Sets the rounding direction (of <cfenv>) and subnormal numbers during its life. Libraries that were built for speed, and
// torch.set_flush_denormal, leave threads with another rounding or with subnormals flushed to zero.
class OrdinaryArithmetic {
#if defined(__SSE2__)
  public:
    explicit OrdinaryArithmetic(int direction = FE_TONEAREST) : before(_mm_getcsr()) { _mm_setcsr(DEFAULT | (unsigned)direction << 3); }
    ~OrdinaryArithmetic() { _mm_setcsr(before); }

  private:
    static constexpr unsigned DEFAULT = 0x1F80; // MXCSR after a reset: all exceptions masked, no flushing; Intel SDM 10.2.3
    const unsigned before;
#else
  public:
    explicit OrdinaryArithmetic(int direction = FE_TONEAREST) { fegetenv(&before), fesetenv(FE_DFL_ENV), fesetround(direction); }
    ~OrdinaryArithmetic() { fesetenv(&before); }

  private:
    fenv_t before;
#endif
};

} // namespace
} // namespace precreg
