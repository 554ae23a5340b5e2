// A PHY as the board sees it: RGMII with whole frames to and from Python (tb_gmii), and MDIO with the registers that the
// board's tools use. It delays both clocks of RGMII by 2 ns, which Python's clocks `*_late` do.
`default_nettype none

module tb_phy #(
    parameter ADDRESS = 1
) (
    input  wire       rst_n,
    input  wire       clk,       // of what it received
    input  wire       clk_late,
    input  wire       tx_late,   // the board's tx_clk
    output wire       rx_clk,
    output wire [3:0] rxd,
    output wire       rx_ctl,
    input  wire       tx_clk,
    input  wire [3:0] txd,
    input  wire       tx_ctl,
    input  wire       mdc,
    inout  wire       mdio
);
    // --- RGMII ---
    wire [7:0] d;
    wire dv, er;
    assign rx_clk = clk_late;
    assign rxd = clk ? d[3:0] : d[7:4];
    assign rx_ctl = clk ? dv : dv ^ er;

    reg [5:0] low, both_low, high;
    always @(posedge tx_late) low <= {!tx_clk, tx_ctl, txd};
    always @(negedge tx_late) {both_low, high} <= {low, tx_clk, tx_ctl, txd};
    // With the clock at the wrong level, nothing that it takes is right.
    wire tx_en = both_low[4];
    wire tx_er = high[4] != both_low[4] || both_low[5] || high[5];
    tb_gmii gmii (
        .rx_clk(clk), .tx_clk(tx_late), .rst(!rst_n), .rxd(d), .rx_dv(dv), .rx_er(er),
        .txd({high[3:0], both_low[3:0]}), .tx_en(tx_en), .tx_er(tx_er)
    );

    // --- MDIO: bits are taken, and given, with the rising edge of MDC ---
    reg [15:0] copper  /* verilator public_flat_rw */ = 0;  // register 17
    reg [15:0] mac_control  /* verilator public_flat_rw */ = 16'h0046;  // register 21 of page 2
    reg [15:0] control  /* verilator public_flat_rw */ = 16'h1140;
    reg [15:0] advertise  /* verilator public_flat_rw */ = 16'h01e1;
    reg [15:0] gigabit  /* verilator public_flat_rw */ = 16'h0300;
    reg [15:0] page  /* verilator public_flat_rw */ = 0;
    reg [7:0] resets  /* verilator public_flat_rw */ = 0;  // of its software
    reg [31:0] faults  /* verilator public_flat_rw */ = 0;  // bits that are not as clause 22 has them

    reg [5:0] ones;  // of the preamble, to 32
    reg [5:0] at;  // bit after the preamble
    reg [31:0] got;
    reg drive, bit_out;
    assign mdio = drive ? bit_out : 1'bz;
    wire [31:0] now = {got[30:0], mdio};

    function [15:0] value(input [4:0] number);
        case (number)
            5'd0: value = control;
            5'd2: value = 16'h0141;
            5'd3: value = 16'h0dd1;
            5'd4: value = advertise;
            5'd9: value = gigabit;
            5'd17: value = page == 0 ? copper : 16'hffff;
            5'd21: value = page == 2 ? mac_control : 16'h0000;
            5'd22: value = page;
            default: value = 16'h0000;
        endcase
    endfunction

    reg reads, writes;
    reg [15:0] out;
    always @(posedge mdc or negedge rst_n)
        if (!rst_n) begin
            {ones, at, drive, reads, writes} <= 0;
        end else if (at == 0 && ones < 32) begin
            ones <= mdio === 1'b1 ? ones + 6'd1 : 6'd0;
        end else if (at == 0 && mdio !== 1'b0) begin
            // more preamble
        end else begin
            got <= now;
            at <= at + 6'd1;
            if (at == 1 && mdio !== 1'b1) faults <= faults + 1;
            // The header is complete: {start 2, operation 2, phy 5, register 5}
            if (at == 13) begin
                reads <= now[11:10] == 2'b10 && now[9:5] == ADDRESS;
                writes <= now[11:10] == 2'b01 && now[9:5] == ADDRESS;
                out <= value(now[4:0]);
                if (now[11:10] != 2'b10 && now[11:10] != 2'b01) faults <= faults + 1;
            end
            // The turnaround: a reader's second bit is ours, and low
            if (at == 14 && reads) {drive, bit_out} <= 2'b10;
            if (at >= 15 && reads) {bit_out, out} <= {out, 1'b0};
            if (at == 15 && writes && now[1:0] != 2'b10) faults <= faults + 1;
            if (at == 31) begin
                {ones, at, drive, reads, writes} <= 0;
                if (writes)
                    case (now[22:18])
                        5'd0: begin
                            control <= now[15:0] & 16'h7fff;
                            if (now[15]) resets <= resets + 1;
                        end
                        5'd4: advertise <= now[15:0];
                        5'd9: gigabit <= now[15:0];
                        5'd21: if (page == 2) mac_control <= now[15:0];
                        5'd22: page <= now[15:0];
                        default: faults <= faults + 1;
                    endcase
            end
        end
endmodule

`default_nettype wire
