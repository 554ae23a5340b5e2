// The board's bitstream between two PHYs; Python has the clocks, the frames and the serial line.
`default_nettype none

module board_tb #(
    parameter BAUD = 10000000,
    parameter PHY_RESET_US = 10
) (
    input  wire       rst_n  /* verilator public_flat_rw */,
    input  wire       uart_rx  /* verilator public_flat_rw */,
    output wire       uart_tx  /* verilator public_flat_rd */,
    output wire [7:0] led_n  /* verilator public_flat_rd */,
    output wire [1:0] phy_rst_n  /* verilator public_flat_rd */,
    // As the PHYs have them, and 2 ns later
    input  wire       clk0  /* verilator public_flat_rw */,
    input  wire       clk0_late  /* verilator public_flat_rw */,
    input  wire       clk1  /* verilator public_flat_rw */,
    input  wire       clk1_late  /* verilator public_flat_rw */,
    input  wire       tx_late  /* verilator public_flat_rw */
);
    wire [1:0] rx_clk, rx_ctl, tx_clk, tx_ctl, mdc;
    wire [7:0] rxd, txd;
    wire mdio0, mdio1;
    pullup (mdio0);
    pullup (mdio1);
    hero_board #(.BAUD(BAUD), .PHY_RESET_US(PHY_RESET_US)) board (
        .clk100(1'b0), .rst_n(rst_n), .uart_rx(uart_rx), .uart_tx(uart_tx), .led_n(led_n),
        .eth0_rx_clk(rx_clk[0]), .eth0_rxd(rxd[3:0]), .eth0_rx_ctl(rx_ctl[0]), .eth0_tx_clk(tx_clk[0]), .eth0_txd(txd[3:0]),
        .eth0_tx_ctl(tx_ctl[0]), .eth0_rst_n(phy_rst_n[0]), .eth0_mdc(mdc[0]), .eth0_mdio(mdio0),
        .eth1_rx_clk(rx_clk[1]), .eth1_rxd(rxd[7:4]), .eth1_rx_ctl(rx_ctl[1]), .eth1_tx_clk(tx_clk[1]), .eth1_txd(txd[7:4]),
        .eth1_tx_ctl(tx_ctl[1]), .eth1_rst_n(phy_rst_n[1]), .eth1_mdc(mdc[1]), .eth1_mdio(mdio1)
    );
    tb_phy #(.ADDRESS(0)) phy0 (
        .rst_n(phy_rst_n[0]), .clk(clk0), .clk_late(clk0_late), .tx_late(tx_late), .rx_clk(rx_clk[0]), .rxd(rxd[3:0]),
        .rx_ctl(rx_ctl[0]), .tx_clk(tx_clk[0]), .txd(txd[3:0]), .tx_ctl(tx_ctl[0]), .mdc(mdc[0]), .mdio(mdio0)
    );
    tb_phy #(.ADDRESS(3)) phy1 (
        .rst_n(phy_rst_n[1]), .clk(clk1), .clk_late(clk1_late), .tx_late(tx_late), .rx_clk(rx_clk[1]), .rxd(rxd[7:4]),
        .rx_ctl(rx_ctl[1]), .tx_clk(tx_clk[1]), .txd(txd[7:4]), .tx_ctl(tx_ctl[1]), .mdc(mdc[1]), .mdio(mdio1)
    );
endmodule

`default_nettype wire
