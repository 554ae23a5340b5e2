// Host memory behind an AXI4 slave: 64-bit INCR bursts, each direction answered in order. It is here, or a `hero_host`.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>

#include "Vhero_system.h"
#include "hero.h"

namespace hero_model {

class Memory {
public:
    static constexpr size_t OCTETS = size_t{64} << 20;
    // Cycles from a read address to its first data, about as with DRAM. Addresses are queued, so
    // latencies overlap.
    static constexpr unsigned LATENCY = 8;

    Memory() : octets_(static_cast<uint8_t *>(calloc(OCTETS, 1))) {}
    ~Memory() { free(octets_); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    uint8_t *octets() const { return octets_; }
    void set_host(const hero_host &host) { host_ = host; }

    // Samples the inputs at the rising edge of sys_clk; call it before the model is evaluated.
    void sample(const Vhero_system &top) {
        cycle_++;
        if (top.m_axi_bvalid && top.m_axi_bready) answers_.pop_front();
        if (top.m_axi_wvalid && top.m_axi_wready) write(top);
        if (top.m_axi_awvalid && top.m_axi_awready) {
            writes_.push_back({top.m_axi_awaddr & ~7u, top.m_axi_awlen + 1u, top.m_axi_awid, 0,
                               top.m_axi_awsize == 3 && top.m_axi_awburst == 1});
        }
        if (top.m_axi_rvalid && top.m_axi_rready) {
            reads_.front().address += 8;
            reads_.front().fetched = false;
            if (--reads_.front().beats == 0) reads_.pop_front();
        }
        if (top.m_axi_arvalid && top.m_axi_arready) {
            reads_.push_back({top.m_axi_araddr & ~7u, top.m_axi_arlen + 1u, top.m_axi_arid,
                              cycle_ + LATENCY, top.m_axi_arsize == 3 && top.m_axi_arburst == 1});
        }
    }

    // Drives the outputs; call it after the model was evaluated.
    void drive(Vhero_system &top) {
        top.m_axi_awready = writes_.size() < QUEUE;
        top.m_axi_wready = !writes_.empty();
        top.m_axi_bvalid = !answers_.empty();
        if (top.m_axi_bvalid) {
            top.m_axi_bid = answers_.front().id;
            top.m_axi_bresp = answers_.front().response;
        }
        top.m_axi_arready = reads_.size() < QUEUE;
        top.m_axi_rvalid = !reads_.empty() && reads_.front().due <= cycle_;
        if (top.m_axi_rvalid) {
            Burst &burst = reads_.front();
            if (!burst.fetched) fetch(burst);
            top.m_axi_rid = burst.id;
            top.m_axi_rresp = burst.worst;
            top.m_axi_rlast = burst.beats == 1;
            top.m_axi_rdata = burst.word;
        }
    }

private:
    static constexpr size_t QUEUE = 8;
    enum Response : uint8_t { OKAY = 0, SLVERR = 2, DECERR = 3 };
    struct Burst {
        uint32_t address, beats, id;
        uint64_t due;
        bool valid;
        uint8_t worst = OKAY;  // of a read: of this beat
        bool fetched = false;  // a read's beat is in `word`, which stays until it is taken
        uint64_t word = 0;
    };
    struct Answer {
        uint32_t id;
        uint8_t response;
    };

    uint8_t response(const Burst &burst) const {
        if (!burst.valid) return SLVERR;
        return !host_.read && burst.address >= OCTETS ? DECERR : OKAY;
    }

    void fetch(Burst &burst) {
        burst.fetched = true;
        burst.word = 0;
        burst.worst = response(burst);
        if (burst.worst != OKAY) return;
        if (host_.read) {
            if (host_.read(host_.context, burst.id, burst.address, &burst.word)) burst.worst = DECERR;
            return;
        }
        for (unsigned i = 0; i < 8; i++) burst.word |= uint64_t{octets_[burst.address + i]} << (8 * i);
    }

    uint8_t store(const Burst &burst, uint64_t word, uint8_t strobes) {
        if (host_.write) return host_.write(host_.context, burst.id, burst.address, word, strobes) ? DECERR : OKAY;
        for (unsigned i = 0; i < 8; i++) {
            if (strobes >> i & 1) octets_[burst.address + i] = static_cast<uint8_t>(word >> (8 * i));
        }
        return OKAY;
    }

    void write(const Vhero_system &top) {
        Burst &burst = writes_.front();
        uint8_t response = this->response(burst);
        if (top.m_axi_wlast != (burst.beats == 1)) response = SLVERR;
        if (response == OKAY) response = store(burst, top.m_axi_wdata, top.m_axi_wstrb);
        if (response != OKAY) burst.worst = response;
        burst.address += 8;
        if (--burst.beats == 0) {
            answers_.push_back({burst.id, burst.worst});
            writes_.pop_front();
        }
    }

    uint8_t *octets_;
    hero_host host_{};
    uint64_t cycle_ = 0;
    std::deque<Burst> writes_, reads_;
    std::deque<Answer> answers_;
};

}  // namespace hero_model
