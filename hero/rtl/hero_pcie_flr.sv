// Function level reset of a card with hero_pcie, between hero_pcie and the streams of the PCIe core. What was offered to the
// core goes out to its end, and nothing else begins; then the card has its hardware's reset. Meanwhile what the core delivers
// is thrown away, up to the end of a TLP.
`default_nettype none

module hero_pcie_flr #(
    parameter CYCLES = 256  // from the reset until the card is ready; fewer in proofs only
) (
    input  wire       sys_clk,
    input  wire       sys_rst,
    input  wire       flr,            // the core wants it, until it sees `done`
    output wire       done,
    output wire       card_rst,       // resets the card and hero_pcie
    // To the core: completions, writes, reads
    input  wire [2:0] tx_valid,
    output wire [2:0] tx_ready,
    input  wire [2:0] tx_eop,
    output wire [2:0] core_tx_valid,
    input  wire [2:0] core_tx_ready,
    // From the core: requests, completions
    input  wire [1:0] core_rx_valid,
    output wire [1:0] core_rx_ready,
    input  wire [1:0] core_rx_eop,
    output wire [1:0] rx_valid,
    input  wire [1:0] rx_ready
);
    localparam RUN = 2'd0, STOP = 2'd1, RESET = 2'd2, DONE = 2'd3;
    reg [1:0] state;
    localparam [7:0] LAST = CYCLES[7:0] - 8'd1;
    reg [7:0] count;  // cycles in RESET
    wire stop = state != RUN;
    assign done = state == DONE;
    assign card_rst = sys_rst || state == RESET && count < 8'd4;

    reg [2:0] open;  // a TLP has been offered to the core and is not over
    assign core_tx_valid = tx_valid & (open | {3{!stop}});
    assign tx_ready = core_tx_ready & (open | {3{!stop}});

    reg [1:0] in_tlp, drop;  // the core is in a TLP; its rest is thrown away
    wire [1:0] dropping = drop | {2{stop}};
    assign rx_valid = core_rx_valid & ~dropping;
    assign core_rx_ready = rx_ready | dropping;
    wire [1:0] taken = core_rx_valid & core_rx_ready;
    wire [1:0] in_tlp_next = taken & ~core_rx_eop | ~taken & in_tlp;

    always @(posedge sys_clk) begin
        open <= (open | core_tx_valid) & ~(core_tx_valid & core_tx_ready & tx_eop);
        in_tlp <= in_tlp_next;
        drop <= {2{stop}} | drop & in_tlp_next;
        count <= state == RESET ? count + 8'd1 : 8'd0;
        case (state)
            RUN: if (flr) state <= STOP;
            STOP: if (open == 3'd0) state <= RESET;
            RESET: if (count == LAST) state <= DONE;
            default: if (!flr) state <= RUN;
        endcase
        if (sys_rst) begin
            state <= RUN;
            open <= 3'd0;
            in_tlp <= 2'd0;
            drop <= 2'd0;
        end
    end

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= !sys_rst;
    initial assume (sys_rst);
    wire check = past && !sys_rst;

    // Assumptions: the card holds what it offers, but for its reset, and the core always; within a TLP too.
    reg [2:0] tx_held = 0;  // offered to the core, which was not ready
    reg [1:0] rx_held = 0;
    always @(posedge sys_clk) begin
        tx_held <= sys_rst ? 3'd0 : core_tx_valid & ~core_tx_ready;
        rx_held <= sys_rst ? 2'd0 : core_rx_valid & ~core_rx_ready;
        if (check) begin
            assume ((rx_held & ~core_rx_valid) == 2'd0);
            assume (card_rst || ($past(tx_valid & ~tx_ready) & ~tx_valid) == 3'd0 || $past(card_rst));
            assume (($past(core_rx_eop) ^ core_rx_eop & rx_held) == 2'd0 || rx_held == 2'd0);
        end
    end

    // Seen from outside: whether a stream is within a TLP, at the core and at the card
    reg [2:0] tx_within = 0;
    reg [1:0] rx_within = 0, card_within = 0;
    reg was_reset = 0;  // since the wish
    always @(posedge sys_clk) begin
        tx_within <= sys_rst ? 3'd0 : tx_within & ~(core_tx_valid & core_tx_ready) | core_tx_valid & core_tx_ready & ~tx_eop;
        rx_within <= sys_rst ? 2'd0 : rx_within & ~taken | taken & ~core_rx_eop;
        card_within <= card_rst ? 2'd0 : card_within & ~(rx_valid & rx_ready) | rx_valid & rx_ready & ~core_rx_eop;
        was_reset <= !sys_rst && (card_rst || was_reset && state != RUN);
        if (check) begin
            p9_to_core: assert ((tx_held & ~core_tx_valid) == 3'd0);
            whole_to_core: assert (!card_rst || tx_within == 3'd0);
            whole_to_card: assert ((rx_valid & (rx_within ^ card_within)) == 2'd0);
            done_after_reset: assert (!done || was_reset);
        end
    end

    // What the invariants need
    always @(posedge sys_clk)
        if (check) begin
            open_within: assert ((tx_within & ~open) == 3'd0 && (tx_held & ~open) == 3'd0);
            in_tlp_within: assert (in_tlp == rx_within);
            dropped_or_equal: assert (((rx_within ^ card_within) & ~dropping) == 2'd0);
            reset_closed: assert (state != RESET && state != DONE || open == 3'd0);
            reset_first: assert (state != RESET || count == 8'd0 || was_reset);
            reset_emptied: assert ((state != RESET || count == 8'd0) && (state != DONE) && (state != RUN || drop == 2'd0)
                                   || (card_within & ({2{stop}} | drop)) == 2'd0);
        end

    reg cut = 0;  // the wish came within a TLP of the core
    always @(posedge sys_clk) begin
        cut <= !sys_rst && (cut || flr && state == RUN && rx_within != 2'd0);
        if (check) begin
            c_waits_for_end: cover (state == STOP && $past(state == STOP, 2) && open != 3'd0);
            c_in_reset: cover (state == RESET && card_rst && cut && rx_within != 2'd0);
        end
    end
`endif
endmodule

`default_nettype wire
