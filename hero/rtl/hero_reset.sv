// Resets of a card: the hardware's, and the driver's, which first lets the bus come to rest. Both clock domains are
// in reset together before either goes on, and sys_clk's walks `clear_n` over the registers that are memories.
`default_nettype none

module hero_reset (
    input  wire       sys_clk,
    input  wire       sys_rst,
    input  wire       mac_clk,
    input  wire       mac_rst,
    input  wire       start,        // pulse: the driver wants a reset
    input  wire       quiet,        // no bus transaction under way
    output reg        quiesce,      // begin none
    output reg        core_rst,     // in sys_clk
    output reg        core_mac_rst, // in mac_clk
    output reg  [5:0] clear_n,
    output reg        ready
);
    localparam RUN = 2'd0, QUIET = 2'd1, RESET = 2'd2, RELEASE = 2'd3;
    reg [1:0] state;

    (* async_reg = "true" *) reg [1:0] to_mac;
    (* async_reg = "true" *) reg [1:0] to_sys;
    always @(posedge mac_clk) begin
        to_mac <= {to_mac[0], core_rst};
        core_mac_rst <= mac_rst || to_mac[1];
    end
    always @(posedge sys_clk) to_sys <= {to_sys[0], core_mac_rst};

    always @(posedge sys_clk) begin
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
                state <= RESET;
            end
            RESET: begin
                clear_n <= clear_n + 6'd1;
                if (clear_n == 6'd63 && to_sys[1]) begin
                    core_rst <= 1'b0;
                    state <= RELEASE;
                end
            end
            RELEASE:
            if (!to_sys[1]) begin
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
