// hero_rgmii_tx on wires to hero_rgmii_rx, with the delays of the clock between them.
`default_nettype none
`timescale 1ns / 1ps

module rgmii_tb #(
    parameter PHY_PS = 2000,  // of the clock, in the PHY
    parameter INSIDE_PS = 1000,  // of the clock, on its way to the receiver's registers
    parameter RX_TAPS = 39
) (
    input  wire       tx_clk,
    input  wire       rst,
    input  wire [7:0] txd,
    input  wire       tx_en,
    input  wire       tx_er,
    input  wire       set,
    input  wire [6:0] rx_taps,
    input  wire [6:0] tx_taps,
    output wire       busy,
    output wire       rx_clk,
    output wire [7:0] rxd,
    output wire       rx_dv,
    output wire       rx_er
);
    wire [1:0] load_n, move, down, working;
    wire [13:0] taps;
    hero_delay #(.FIRST(RX_TAPS)) rx_delay (
        .clk(tx_clk), .rst(rst), .set(set), .wanted(rx_taps), .taps(taps[6:0]), .busy(working[0]), .load_n(load_n[0]),
        .move(move[0]), .down(down[0])
    );
    hero_delay #(.FIRST(0)) tx_delay (
        .clk(tx_clk), .rst(rst), .set(set), .wanted(tx_taps), .taps(taps[13:7]), .busy(working[1]), .load_n(load_n[1]),
        .move(move[1]), .down(down[1])
    );
    assign busy = |working;
    wire pin_clk, ctl;
    wire [3:0] data;
    hero_rgmii_tx tx (
        .tx_clk(tx_clk), .gmii_txd(txd), .gmii_tx_en(tx_en), .gmii_tx_er(tx_er), .delay_load_n(load_n[1]),
        .delay_move(move[1]), .delay_down(down[1]), .rgmii_tx_clk(pin_clk), .txd(data), .tx_ctl(ctl)
    );
    reg late;
    always @(pin_clk) late <= #((PHY_PS + INSIDE_PS) / 1000.0) pin_clk;
    assign rx_clk = late;
    hero_rgmii_rx #(.TAPS(RX_TAPS)) rx (
        .rx_clk(late), .rxd(data), .rx_ctl(ctl), .delay_load_n(load_n[0]), .delay_move(move[0]), .delay_down(down[0]),
        .gmii_rxd(rxd), .gmii_rx_dv(rx_dv), .gmii_rx_er(rx_er)
    );
    wire unused = &{1'b0, taps};
endmodule

`default_nettype wire
