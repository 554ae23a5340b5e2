// The Ethernet of one card: GMII with preamble, FCS and gap, frames with due times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace hero_model {

constexpr uint64_t MAC_PS = 8000;  // 125 MHz, an octet

// FCS of IEEE 802.3, in transmission order: low octet first.
inline uint32_t fcs(const uint8_t *octets, size_t count) {
    static const auto table = [] {
        std::array<uint32_t, 256> made{};
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
            made[i] = c;
        }
        return made;
    }();
    uint32_t c = ~0u;
    for (size_t i = 0; i < count; i++) c = table[(c ^ octets[i]) & 0xFF] ^ c >> 8;
    return ~c;
}

class Line {
public:
    static constexpr size_t QUEUE = 4096;
    struct Sent {
        std::vector<uint8_t> octets;  // after the preamble, with FCS
        uint64_t first, last;         // ps
        bool good;
    };

    // ---- to the card ----
    bool full() const { return arriving_.size() >= QUEUE; }
    size_t arriving() const { return arriving_.size(); }

    void receive(const uint8_t *frame, size_t octets, uint64_t at_ps, bool bad_fcs, bool rx_er, bool pad) {
        std::vector<uint8_t> wire(7, 0x55);
        wire.push_back(0xD5);
        wire.insert(wire.end(), frame, frame + octets);
        if (pad && octets < 60) wire.resize(8 + 60);
        uint32_t check = fcs(&wire[8], wire.size() - 8) ^ (bad_fcs ? 1 : 0);
        for (int i = 0; i < 4; i++) wire.push_back(static_cast<uint8_t>(check >> (8 * i)));
        size_t fault = rx_er ? 8 + (wire.size() - 8) / 2 : 0;
        arriving_.push_back({std::move(wire), at_ps, fault});
    }

    // The next octet, driven at an edge of rx_clk.
    void drive(uint64_t now_ps, uint8_t &rxd, bool &rx_dv, bool &rx_er) {
        rxd = 0;
        rx_dv = rx_er = false;
        if (gap_) {
            gap_--;
            return;
        }
        if (arriving_.empty() || (position_ == 0 && arriving_.front().at_ps > now_ps)) return;
        const Arriving &frame = arriving_.front();
        rxd = frame.wire[position_];
        rx_dv = true;
        rx_er = position_ != 0 && position_ == frame.fault;
        if (++position_ == frame.wire.size()) {
            arriving_.pop_front();
            position_ = 0;
            gap_ = GAP;
        }
    }

    // ---- from the card ----
    std::deque<Sent> sent;

    // Samples the octet at the edge of tx_clk at `now_ps`; it was sent one cycle before.
    void sample(uint64_t now_ps, uint8_t txd, bool tx_en, bool tx_er) {
        if (tx_en) {
            faulty_ |= tx_er;
            if (in_frame_) {
                if (octets_.empty()) first_ = now_ps - MAC_PS;
                octets_.push_back(txd);
            } else if (txd == 0xD5) {
                in_frame_ = true;
            } else {
                faulty_ |= txd != 0x55;
            }
        } else if (active_) {
            end(now_ps - 2 * MAC_PS);
        }
        active_ = tx_en;
    }

private:
    static constexpr unsigned GAP = 12;
    struct Arriving {
        std::vector<uint8_t> wire;
        uint64_t at_ps;
        size_t fault;  // octet with RX_ER; 0: none
    };

    void end(uint64_t last) {
        bool good = !faulty_ && octets_.size() > 4;
        if (good) {
            size_t n = octets_.size() - 4;
            uint32_t check = fcs(octets_.data(), n);
            for (int i = 0; i < 4; i++) good &= octets_[n + i] == static_cast<uint8_t>(check >> (8 * i));
        }
        if (octets_.empty()) first_ = last;
        sent.push_back({std::move(octets_), first_, last, good});
        octets_.clear();
        in_frame_ = faulty_ = false;
    }

    std::deque<Arriving> arriving_;
    size_t position_ = 0;
    unsigned gap_ = 0;
    std::vector<uint8_t> octets_;
    uint64_t first_ = 0;
    bool active_ = false, in_frame_ = false, faulty_ = false;
};

}  // namespace hero_model
