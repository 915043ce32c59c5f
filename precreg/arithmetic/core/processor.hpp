// What the compiled cores ask of the processor: which instructions it has, and arithmetic as IEEE 754 has it.
//
// Kernels are compiled once for each instruction set, each into the namespace of its name, PRECREG_SET. They share no
// template and no inline function outside anonymous namespaces: of those the linker would keep one for all.
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

// The widest one that the processor has and that was compiled, or that which PRECREG_ISA asks for, if it can be had.
InstructionSet widest() {
    const char* asked = std::getenv("PRECREG_ISA");
    (void)asked;
#if defined(PRECREG_X86)
    const bool any = !asked || !*asked;
    const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if ((any || !strcmp(asked, "avx512")) && fused && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return InstructionSet::avx512;
    if ((any || !strcmp(asked, "avx2")) && fused) return InstructionSet::avx2;
#endif
    return InstructionSet::generic;
}

const char* name_of(InstructionSet set) {
    return set == InstructionSet::avx512 ? "avx512" : set == InstructionSet::avx2 ? "avx2" : "generic";
}

// Arithmetic as IEEE 754 has it: a thread may be left with another rounding, or with subnormals taken for zeros, by
// libraries that were built for speed, or by torch.set_flush_denormal. Results are rounded as `direction` (of <cfenv>) says.
class OrdinaryArithmetic {
#if defined(__SSE2__)
  public:
    explicit OrdinaryArithmetic(int direction = FE_TONEAREST) : before(_mm_getcsr()) { _mm_setcsr(DEFAULT | (unsigned)direction << 3); }
    ~OrdinaryArithmetic() { _mm_setcsr(before); }

  private:
    static constexpr unsigned DEFAULT = 0x1F80;
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
