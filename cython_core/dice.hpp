// Randomness for BPE-dropout. It depends on a text's seed and a place in the text alone, not on threads or on the rest
// of the batch.
#pragma once

#include <cstdint>

namespace hf_scaffold {

// SplitMix64 (Steele, Lea, Flood 2014).
class Dice {
public:
    Dice(float p, std::uint64_t stream, std::uint64_t offset) : p_(p), state_(mix(stream + mix(offset))) {}

    // True with probability p, in steps of 2^-24.
    bool drops() { return static_cast<float>(next() >> 40) * 0x1p-24f < p_; }

private:
    static constexpr std::uint64_t STEP = 0x9E3779B97F4A7C15;

    static std::uint64_t mix(std::uint64_t z) {
        z += STEP;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }

    std::uint64_t next() {
        const std::uint64_t number = mix(state_);
        state_ += STEP;
        return number;
    }

    float p_;
    std::uint64_t state_;
};

}  // namespace hf_scaffold
