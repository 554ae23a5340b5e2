// GMII to RGMII at 1 Gbit/s (RGMII 2.0): four bits with each edge of the clock, the low ones first. Clock and bits leave
// together: the PHY delays the clock, or DELAYF does.
`default_nettype none

module hero_rgmii_tx #(
    parameter TAPS = 0  // of the clock after power-up; 25 ps each
) (
    input  wire       tx_clk,
    input  wire [7:0] gmii_txd,
    input  wire       gmii_tx_en,
    input  wire       gmii_tx_er,
    // From hero_delay
    input  wire       delay_load_n,
    input  wire       delay_move,
    input  wire       delay_down,
    output wire       rgmii_tx_clk,
    output wire [3:0] txd,
    output wire       tx_ctl
);
    wire [4:0] rise = {gmii_tx_en, gmii_txd[3:0]};
    wire [4:0] fall = {gmii_tx_en ^ gmii_tx_er, gmii_txd[7:4]};
    genvar k;
    generate
        for (k = 0; k < 4; k = k + 1) begin : g_pin
            ODDRX1F launch (.D0(rise[k]), .D1(fall[k]), .SCLK(tx_clk), .RST(1'b0), .Q(txd[k]));
        end
    endgenerate
    ODDRX1F ctl (.D0(rise[4]), .D1(fall[4]), .SCLK(tx_clk), .RST(1'b0), .Q(tx_ctl));

    wire early, at_end;
    ODDRX1F clock (.D0(1'b1), .D1(1'b0), .SCLK(tx_clk), .RST(1'b0), .Q(early));
    DELAYF #(.DEL_MODE("USER_DEFINED"), .DEL_VALUE(TAPS)) delay (
        .A(early), .Z(rgmii_tx_clk), .LOADN(delay_load_n), .MOVE(delay_move), .DIRECTION(delay_down), .CFLAG(at_end)
    );
    wire unused = &{1'b0, at_end};
endmodule

`default_nettype wire
