// An AXI4-Lite master for the cards' registers: one access at a time.
#pragma once

#include <cstdint>

#include "Vhero_system.h"

namespace hero_model {

class Registers {
public:
    void read(unsigned card, unsigned reg) { start(READ, card, reg, 0); }
    void write(unsigned card, unsigned reg, uint32_t value) { start(WRITE, card, reg, value); }
    bool busy() const { return state_ != IDLE; }
    void give_up() { state_ = IDLE; }
    uint32_t value() const { return value_; }

    // Samples the inputs at the rising edge of sys_clk; call it before the model is evaluated.
    void sample(const Vhero_system &top) {
        if (state_ == IDLE) return;
        const uint8_t bit = 1u << card_;
        if (top.s_axil_awvalid & top.s_axil_awready & bit) address_ = false;
        if (top.s_axil_wvalid & top.s_axil_wready & bit) data_ = false;
        if (top.s_axil_arvalid & top.s_axil_arready & bit) address_ = false;
        if (top.s_axil_bvalid & top.s_axil_bready & bit) state_ = IDLE;
        if (top.s_axil_rvalid & top.s_axil_rready & bit) {
            bool okay = (top.s_axil_rresp >> (2 * card_) & 3) == 0;
            value_ = okay ? top.s_axil_rdata[card_] : ~0u;
            state_ = IDLE;
        }
    }

    // Drives the outputs; call it after the model was evaluated.
    void drive(Vhero_system &top) const {
        const uint8_t bit = 1u << card_;
        const bool write = state_ == WRITE, read = state_ == READ;
        top.s_axil_awvalid = write && address_ ? bit : 0;
        top.s_axil_wvalid = write && data_ ? bit : 0;
        top.s_axil_bready = write ? bit : 0;
        top.s_axil_arvalid = read && address_ ? bit : 0;
        top.s_axil_rready = read ? bit : 0;
        top.s_axil_awaddr = top.s_axil_araddr = uint32_t{reg_ * 4} << (8 * card_);
        top.s_axil_wdata[card_] = value_;
        top.s_axil_wstrb = 0xF << (4 * card_);
    }

private:
    enum State { IDLE, READ, WRITE };

    void start(State state, unsigned card, unsigned reg, uint32_t value) {
        state_ = state;
        card_ = card;
        reg_ = reg;
        value_ = value;
        address_ = data_ = true;
    }

    State state_ = IDLE;
    unsigned card_ = 0, reg_ = 0;
    uint32_t value_ = 0;
    bool address_ = false, data_ = false;  // not accepted yet
};

}  // namespace hero_model
