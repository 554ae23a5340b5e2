// Resets of a card: by the hardware, and by the driver, which first waits until the bus is idle. During reset `clear_n`
// walks over the registers that are memories. The card is ready at most 64 cycles later, even if a clock of the line stands
// still.
`default_nettype none

module hero_reset #(
    parameter CYCLES = 64  // of core_rst, and of the wait after it; fewer in proofs only
) (
    input  wire       sys_clk,
    input  wire       sys_rst,
    input  wire       rx_clk,
    input  wire       tx_clk,
    input  wire       start,       // pulse: the driver wants a reset
    input  wire       quiet,       // no bus transaction under way
    output reg        quiesce,     // begin none
    output reg        core_rst,    // in sys_clk
    output wire       rx_rst,      // in rx_clk
    output wire       tx_rst,      // in tx_clk
    output wire       rx_half_rst, // in sys_clk, of what faces rx_clk
    output wire       tx_half_rst, // in sys_clk, of what faces tx_clk
    output reg  [5:0] clear_n,
    output reg        ready
);
    localparam RUN = 2'd0, QUIET = 2'd1, RESET = 2'd2, RELEASE = 2'd3;
    localparam [5:0] LAST = CYCLES[5:0] - 6'd1;
    reg [1:0] state;

    hero_reset_line rx (
        .sys_clk(sys_clk), .core_rst(core_rst), .clk(rx_clk), .rst(rx_rst), .sys_half(rx_half_rst)
    );
    hero_reset_line tx (
        .sys_clk(sys_clk), .core_rst(core_rst), .clk(tx_clk), .rst(tx_rst), .sys_half(tx_half_rst)
    );

    always @(posedge sys_clk) begin
        clear_n <= clear_n + 6'd1;
        case (state)
            RUN:
            if (start) begin
                quiesce <= 1'b1;
                ready <= 1'b0;
                state <= QUIET;
            end
            QUIET:
            if (quiet) begin
                core_rst <= 1'b1;
                clear_n <= 6'd0;
                state <= RESET;
            end
            RESET:
            if (clear_n == LAST) begin
                core_rst <= 1'b0;
                clear_n <= 6'd0;
                state <= RELEASE;
            end
            RELEASE:
            if (!rx_half_rst && !tx_half_rst || clear_n == LAST) begin
                quiesce <= 1'b0;
                ready <= 1'b1;
                state <= RUN;
            end
        endcase
        if (sys_rst) begin
            state <= RESET;
            quiesce <= 1'b1;
            core_rst <= 1'b1;
            clear_n <= 6'd0;
            ready <= 1'b0;
        end
    end
`ifdef FORMAL
    initial assume (sys_rst && !core_rst);
    reg begun = 0;
    reg [7:0] cycle = 0;  // of the current reset
    reg was_quiet = 0, was_core_rst = 0, was_sys_rst = 1;
    wire idle = state == RUN || state == QUIET;
    always @(posedge sys_clk) begin
        begun <= begun || sys_rst;
        cycle <= idle || sys_rst ? 8'd0 : cycle + 8'd1;
        was_quiet <= quiet;
        was_core_rst <= core_rst;
        was_sys_rst <= sys_rst;
        c_ready: cover (begun && ready && !rx_half_rst && !tx_half_rst);
        c_ready_without_receive_clock: cover (begun && ready && rx_half_rst && !tx_half_rst);
        c_again: cover (begun && core_rst && !was_core_rst && !was_sys_rst);
    end

    // Also between clock edges; otherwise nothing would be proven while a clock stands still
    always @*
        if (begun) begin
            // The reset ends in time, even without the line's clocks, and has cleared each word of the memories.
            in_time: assert (cycle <= 2 * CYCLES);
            all_cleared: assert (!core_rst || clear_n == cycle[5:0] && cycle < CYCLES);
            whole_walk: assert (core_rst || !was_core_rst || cycle == CYCLES);
            // The bus is idle before the reset, and begins no transaction until its end; then the card is ready.
            at_rest_before: assert (!core_rst || was_core_rst || was_quiet || was_sys_rst);
            nothing_begins: assert (quiesce == (state != RUN));
            ready_at_last: assert (ready == (state == RUN));
            // This makes the proof inductive.
            as_the_state: assert (idle ? !core_rst && cycle <= 2 * CYCLES : state == RESET ? core_rst && cycle == clear_n && clear_n <= LAST
                                  : !core_rst && cycle == CYCLES + clear_n && clear_n <= LAST);
        end
`endif
endmodule

`default_nettype wire
