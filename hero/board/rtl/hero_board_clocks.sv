// Clocks of the board: 125 MHz for the lines and SYS_MHZ for all the rest, from its oscillator of 100 MHz; and the reset.
`default_nettype none

module hero_board_clocks #(
    parameter SYS_DIV = 9  // of the PLL's 750 MHz
) (
    input  wire clk100,
    input  wire rst_n,    // the button
    output wire tx_clk,
    output wire sys_clk,
    output wire sys_rst
);
    wire locked;
    // 100 MHz / 4 * 5 = 125 MHz; the oscillator of the PLL has six times that, and may have 400 to 800 MHz.
    (* FREQUENCY_PIN_CLKI = "100" *) (* FREQUENCY_PIN_CLKOP = "125" *) (* ICP_CURRENT = "12" *) (* LPF_RESISTOR = "8" *)
    EHXPLLL #(
        .CLKI_DIV(4), .CLKFB_DIV(5), .FEEDBK_PATH("CLKOP"), .CLKOP_ENABLE("ENABLED"), .CLKOP_DIV(6), .CLKOP_CPHASE(5),
        .CLKOS_ENABLE("ENABLED"), .CLKOS_DIV(SYS_DIV), .CLKOS_CPHASE(SYS_DIV - 1), .PLLRST_ENA("DISABLED"),
        .INTFB_WAKE("DISABLED"), .STDBY_ENABLE("DISABLED"), .DPHASE_SOURCE("DISABLED")
    ) pll (
        .CLKI(clk100), .CLKFB(tx_clk), .CLKOP(tx_clk), .CLKOS(sys_clk), .LOCK(locked), .RST(1'b0), .STDBY(1'b0),
        .PLLWAKESYNC(1'b0), .PHASESEL0(1'b0), .PHASESEL1(1'b0), .PHASEDIR(1'b0), .PHASESTEP(1'b0), .PHASELOADREG(1'b0),
        .ENCLKOP(1'b0), .ENCLKOS(1'b0), .ENCLKOS2(1'b0), .ENCLKOS3(1'b0)
    );

    // The reset begins without an edge, because there may be no clock, and lasts for 16 cycles with one.
    wire good = locked && rst_n;
    (* keep, async_reg = "true" *) reg [3:0] release_sync;
    always @(posedge sys_clk or negedge good)
        if (!good) release_sync <= 4'hf;
        else release_sync <= {release_sync[2:0], 1'b0};

    reg [3:0] left;
    reg rst;
    always @(posedge sys_clk) begin
        if (release_sync[3]) left <= 4'hf;
        else if (left != 4'd0) left <= left - 4'd1;
        rst <= release_sync[3] || left != 4'd0;
    end
    assign sys_rst = rst;
endmodule

`default_nettype wire
