// The receiving end of the fast path: the card's aperture. Takes requests, grants room in the output FIFO to one source at a
// time, parses its burst, and passes responses to hero_fast_src. Protocol, addresses and slots: ../README.md.
`default_nettype none

module hero_fast_dst #(
    parameter DST_WORDS = 8192,  // of the output FIFO; power of two
    parameter MTU_WORDS = 190,  // of the longest packet
    parameter MIN_WORDS = 8,  // of the shortest packet; power of two
    parameter GRANT_WORDS = MTU_WORDS,  // free words that a grant needs at least; less would starve long packets
    parameter TIMEOUT = 65536  // sys cycles from a grant to the end of its burst
) (
    input  wire          sys_clk,
    input  wire          sys_rst,  // of the hardware
    input  wire          soft_rst,  // of the card: transactions continue, and are refused
    input  wire [   1:0] card,
    input  wire [3*32-1:0] peer_base,
    // Aperture
    input  wire [   3:0] s_axi_awid,
    input  wire [  31:0] s_axi_awaddr,
    input  wire [   7:0] s_axi_awlen,
    input  wire          s_axi_awvalid,
    output wire          s_axi_awready,
    input  wire [  63:0] s_axi_wdata,
    input  wire          s_axi_wlast,
    input  wire          s_axi_wvalid,
    output wire          s_axi_wready,
    output wire [   3:0] s_axi_bid,
    output wire [   1:0] s_axi_bresp,
    output wire          s_axi_bvalid,
    input  wire          s_axi_bready,
    // DMA client
    output wire          dma_req,
    output wire [  31:0] dma_addr,
    output wire [   8:0] dma_beats,
    input  wire          dma_gnt,
    output wire          dma_wvalid,
    input  wire          dma_wready,
    output wire [  63:0] dma_wdata,
    input  wire          dma_done,
    input  wire          dma_err,
    // Packets for hero_out
    output wire          out_valid,
    input  wire          out_ready,
    output wire [  63:0] out_data,
    output wire          out_last,
    output wire [  15:0] out_len,
    // Messages: responses for hero_fast_src, and values for the registers
    output wire [   2:0] rsp_in_valid,
    output wire [3*32-1:0] rsp_in,
    input  wire [   2:0] rsp_in_take,
    output wire [3*32-1:0] req_in,
    // Pulses
    output wire          drop_no_grant,
    output wire          drop_over_grant,
    output wire          drop_timeout,
    output wire          drop_malformed,
    output wire          granted,
    output wire          bus_error
);
    wire rst = sys_rst || soft_rst;

    // From the aperture: a word of a burst, or a message
    wire burst_valid;
    wire [1:0] slot;
    wire [63:0] word;
    wire [15:0] words;
    wire req_valid, rsp_valid;
    wire burst_refused;

    hero_aperture aperture (
        .sys_clk(sys_clk),
        .sys_rst(sys_rst),
        .soft_rst(soft_rst),
        .s_axi_awid(s_axi_awid),
        .s_axi_awaddr(s_axi_awaddr),
        .s_axi_awlen(s_axi_awlen),
        .s_axi_awvalid(s_axi_awvalid),
        .s_axi_awready(s_axi_awready),
        .s_axi_wdata(s_axi_wdata),
        .s_axi_wlast(s_axi_wlast),
        .s_axi_wvalid(s_axi_wvalid),
        .s_axi_wready(s_axi_wready),
        .s_axi_bid(s_axi_bid),
        .s_axi_bresp(s_axi_bresp),
        .s_axi_bvalid(s_axi_bvalid),
        .s_axi_bready(s_axi_bready),
        .slot(slot),
        .word(word),
        .words(words),
        .burst_valid(burst_valid),
        .burst_refused(burst_refused),
        .req_valid(req_valid),
        .rsp_valid(rsp_valid)
    );

    genvar s;
    generate
        for (s = 0; s < 3; s = s + 1) begin : g_response
            reg valid;
            reg [31:0] rsp;
            always @(posedge sys_clk) begin
                if (rsp_in_take[s]) valid <= 0;
                if (rsp_valid && slot == s) begin
                    valid <= 1;
                    rsp <= word[31:0];
                end
                if (rst) begin
                    valid <= 0;
                    rsp <= 0;
                end
            end
            assign rsp_in_valid[s] = valid;
            assign rsp_in[32*s+:32] = rsp;
        end
    endgenerate

    // The grant
    wire open, spent_hi, spent_lo;
    wire burst_end, burst_fault;
    wire [1:0] granted_slot;
    wire [15:0] left_hi, left_lo;
    wire [$clog2(DST_WORDS):0] level;

    hero_grant #(
        .DST_WORDS(DST_WORDS),
        .GRANT_WORDS(GRANT_WORDS),
        .TIMEOUT(TIMEOUT)
    ) grant (
        .sys_clk(sys_clk),
        .rst(rst),
        .card(card),
        .peer_base(peer_base),
        .req_valid(req_valid || burst_end),
        .req_slot(slot),
        .req(word[31:0]),
        .req_in(req_in),
        .level(level),
        .open(open),
        .slot(granted_slot),
        .left_hi(left_hi),
        .left_lo(left_lo),
        .spent_hi(spent_hi),
        .spent_lo(spent_lo),
        .close(burst_end || burst_fault),
        .timeout(drop_timeout),
        .dma_req(dma_req),
        .dma_addr(dma_addr),
        .dma_beats(dma_beats),
        .dma_gnt(dma_gnt),
        .dma_wvalid(dma_wvalid),
        .dma_wready(dma_wready),
        .dma_wdata(dma_wdata),
        .dma_done(dma_done),
        .dma_err(dma_err),
        .granted(granted),
        .bus_error(bus_error)
    );

    // The burst
    wire wr_valid, wr_commit, wr_abort;
    wire [15:0] wr_len;

    hero_burst #(
        .MTU_WORDS(MTU_WORDS),
        .MIN_WORDS(MIN_WORDS)
    ) burst (
        .sys_clk(sys_clk),
        .rst(rst),
        .valid(burst_valid),
        .word(word),
        .words(words),
        .mine(open && slot == granted_slot),
        .open(open),
        .left_hi(left_hi),
        .left_lo(left_lo),
        .spent_hi(spent_hi),
        .spent_lo(spent_lo),
        .ended(burst_end),
        .fault(burst_fault),
        .refused(burst_refused),
        .wr_valid(wr_valid),
        .wr_commit(wr_commit),
        .wr_len(wr_len),
        .wr_abort(wr_abort),
        .drop_no_grant(drop_no_grant),
        .drop_over_grant(drop_over_grant),
        .drop_malformed(drop_malformed)
    );

    wire fifo_head;
    wire [$clog2(DST_WORDS):0] fifo_words;
    wire [$clog2(DST_WORDS/MIN_WORDS):0] fifo_packets;
    wire unused = &{1'b0, fifo_head, fifo_words, fifo_packets};

    hero_packet_fifo #(
        .WORDS(DST_WORDS),
        .PACKETS(DST_WORDS / MIN_WORDS)
    ) fifo (
        .clk(sys_clk),
        .rst(rst),
        .wr_valid(wr_valid),
        .wr_data(word),
        .wr_commit(wr_commit),
        .wr_len(wr_len),
        .wr_abort(wr_abort),
        .level(level),
        .words(fifo_words),
        .packets(fifo_packets),
        .rd_head(fifo_head),
        .rd_len(out_len),
        .rd_valid(out_valid),
        .rd_ready(out_ready),
        .rd_data(out_data),
        .rd_last(out_last)
    );

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    initial assume (sys_rst);

    // P1 is in hero_grant.
    // P6: only the source that has the grant writes
    always @(posedge sys_clk) if (past && !rst && wr_valid) p6_writer_has_the_grant: assert (open && slot == granted_slot);

    always @(posedge sys_clk)
        if (past && !rst) begin
            c_packet: cover (wr_valid && wr_commit);
            c_grant_over: cover ($past(open) && !open && !$past(drop_timeout));
            c_timeout: cover (drop_timeout);
            c_over_grant: cover (drop_over_grant);
        end
`endif
endmodule

`default_nettype wire
