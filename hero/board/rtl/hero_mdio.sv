// Master of an MDIO bus (IEEE 802.3 clause 22): reads or writes one register of a PHY. MDC has a period of 2 * HALF cycles.
`default_nettype none

module hero_mdio #(
    parameter HALF = 24  // at 100 MHz 2.1 MHz; a PHY need not be faster than 2.5 MHz
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        start,    // pulse, when not busy; the others are held from it on
    input  wire        write,
    input  wire [ 4:0] phy,
    input  wire [ 4:0] reg_n,
    input  wire [15:0] wr_data,
    output reg         busy,
    output reg         done,     // pulse
    output reg  [15:0] rd_data,
    output reg         missing,  // nobody answered the read
    output reg         mdc,
    output reg         mdio_o,
    output reg         mdio_oe,
    input  wire        mdio_i
);
    localparam [5:0] TURN = 46;  // the first bit of the turnaround; 32 of preamble and 14 of header are before it

    (* keep, async_reg = "true" *) reg mdio_meta, mdio_sync;
    always @(posedge clk) {mdio_sync, mdio_meta} <= {mdio_meta, mdio_i};

    reg [$clog2(HALF)-1:0] count;
    reg [5:0] at;  // the bit that is on the bus
    reg [31:0] bits;  // those to come, the highest first
    wire tick = count == HALF[$clog2(HALF)-1:0] - 1'b1;

    // Bits change with the falling edge of MDC, and are taken, at both ends, with the rising one.
    always @(posedge clk) begin
        done <= 1'b0;
        count <= tick || !busy ? 0 : count + 1'b1;
        if (start && !busy) begin
            busy <= 1'b1;
            at <= 6'd0;
            mdio_o <= 1'b1;
            mdio_oe <= 1'b1;
            missing <= 1'b0;
            bits <= {2'b01, write ? 2'b01 : 2'b10, phy, reg_n, 2'b10, wr_data};
        end else if (busy && tick && !mdc) begin
            mdc <= 1'b1;
            rd_data <= {rd_data[14:0], mdio_sync};
            if (at == TURN + 6'd1 && !write) missing <= mdio_sync;
        end else if (busy && tick) begin
            mdc <= 1'b0;
            at <= at + 6'd1;
            if (at >= 6'd31) {mdio_o, bits} <= {bits, 1'b1};
            mdio_oe <= at != 6'd63 && (write || at < TURN - 6'd1);
            if (at == 6'd63) begin
                busy <= 1'b0;
                done <= 1'b1;
            end
        end
        if (rst) begin
            busy <= 1'b0;
            done <= 1'b0;
            missing <= 1'b0;
            mdc <= 1'b0;
            mdio_o <= 1'b1;
            mdio_oe <= 1'b0;
            count <= 0;
        end
    end
endmodule

`default_nettype wire
