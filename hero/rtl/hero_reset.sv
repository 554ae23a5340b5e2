// Resets of a card: the hardware's, and the driver's, which first lets the bus come to rest. In reset `clear_n` walks over
// the registers that are memories. Then the card is ready, at the latest 64 cycles later also without a clock of the line.
`default_nettype none

module hero_reset (
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
            if (clear_n == 6'd63) begin
                core_rst <= 1'b0;
                state <= RELEASE;
            end
            RELEASE:
            if (!rx_half_rst && !tx_half_rst || clear_n == 6'd63) begin
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
endmodule

`default_nettype wire
