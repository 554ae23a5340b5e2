// Requests from the host and the other cards. Posted writes go to the registers (BAR 0: DW by DW), the aperture (BAR 2: whole
// words, a TLP is a transaction) and the MSI-X table (BAR 4). All that asks for a completion goes to hero_pcie_cpl: never
// may a write wait behind a read that waits for its completion to leave.
`default_nettype none

module hero_pcie_rx (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire         tlp_valid,
    output wire         tlp_ready,
    input  wire         tlp_sop,
    input  wire         tlp_eop,
    input  wire [127:0] tlp_hdr,
    input  wire [  2:0] tlp_bar,
    input  wire [ 63:0] tlp_data,
    input  wire [  1:0] tlp_strb,         // DWs
    output wire         np_valid,
    input  wire         np_ready,
    output wire [127:0] np_hdr,
    output wire [  2:0] np_bar,
    output wire [  7:0] m_axil_awaddr,
    output reg          m_axil_awvalid,
    input  wire         m_axil_awready,
    output wire [ 31:0] m_axil_wdata,
    output wire [  3:0] m_axil_wstrb,
    output reg          m_axil_wvalid,
    input  wire         m_axil_wready,
    input  wire [  1:0] m_axil_bresp,
    input  wire         m_axil_bvalid,
    output wire         m_axil_bready,
    output wire [ 31:0] m_axi_awaddr,     // within BAR 2
    output wire [  7:0] m_axi_awlen,
    output wire         m_axi_awvalid,
    input  wire         m_axi_awready,
    output wire [ 63:0] m_axi_wdata,
    output wire         m_axi_wlast,
    output wire         m_axi_wvalid,
    input  wire         m_axi_wready,
    input  wire [  1:0] m_axi_bresp,
    input  wire         m_axi_bvalid,
    output wire         m_axi_bready,
    output wire         table_wr_en,
    output wire [  9:0] table_wr_dw,
    output wire [ 31:0] table_wr_data,
    output wire [  3:0] table_wr_be,
    output reg          refused           // pulse: a write that had no effect, or not all of it
);
    localparam IDLE = 3'd0, DROP = 3'd1, DW = 3'd2, ANSWER = 3'd3, ADDRESS = 3'd4, WORDS = 3'd5, RESPONSE = 3'd6;
    reg [2:0] state;

    // --- What the header says ---
    wire wide = tlp_hdr[125];
    wire [4:0] kind = tlp_hdr[124:120];
    wire [9:0] length = tlp_hdr[105:96];
    wire [31:0] address = wide ? tlp_hdr[31:0] : tlp_hdr[63:32];
    wire is_write = kind == 5'd0 && tlp_hdr[126] && !tlp_hdr[127];
    wire is_message = kind[4:3] == 2'b10;
    wire is_completion = kind[4:1] == 4'b0101;
    wire np = !is_write && !is_message && !is_completion;
    wire poisoned = tlp_hdr[110];
    // The aperture takes whole words; 256 of them at most
    wire whole = !address[2] && !length[0] && length != 10'd0 && length <= 10'd512 && tlp_hdr[71:64] == 8'hff;
    wire begins = tlp_valid && tlp_sop && state == IDLE;
    assign np_valid = begins && np;
    assign np_hdr = tlp_hdr;
    assign np_bar = tlp_bar;

    // --- DW by DW ---
    reg to_table, half, first, one;
    reg [3:0] last_be;  // the header is there with the first word only
    reg [9:0] dw;
    wire ends = tlp_eop && (half || !tlp_strb[1]);
    wire [3:0] be = first ? tlp_hdr[67:64] : ends && !one ? last_be : 4'hf;
    wire outside = !to_table && dw[9:6] != 4'd0;
    wire to_register = state == DW && tlp_valid && !to_table && !outside && be != 4'd0;
    wire dw_over = state == DW && tlp_valid && !to_register || state == ANSWER && m_axil_bvalid;
    wire [31:0] value = half ? tlp_data[63:32] : tlp_data[31:0];
    assign m_axil_awaddr = {dw[5:0], 2'd0};
    assign m_axil_wdata = value;
    assign m_axil_wstrb = be;
    assign m_axil_bready = state == ANSWER;
    assign table_wr_en = state == DW && tlp_valid && to_table;
    assign table_wr_dw = dw;
    assign table_wr_data = value;
    assign table_wr_be = be;

    // --- Whole words ---
    assign m_axi_awaddr = {12'd0, address[19:0]};
    assign m_axi_awlen = length[8:1] - 8'd1;
    assign m_axi_awvalid = state == ADDRESS;
    assign m_axi_wdata = tlp_data;
    assign m_axi_wlast = tlp_eop;
    assign m_axi_wvalid = state == WORDS && tlp_valid;
    assign m_axi_bready = state == RESPONSE;

    assign tlp_ready = state == DROP || dw_over && (half || !tlp_strb[1]) || state == WORDS && m_axi_wready;

    always @(posedge sys_clk) begin
        refused <= 1'b0;
        if (m_axil_awready) m_axil_awvalid <= 1'b0;
        if (m_axil_wready) m_axil_wvalid <= 1'b0;
        case (state)
            IDLE:
            if (begins) begin
                to_table <= tlp_bar == 3'd4;
                half <= 1'b0;
                first <= 1'b1;
                one <= length == 10'd1;
                last_be <= tlp_hdr[71:68];
                dw <= address[11:2];
                if (np) begin
                    if (np_ready) state <= DROP;
                end else if (is_write && !poisoned && (tlp_bar == 3'd0 || tlp_bar == 3'd4)) state <= DW;
                else if (is_write && !poisoned && tlp_bar == 3'd2 && whole) state <= ADDRESS;
                else begin
                    refused <= !is_message;
                    state <= DROP;
                end
            end
            DROP: if (tlp_valid && tlp_eop) state <= IDLE;
            DW:
            if (to_register) begin
                m_axil_awvalid <= 1'b1;
                m_axil_wvalid <= 1'b1;
                state <= ANSWER;
            end
            ADDRESS: if (m_axi_awready) state <= WORDS;
            WORDS: if (tlp_valid && m_axi_wready && tlp_eop) state <= RESPONSE;
            RESPONSE:
            if (m_axi_bvalid) begin
                refused <= m_axi_bresp[1];
                state <= IDLE;
            end
            default: ;  // ANSWER
        endcase
        if (dw_over) begin
            refused <= state == ANSWER ? m_axil_bresp[1] : outside && be != 4'd0;
            first <= 1'b0;
            half <= tlp_strb[1] && !half;
            dw <= dw + 10'd1;
            state <= ends ? IDLE : DW;
        end
        if (sys_rst) begin
            state <= IDLE;
            m_axil_awvalid <= 1'b0;
            m_axil_wvalid <= 1'b0;
            refused <= 1'b0;
        end
    end
    wire unused = &{1'b0, tlp_hdr, tlp_strb[0], address, m_axil_bresp[0], m_axi_bresp[0]};
endmodule

`default_nettype wire
