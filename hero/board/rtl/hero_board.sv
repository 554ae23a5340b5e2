// HERO on Lattice's ECP5 Versa board: two cards, of which each has one of the two Ethernet sockets, forward between them by
// their rules. There is no host; the registers are reached over the serial line.
`default_nettype none

module hero_board #(
    parameter ROUTES = 16,
    parameter VOQ_WORDS = 512,
    parameter DST_WORDS = 1024,
    parameter SLOW_TX_WORDS = 512,
    parameter SYS_DIV = 9,  // sys_clk is 750 MHz / SYS_DIV
    parameter BAUD = 115200,
    parameter PHY_RESET_US = 20000,
    parameter RX_TAPS = 39,
    parameter TX_TAPS = 0
) (
    input  wire       clk100,
    input  wire       rst_n,
    input  wire       uart_rx,
    output wire       uart_tx,
    output wire [7:0] led_n,
    // Ethernet sockets 0 and 1: RGMII, MDIO, reset
    input  wire       eth0_rx_clk,
    input  wire [3:0] eth0_rxd,
    input  wire       eth0_rx_ctl,
    output wire       eth0_tx_clk,
    output wire [3:0] eth0_txd,
    output wire       eth0_tx_ctl,
    output wire       eth0_rst_n,
    output wire       eth0_mdc,
    inout  wire       eth0_mdio,
    input  wire       eth1_rx_clk,
    input  wire [3:0] eth1_rxd,
    input  wire       eth1_rx_ctl,
    output wire       eth1_tx_clk,
    output wire [3:0] eth1_txd,
    output wire       eth1_tx_ctl,
    output wire       eth1_rst_n,
    output wire       eth1_mdc,
    inout  wire       eth1_mdio
);
    localparam SYS_KHZ = 750000 / SYS_DIV;
    localparam DIVISOR = SYS_KHZ * 1000 / BAUD;
    localparam RESET_CYCLES = SYS_KHZ * (PHY_RESET_US / 10) / 100;

    wire sys_clk, tx_clk, sys_rst;
    hero_board_clocks #(.SYS_DIV(SYS_DIV)) clocks (
        .clk100(clk100), .rst_n(rst_n), .tx_clk(tx_clk), .sys_clk(sys_clk), .sys_rst(sys_rst)
    );

    // --- The lines ---
    wire [15:0] gmii_rxd, gmii_txd;
    wire [1:0] gmii_rx_dv, gmii_rx_er, gmii_tx_en, gmii_tx_er, rx_load_n, rx_move, rx_down, tx_load_n, tx_move, tx_down;
    hero_rgmii_rx #(.TAPS(RX_TAPS)) rx0 (
        .rx_clk(eth0_rx_clk), .rxd(eth0_rxd), .rx_ctl(eth0_rx_ctl), .delay_load_n(rx_load_n[0]), .delay_move(rx_move[0]), .delay_down(rx_down[0]),
        .gmii_rxd(gmii_rxd[7:0]), .gmii_rx_dv(gmii_rx_dv[0]), .gmii_rx_er(gmii_rx_er[0])
    );
    hero_rgmii_rx #(.TAPS(RX_TAPS)) rx1 (
        .rx_clk(eth1_rx_clk), .rxd(eth1_rxd), .rx_ctl(eth1_rx_ctl), .delay_load_n(rx_load_n[1]), .delay_move(rx_move[1]), .delay_down(rx_down[1]),
        .gmii_rxd(gmii_rxd[15:8]), .gmii_rx_dv(gmii_rx_dv[1]), .gmii_rx_er(gmii_rx_er[1])
    );
    hero_rgmii_tx #(.TAPS(TX_TAPS)) tx0 (
        .tx_clk(tx_clk), .gmii_txd(gmii_txd[7:0]), .gmii_tx_en(gmii_tx_en[0]), .gmii_tx_er(gmii_tx_er[0]),
        .delay_load_n(tx_load_n[0]), .delay_move(tx_move[0]), .delay_down(tx_down[0]), .rgmii_tx_clk(eth0_tx_clk), .txd(eth0_txd), .tx_ctl(eth0_tx_ctl)
    );
    hero_rgmii_tx #(.TAPS(TX_TAPS)) tx1 (
        .tx_clk(tx_clk), .gmii_txd(gmii_txd[15:8]), .gmii_tx_en(gmii_tx_en[1]), .gmii_tx_er(gmii_tx_er[1]),
        .delay_load_n(tx_load_n[1]), .delay_move(tx_move[1]), .delay_down(tx_down[1]), .rgmii_tx_clk(eth1_tx_clk), .txd(eth1_txd), .tx_ctl(eth1_tx_ctl)
    );

    // --- The PHYs ---
    wire [1:0] phy_reset, hold, command, busy, missing, link, present, phy_rst_n, mdc, mdio_o, mdio_oe, mdio_i;
    wire [9:0] address;
    wire [26:0] what;
    wire [31:0] mdio_data, status;
    genvar k;
    generate
        for (k = 0; k < 2; k = k + 1) begin : g_phy
            hero_phy #(.RESET_CYCLES(RESET_CYCLES), .POLL_CYCLES(RESET_CYCLES)) chip (
                .clk(sys_clk), .rst(sys_rst), .reset(phy_reset[k]), .hold(hold[k]), .address(address[5*k+:5]),
                .command(command[k]), .what(what), .busy(busy[k]), .missing(missing[k]), .data(mdio_data[16*k+:16]),
                .link(link[k]), .present(present[k]), .status(status[16*k+:16]), .reset_n(phy_rst_n[k]),
                .mdc(mdc[k]), .mdio_o(mdio_o[k]), .mdio_oe(mdio_oe[k]), .mdio_i(mdio_i[k])
            );
        end
    endgenerate
    assign {eth1_rst_n, eth0_rst_n} = phy_rst_n;
    assign {eth1_mdc, eth0_mdc} = mdc;
    assign eth0_mdio = mdio_oe[0] ? mdio_o[0] : 1'bz;
    assign eth1_mdio = mdio_oe[1] ? mdio_o[1] : 1'bz;
    assign mdio_i = {eth1_mdio, eth0_mdio};

    // --- Registers: units 0 and 1 are the cards, 2 is the board, and 3 nobody ---
    wire [1:0] unit;
    wire [7:0] awaddr, araddr;
    wire [31:0] wdata, board_rdata;
    wire awvalid, wvalid, arvalid, bready, rready, accepted, broken;
    wire [2:0] awready, wready, bvalid, arready, rvalid;
    wire [5:0] bresp, rresp;
    wire [63:0] cards_rdata;
    wire nobody = unit == 2'd3;
    wire [3:0] to = 4'd1 << unit;
    wire [127:0] rdata = {32'd0, board_rdata, cards_rdata};
    wire [7:0] bresps = {2'b11, bresp}, rresps = {2'b11, rresp};
    hero_uart_regs #(.DIVISOR(DIVISOR), .GAP(200 * DIVISOR)) bridge (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .rx(uart_rx), .tx(uart_tx), .unit(unit),
        .m_axil_awaddr(awaddr), .m_axil_awvalid(awvalid), .m_axil_awready(nobody || |(awready & to[2:0])),
        .m_axil_wdata(wdata), .m_axil_wvalid(wvalid), .m_axil_wready(nobody || |(wready & to[2:0])),
        .m_axil_bresp(bresps[2*unit+:2]), .m_axil_bvalid(nobody && bready || |(bvalid & to[2:0])), .m_axil_bready(bready),
        .m_axil_araddr(araddr), .m_axil_arvalid(arvalid), .m_axil_arready(nobody || |(arready & to[2:0])),
        .m_axil_rdata(rdata[32*unit+:32]), .m_axil_rresp(rresps[2*unit+:2]),
        .m_axil_rvalid(nobody && rready || |(rvalid & to[2:0])), .m_axil_rready(rready),
        .accepted(accepted), .broken(broken)
    );
    hero_board_regs #(.SYS_KHZ(SYS_KHZ), .RX_TAPS(RX_TAPS), .TX_TAPS(TX_TAPS)) regs (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .broken(broken),
        .s_axil_awaddr(awaddr), .s_axil_awvalid(awvalid && to[2]), .s_axil_awready(awready[2]), .s_axil_wdata(wdata),
        .s_axil_wvalid(wvalid && to[2]), .s_axil_wready(wready[2]), .s_axil_bresp(bresp[5:4]), .s_axil_bvalid(bvalid[2]),
        .s_axil_bready(bready), .s_axil_araddr(araddr), .s_axil_arvalid(arvalid && to[2]), .s_axil_arready(arready[2]),
        .s_axil_rdata(board_rdata), .s_axil_rresp(rresp[5:4]), .s_axil_rvalid(rvalid[2]), .s_axil_rready(rready),
        .phy_reset(phy_reset), .hold(hold), .address(address), .command(command), .what(what), .busy(busy),
        .missing(missing), .data(mdio_data), .link(link), .present(present), .status(status),
        .rx_load_n(rx_load_n), .rx_move(rx_move), .rx_down(rx_down), .tx_load_n(tx_load_n), .tx_move(tx_move), .tx_down(tx_down)
    );

    hero_board_cards #(
        .ROUTES(ROUTES), .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .SLOW_TX_WORDS(SLOW_TX_WORDS)
    ) cards (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .tx_clk(tx_clk), .rx_clk0(eth0_rx_clk), .rx_clk1(eth1_rx_clk),
        .gmii_rxd(gmii_rxd), .gmii_rx_dv(gmii_rx_dv), .gmii_rx_er(gmii_rx_er),
        .gmii_txd(gmii_txd), .gmii_tx_en(gmii_tx_en), .gmii_tx_er(gmii_tx_er), .link(link),
        .s_axil_awaddr(awaddr), .s_axil_awvalid({2{awvalid}} & to[1:0]), .s_axil_awready(awready[1:0]), .s_axil_wdata(wdata),
        .s_axil_wvalid({2{wvalid}} & to[1:0]), .s_axil_wready(wready[1:0]), .s_axil_bresp(bresp[3:0]),
        .s_axil_bvalid(bvalid[1:0]), .s_axil_bready(bready), .s_axil_araddr(araddr),
        .s_axil_arvalid({2{arvalid}} & to[1:0]), .s_axil_arready(arready[1:0]), .s_axil_rdata(cards_rdata),
        .s_axil_rresp(rresp[3:0]), .s_axil_rvalid(rvalid[1:0]), .s_axil_rready(rready)
    );

    // --- Lights: life, serial line, links, received, sent ---
    reg [25:0] life;
    always @(posedge sys_clk) life <= sys_rst ? 26'd0 : life + 26'd1;
    wire [4:0] active;
    hero_activity serial (.clk(sys_clk), .active(accepted), .on(active[0]));
    hero_activity received0 (.clk(eth0_rx_clk), .active(gmii_rx_dv[0]), .on(active[1]));
    hero_activity received1 (.clk(eth1_rx_clk), .active(gmii_rx_dv[1]), .on(active[2]));
    hero_activity sent0 (.clk(tx_clk), .active(gmii_tx_en[0]), .on(active[3]));
    hero_activity sent1 (.clk(tx_clk), .active(gmii_tx_en[1]), .on(active[4]));
    assign led_n = ~{active[4:1], link, active[0], life[25]};
    wire unused = to[3];
endmodule

`default_nettype wire
