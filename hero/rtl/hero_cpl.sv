// Writes completions into the rings in host memory, one word each, with the phase bit of the pass. Input 0 is the receiver
// (its priority bit selects the ring), 1 the transmitter; an input's word is accepted when the previous one is in memory. A
// word that memory refuses is lost: the ring's state shows it until the next reset, and the next word is written to the same
// place.
`default_nettype none

module hero_cpl (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire [31:13] base,
    input  wire [  1:0] in_valid,
    output wire [  1:0] in_ready,
    input  wire [ 99:0] in_data,     // each {error, priority, octets 16, buffer 32}
    output reg  [  2:0] written,     // pulse: a completion of ring 0 RXLO, 1 RXHI, 2 TX is in memory
    output reg          lost,        // pulse: a completion was lost
    output reg  [  2:0] broken,      // rings with a lost completion
    // DMA write client
    output wire         dma_req,
    output wire [ 31:0] dma_addr,
    output wire [  8:0] dma_beats,
    input  wire         dma_gnt,
    output wire         dma_wvalid,
    input  wire         dma_wready,
    output wire [ 63:0] dma_wdata,
    input  wire         dma_done,
    input  wire         dma_err
);
    localparam IDLE = 2'd0, ASK = 2'd1, DATA = 2'd2, WAIT = 2'd3;
    reg [1:0] state;
    reg tx_next;  // whether it is the transmitter's turn
    reg [1:0] ring;
    reg [49:0] word;
    reg [8:0] place;  // of `ring`: {passes, index}
    reg [8:0] place_rxlo, place_rxhi, place_tx;

    wire take_tx = in_valid[1] && (tx_next || !in_valid[0]);
    assign in_ready = state != IDLE ? 2'b00 : take_tx ? 2'b10 : 2'b01;
    wire rx_high = in_data[48];

    always @(posedge sys_clk) begin
        written <= 3'b000;
        lost <= 1'b0;
        case (state)
            IDLE: begin
                ring <= take_tx ? 2'd2 : {1'b0, rx_high};
                word <= take_tx ? in_data[99:50] : in_data[49:0];
                place <= take_tx ? place_tx : rx_high ? place_rxhi : place_rxlo;
                tx_next <= !take_tx;
                if (in_valid != 2'b00) state <= ASK;
            end
            ASK: if (dma_gnt) state <= DATA;
            DATA: if (dma_wready) state <= WAIT;
            WAIT:
            if (dma_done) begin
                written[ring] <= !dma_err;
                lost <= dma_err;
                if (dma_err) broken[ring] <= 1'b1;
                else
                    case (ring)
                        2'd0: place_rxlo <= place + 9'd1;
                        2'd1: place_rxhi <= place + 9'd1;
                        default: place_tx <= place + 9'd1;
                    endcase
                state <= IDLE;
            end
        endcase
        if (sys_rst) begin
            state <= IDLE;
            tx_next <= 1'b0;
            written <= 3'b000;
            lost <= 1'b0;
            broken <= 3'b000;
            place_rxlo <= 9'd0;
            place_rxhi <= 9'd0;
            place_tx <= 9'd0;
        end
    end

    assign dma_req = state == ASK;
    assign dma_addr = {base, ring, place[7:0], 3'd0};
    assign dma_beats = 9'd1;
    assign dma_wvalid = state == DATA;
    assign dma_wdata = {13'd0, !place[8], word};
`ifdef FORMAL
    reg past = 0;  // the last cycle was none of reset
    always @(posedge sys_clk) past <= !sys_rst;
    initial assume (sys_rst);
    wire running = past && !sys_rst;

    // Assumptions: the DMA master answers only what it granted; the ring's base is constant; input words wait
    wire [1:0] taken = in_valid & in_ready;
    always @* begin
        if (dma_gnt) assume (dma_req);
        if (dma_done) assume (state == WAIT);
    end
    always @(posedge sys_clk)
        if (running) begin
            assume ($stable(base));
            if ($past(in_valid[0] && !in_ready[0])) assume (in_valid[0] && $stable(in_data[49:0]));
            if ($past(in_valid[1] && !in_ready[1])) assume (in_valid[1] && $stable(in_data[99:50]));
        end

    // What the host knows: completions in memory, a ring each. The word at hand goes behind them.
    reg [8:0] known[0:2];
    reg [49:0] at_hand;
    reg [1:0] at_ring;
    reg owed = 0;  // a word was taken and nothing was told of it
    wire told = written != 3'd0 || lost;
    always @(posedge sys_clk) begin
        if (taken != 0) begin
            at_hand <= taken[1] ? in_data[99:50] : in_data[49:0];
            at_ring <= taken[1] ? 2'd2 : {1'b0, in_data[48]};
        end
        if (written[0]) known[0] <= known[0] + 9'd1;
        if (written[1]) known[1] <= known[1] + 9'd1;
        if (written[2]) known[2] <= known[2] + 9'd1;
        owed <= !sys_rst && (taken != 0 || owed && !told);
        if (sys_rst) {known[0], known[1], known[2]} <= 27'd0;
    end
    wire [8:0] behind = known[at_ring];
    always @(posedge sys_clk)
        if (running) begin
            if (dma_req) right_address: assert (dma_addr == {base, at_ring, behind[7:0], 3'd0} && dma_beats == 9'd1);
            if (dma_wvalid) right_word: assert (dma_wdata == {13'd0, !behind[8], at_hand});
            if (told) told_once: assert (owed && (written & (written - 3'd1)) == 3'd0 && !(lost && written != 3'd0));
            if (!owed) nothing_untold: assert (state == IDLE);
            if (owed && state == IDLE) told_at_last: assert (told);
            if ($past(dma_done)) as_memory_says: assert (lost == $past(dma_err) && (lost ? broken[at_ring] : written[at_ring]));
            broken_stays: assert (($past(broken) & ~broken) == 3'd0);
            if ($past(!dma_done)) broken_by_a_loss: assert ($stable(broken));
            // With them the proof is inductive.
            places: assert (place_rxlo == known[0] + written[0] && place_rxhi == known[1] + written[1] && place_tx == known[2] + written[2]);
            if (state != IDLE) place_at_hand: assert (ring == at_ring && ring != 2'd3 && word == at_hand && place == behind && !told && owed);
            // P9
            if ($past(dma_req && !dma_gnt)) p9_request: assert (dma_req && $stable(dma_addr));
            if ($past(dma_wvalid && !dma_wready)) p9_data: assert (dma_wvalid && $stable(dma_wdata));
            // Who waits sees one word of the other at most.
            in_turn: assert (waited <= 2'd1 || !in_valid[0]);
            tx_in_turn: assert (tx_waited <= 2'd1 || !in_valid[1]);
            if (waited == 2'd1) turn_is_rx: assert (!tx_next);
            if (tx_waited == 2'd1) turn_is_tx: assert (tx_next);
        end
    reg [1:0] waited = 0, tx_waited = 0;  // words of the other, while this one waited
    always @(posedge sys_clk) begin
        waited <= sys_rst || !in_valid[0] || taken[0] ? 2'd0 : waited + {1'b0, taken[1]};
        tx_waited <= sys_rst || !in_valid[1] || taken[1] ? 2'd0 : tx_waited + {1'b0, taken[0]};
    end

    always @(posedge sys_clk)
        if (running) begin
            c_lost_then_written: cover (written[1] && broken[1]);
            c_all_rings: cover (known[0] != 0 && known[1] != 0 && known[2] != 0);
        end
`endif
endmodule

`default_nettype wire
