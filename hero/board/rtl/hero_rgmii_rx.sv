// RGMII to GMII at 1 Gbit/s (RGMII 2.0): four bits with each edge of the clock, the low ones first. The PHY delays the clock
// to the middle of the bits; DELAYF shifts the bits by as much as the clock takes to get to the registers.
`default_nettype none

module hero_rgmii_rx #(
    parameter TAPS = 39  // after power-up; 25 ps each. This is Lattice's for a clock in the middle (SCLK_CENTERED)
) (
    input  wire       rx_clk,
    input  wire [3:0] rxd,
    input  wire       rx_ctl,
    // From hero_delay
    input  wire       delay_load_n,
    input  wire       delay_move,
    input  wire       delay_down,
    output wire [7:0] gmii_rxd,
    output wire       gmii_rx_dv,
    output wire       gmii_rx_er
);
    wire [4:0] pins = {rx_ctl, rxd};
    wire [4:0] late, rise, fall, at_end;
    genvar k;
    generate
        for (k = 0; k < 5; k = k + 1) begin : g_pin
            DELAYF #(.DEL_MODE("USER_DEFINED"), .DEL_VALUE(TAPS)) delay (
                .A(pins[k]), .Z(late[k]), .LOADN(delay_load_n), .MOVE(delay_move), .DIRECTION(delay_down), .CFLAG(at_end[k])
            );
            IDDRX1F capture (.D(late[k]), .SCLK(rx_clk), .RST(1'b0), .Q0(rise[k]), .Q1(fall[k]));
        end
    endgenerate
    assign gmii_rxd = {fall[3:0], rise[3:0]};
    assign gmii_rx_dv = rise[4];
    assign gmii_rx_er = rise[4] ^ fall[4];
    wire unused = &{1'b0, at_end};
endmodule

`default_nettype wire
