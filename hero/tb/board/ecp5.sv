// Behaviour of the ECP5's cells that the board uses: what Lattice's FPGA-TN-02035 (inputs and outputs) and FPGA-TN-02200
// (PLL) say of them, in the modes that are used. Delays need a simulator with delays, and HERO_DELAYS.
`default_nettype none
/* verilator lint_off DECLFILENAME */
/* verilator lint_off MULTITOP */
/* verilator lint_off UNUSEDSIGNAL */
/* verilator lint_off UNUSEDPARAM */
/* verilator lint_off PROCASSINIT */

// Both bits of a cycle of the clock come out with its next rising edge.
module IDDRX1F (
    input  wire D,
    input  wire SCLK,
    input  wire RST,
    output reg  Q0,
    output reg  Q1
);
    reg rise, fall;
    always @(posedge SCLK) rise <= D;
    always @(negedge SCLK) fall <= D;
    always @(posedge SCLK)
        if (RST) {Q1, Q0} <= 2'b00;
        else {Q1, Q0} <= {fall, rise};
endmodule

// D0 is on the line while the clock is high, D1 while it is low.
module ODDRX1F (
    input  wire SCLK,
    input  wire RST,
    input  wire D0,
    input  wire D1,
    output wire Q
);
    reg rise, fall, low;
    always @(posedge SCLK) {fall, rise} <= RST ? 2'b00 : {D1, D0};
    always @(negedge SCLK) low <= fall;
    assign Q = SCLK ? rise : low;
endmodule

// 25 ps a tap; a falling edge of MOVE is a step, up when DIRECTION is 0; without LOADN back to DEL_VALUE.
module DELAYF #(
    parameter DEL_MODE = "USER_DEFINED",
    parameter DEL_VALUE = 0
) (
    input  wire A,
    input  wire LOADN,
    input  wire MOVE,
    input  wire DIRECTION,
    output wire Z,
    output wire CFLAG
);
    reg [6:0] taps = DEL_VALUE;
    always @(negedge LOADN or negedge MOVE)
        if (!LOADN) taps <= DEL_VALUE;
        else taps <= DIRECTION ? taps - 7'd1 : taps + 7'd1;
    assign CFLAG = DIRECTION ? taps == 7'd0 : taps == 7'd127;
`ifdef HERO_DELAYS
    reg late;
    always @(A) late <= #(0.025 * taps) A;
    assign Z = late;
`else
    assign Z = A;
`endif
endmodule

// The clocks come from the bench, which has no oscillator to multiply: it drives `op` and `os`.
module EHXPLLL #(
    parameter CLKI_DIV = 1,
    parameter CLKFB_DIV = 1,
    parameter FEEDBK_PATH = "CLKOP",
    parameter CLKOP_ENABLE = "ENABLED",
    parameter CLKOP_DIV = 8,
    parameter CLKOP_CPHASE = 0,
    parameter CLKOS_ENABLE = "DISABLED",
    parameter CLKOS_DIV = 8,
    parameter CLKOS_CPHASE = 0,
    parameter PLLRST_ENA = "DISABLED",
    parameter INTFB_WAKE = "DISABLED",
    parameter STDBY_ENABLE = "DISABLED",
    parameter DPHASE_SOURCE = "DISABLED"
) (
    input  wire CLKI,
    input  wire CLKFB,
    input  wire RST,
    input  wire STDBY,
    input  wire PLLWAKESYNC,
    input  wire PHASESEL1,
    input  wire PHASESEL0,
    input  wire PHASEDIR,
    input  wire PHASESTEP,
    input  wire PHASELOADREG,
    input  wire ENCLKOP,
    input  wire ENCLKOS,
    input  wire ENCLKOS2,
    input  wire ENCLKOS3,
    output wire CLKOP,
    output wire CLKOS,
    output wire LOCK
);
    reg op  /* verilator public_flat_rw */ = 0;
    reg os  /* verilator public_flat_rw */ = 0;
    reg lock  /* verilator public_flat_rw */ = 0;
    assign CLKOP = op;
    assign CLKOS = os;
    assign LOCK = lock;
endmodule

`default_nettype wire
