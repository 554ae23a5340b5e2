// One card: Ethernet as AXI4-Stream on one side, the bus on the other. The parts and their protocols: ../README.md.
`default_nettype none

module hero_nic #(
    parameter ROUTES = 3,
    parameter ROUTES6 = 0,  // routes of IPv6; 0: none, and no logic for it
    parameter VOQ_WORDS = 4096,
    parameter DST_WORDS = 8192,
    parameter SLOW_TX_WORDS = 2048,
    parameter CDC_WORDS = 256,
    parameter MTU = 1500,  // octets of a packet, to 2022: a frame is a buffer of 2048 octets and 255 words at most
    parameter TIMEOUT = 65536
) (
    input  wire        rx_clk,  // clock of the received octets; it may stop
    input  wire        tx_clk,
    input  wire        sys_clk,
    input  wire        sys_rst,
    // Ethernet, frames without FCS; `rx_rst` (rx_clk) and `tx_rst` (tx_clk) are for the MAC: frames under way are lost with
    // the card's reset
    input  wire [ 7:0] s_axis_tdata,
    input  wire        s_axis_tvalid,
    output wire        s_axis_tready,
    input  wire        s_axis_tlast,
    input  wire        s_axis_tuser,
    output wire [ 7:0] m_axis_tdata,
    output wire        m_axis_tvalid,
    input  wire        m_axis_tready,
    output wire        m_axis_tlast,
    output wire        rx_rst,
    output wire        tx_rst,
    input  wire        link,
    // Registers: AXI4-Lite
    input  wire [ 7:0] s_axil_awaddr,
    input  wire        s_axil_awvalid,
    output wire        s_axil_awready,
    input  wire [31:0] s_axil_wdata,
    input  wire [ 3:0] s_axil_wstrb,
    input  wire        s_axil_wvalid,
    output wire        s_axil_wready,
    output wire [ 1:0] s_axil_bresp,
    output wire        s_axil_bvalid,
    input  wire        s_axil_bready,
    input  wire [ 7:0] s_axil_araddr,
    input  wire        s_axil_arvalid,
    output wire        s_axil_arready,
    output wire [31:0] s_axil_rdata,
    output wire [ 1:0] s_axil_rresp,
    output wire        s_axil_rvalid,
    input  wire        s_axil_rready,
    output wire        irq,
    output wire [ 2:0] vectors,  // the same by vector, for MSI-X: a message at each rise
    // Aperture for the other cards: AXI4, write only, whole words in increasing order
    input  wire [ 3:0] s_axi_awid,
    input  wire [31:0] s_axi_awaddr,
    input  wire [ 7:0] s_axi_awlen,
    input  wire        s_axi_awvalid,
    output wire        s_axi_awready,
    input  wire [63:0] s_axi_wdata,
    input  wire        s_axi_wlast,
    input  wire        s_axi_wvalid,
    output wire        s_axi_wready,
    output wire [ 3:0] s_axi_bid,
    output wire [ 1:0] s_axi_bresp,
    output wire        s_axi_bvalid,
    input  wire        s_axi_bready,
    // To host memory and the other cards: AXI4
    output wire [ 3:0] m_axi_awid,
    output wire [31:0] m_axi_awaddr,
    output wire [ 7:0] m_axi_awlen,
    output wire [ 2:0] m_axi_awsize,
    output wire [ 1:0] m_axi_awburst,
    output wire        m_axi_awlock,
    output wire [ 3:0] m_axi_awcache,
    output wire [ 2:0] m_axi_awprot,
    output wire        m_axi_awvalid,
    input  wire        m_axi_awready,
    output wire [63:0] m_axi_wdata,
    output wire [ 7:0] m_axi_wstrb,
    output wire        m_axi_wlast,
    output wire        m_axi_wvalid,
    input  wire        m_axi_wready,
    input  wire [ 3:0] m_axi_bid,
    input  wire [ 1:0] m_axi_bresp,
    input  wire        m_axi_bvalid,
    output wire        m_axi_bready,
    output wire [ 3:0] m_axi_arid,
    output wire [31:0] m_axi_araddr,
    output wire [ 7:0] m_axi_arlen,
    output wire [ 2:0] m_axi_arsize,
    output wire [ 1:0] m_axi_arburst,
    output wire        m_axi_arlock,
    output wire [ 3:0] m_axi_arcache,
    output wire [ 2:0] m_axi_arprot,
    output wire        m_axi_arvalid,
    input  wire        m_axi_arready,
    input  wire [ 3:0] m_axi_rid,
    input  wire [63:0] m_axi_rdata,
    input  wire [ 1:0] m_axi_rresp,
    input  wire        m_axi_rlast,
    input  wire        m_axi_rvalid,
    output wire        m_axi_rready
);
    localparam META_W = ROUTES6 > 0 ? hero_pkg::META6_W : hero_pkg::META_W;
    localparam MTU_WORDS = (MTU + 25) / 8;  // of the longest frame, MTU + 18 octets

    // --- Reset and settings ---
    wire core_rst, rx_half_rst, tx_half_rst, ready, reset, quiesce, wr_quiet, rd_quiet;
    wire [5:0] clear_n;
    hero_reset resets (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .rx_clk(rx_clk), .tx_clk(tx_clk),
        .start(reset), .quiet(wr_quiet && rd_quiet), .quiesce(quiesce),
        .core_rst(core_rst), .rx_rst(rx_rst), .tx_rst(tx_rst), .rx_half_rst(rx_half_rst), .tx_half_rst(tx_half_rst),
        .clear_n(clear_n), .ready(ready)
    );

    wire rx_enable, tx_enable, fast_enable, promiscuous, fast_open;
    wire [47:0] mac;
    wire [1:0] card;
    wire [31:13] cpl_base;
    wire [95:0] peer_base, req_in, rsp_in;
    wire cfg_wr, cfg_commit;
    wire [5:0] cfg_reg;
    wire [31:0] cfg_data, vector;
    wire [8:0] tx_len;
    wire [4:0] cfg_bank;
    wire [2:0] give;
    wire [5:0] free;
    wire [15:0] held;
    wire fwd;
    wire [1:0] fwd_dest;
    wire [5:0] fwd_route;
    wire [7:0] interrupts;
    wire [hero_pkg::COUNTERS-1:0] events;
    wire [2:0] broken;
    wire [7:0] irq_pending, irq_mask;
    wire irq_read;
    hero_regs #(.ROUTES(ROUTES), .ROUTES6(ROUTES6)) regs (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .core_rst(core_rst), .clear_n(clear_n), .ready(ready), .reset(reset),
        .s_axil_awaddr(s_axil_awaddr), .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready),
        .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(s_axil_wstrb), .s_axil_wvalid(s_axil_wvalid),
        .s_axil_wready(s_axil_wready), .s_axil_bresp(s_axil_bresp), .s_axil_bvalid(s_axil_bvalid),
        .s_axil_bready(s_axil_bready), .s_axil_araddr(s_axil_araddr), .s_axil_arvalid(s_axil_arvalid),
        .s_axil_arready(s_axil_arready), .s_axil_rdata(s_axil_rdata), .s_axil_rresp(s_axil_rresp),
        .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready), .irq(irq),
        .irq_pending(irq_pending), .irq_mask(irq_mask), .irq_read(irq_read),
        .rx_enable(rx_enable), .tx_enable(tx_enable), .fast_enable(fast_enable), .promiscuous(promiscuous),
        .mac(mac), .card(card), .cpl_base(cpl_base), .peer_base(peer_base),
        .cfg_wr(cfg_wr), .cfg_reg(cfg_reg), .cfg_data(cfg_data), .cfg_bank(cfg_bank), .cfg_commit(cfg_commit),
        .give(give), .vector(vector), .free(free), .held(held),
        .link(link), .receiving(!rx_half_rst), .fast_open(fast_open), .broken(broken), .tx_len(tx_len), .req_in(req_in), .rsp_in(rsp_in),
        .interrupts(interrupts), .fwd(fwd), .fwd_host(fwd_dest == hero_pkg::DEST_HOST), .fwd_route(fwd_route),
        .events(events)
    );

    hero_vectors by_vector (
        .sys_clk(sys_clk), .core_rst(core_rst), .pending(irq_pending), .mask(irq_mask), .read(irq_read), .vectors(vectors)
    );

    // --- Receive: line to queues ---
    wire in_wr, in_commit, in_abort, meta_valid, meta_pop, in_valid, in_last, in_rd, lost;
    wire [63:0] in_word, in_data;
    wire [META_W-1:0] in_meta, meta;
    hero_rx_input #(.MTU(MTU), .ROUTES6(ROUTES6)) rx_input (
        .clk(rx_clk), .rst(rx_rst),
        .s_axis_tdata(s_axis_tdata), .s_axis_tvalid(s_axis_tvalid), .s_axis_tready(s_axis_tready),
        .s_axis_tlast(s_axis_tlast), .s_axis_tuser(s_axis_tuser),
        .wr_en(in_wr), .wr_data(in_word), .wr_commit(in_commit), .wr_abort(in_abort), .wr_meta(in_meta)
    );
    hero_cdc_fifo #(.CDC_WORDS(CDC_WORDS), .META_W(META_W)) cdc_fifo (
        .rx_clk(rx_clk), .rx_rst(rx_rst),
        .wr_en(in_wr), .wr_data(in_word), .wr_commit(in_commit), .wr_abort(in_abort), .wr_meta(in_meta),
        .sys_clk(sys_clk), .sys_rst(rx_half_rst),
        .rd_meta_valid(meta_valid), .rd_meta(meta), .rd_meta_pop(meta_pop),
        .rd_valid(in_valid), .rd_data(in_data), .rd_last(in_last), .rd_en(in_rd), .lost(lost)
    );

    wire match_start, match_route_ok, match_ip6, match_done, match_prio;
    wire [63:0] match_dst6;
    wire [hero_pkg::KEY_W-1:0] match_key;
    wire [1:0] match_dest;
    wire [5:0] match_route;
    wire [47:0] match_nh_mac;
    hero_match #(.ROUTES(ROUTES), .ROUTES6(ROUTES6)) match (
        .clk(sys_clk), .rst(core_rst),
        .start(match_start), .key(match_key), .route_ok(match_route_ok), .key_ip6(match_ip6), .key_dst6(match_dst6),
        .done(match_done), .dest(match_dest), .route(match_route), .prio(match_prio), .nh_mac(match_nh_mac),
        .cfg_wr(cfg_wr), .cfg_reg(cfg_reg), .cfg_data(cfg_data), .cfg_bank(cfg_bank), .cfg_commit(cfg_commit)
    );

    wire [2:0] enq_queue;
    wire [15:0] enq_len;
    wire enq_room, enq_valid, enq_last, drop;
    wire [63:0] enq_data;
    wire [4:0] drop_reason;
    hero_extract #(.ROUTES6(ROUTES6)) extract (
        .clk(sys_clk), .rst(core_rst),
        .rx_enable(rx_enable), .fast_enable(fast_enable), .promiscuous(promiscuous), .mac(mac),
        .rd_meta_valid(meta_valid), .rd_meta(meta), .rd_meta_pop(meta_pop),
        .rd_valid(in_valid), .rd_data(in_data), .rd_last(in_last), .rd_en(in_rd),
        .match_start(match_start), .match_key(match_key), .match_route_ok(match_route_ok), .match_ip6(match_ip6),
        .match_dst6(match_dst6), .match_done(match_done),
        .match_dest(match_dest), .match_route(match_route), .match_prio(match_prio), .match_nh_mac(match_nh_mac),
        .enq_queue(enq_queue), .enq_len(enq_len), .enq_room(enq_room),
        .enq_valid(enq_valid), .enq_data(enq_data), .enq_last(enq_last),
        .fwd(fwd), .fwd_dest(fwd_dest), .fwd_route(fwd_route), .drop(drop), .drop_reason(drop_reason)
    );

    wire [5:0] f_head;
    wire [6*16-1:0] f_len;
    wire [6*13-1:0] f_words;
    wire f_start, f_valid, f_ready, f_last;
    wire [2:0] f_queue;
    wire [63:0] f_data, h_data;
    wire [1:0] h_head;
    wire [31:0] h_len;
    wire [25:0] h_words;
    wire h_start, h_prio, h_valid, h_ready, h_last;
    hero_voq #(.VOQ_WORDS(VOQ_WORDS)) voq (
        .clk(sys_clk), .rst(core_rst),
        .enq_queue(enq_queue), .enq_len(enq_len), .enq_room(enq_room),
        .enq_valid(enq_valid), .enq_data(enq_data), .enq_last(enq_last),
        .f_head(f_head), .f_len(f_len), .f_words(f_words), .f_start(f_start), .f_queue(f_queue),
        .f_valid(f_valid), .f_ready(f_ready), .f_data(f_data), .f_last(f_last),
        .h_head(h_head), .h_len(h_len), .h_words(h_words), .h_start(h_start), .h_prio(h_prio),
        .h_valid(h_valid), .h_ready(h_ready), .h_data(h_data), .h_last(h_last)
    );

    // --- The bus: write clients 0 hero_fast_src, 1 hero_fast_dst, 2 and 3 hero_slow; read clients hero_slow ---
    wire [3:0] wr_req, wr_gnt, wr_wvalid, wr_wready, wr_done;
    wire [4*32-1:0] wr_addr, rd_addr;
    wire [4*9-1:0] wr_beats, rd_beats;
    wire [4*64-1:0] wr_wdata;
    wire [3:0] rd_req, rd_gnt, rd_rvalid, rd_rready;
    wire [63:0] rd_rdata;
    wire wr_err, wr_failed, rd_rlast, rd_err, rd_failed;
    hero_dma_wr dma_wr (
        .sys_clk(sys_clk), .sys_rst(core_rst), .quiesce(quiesce), .quiet(wr_quiet),
        .req(wr_req), .addr(wr_addr), .beats(wr_beats), .gnt(wr_gnt),
        .wvalid(wr_wvalid), .wready(wr_wready), .wdata(wr_wdata), .done(wr_done), .err(wr_err), .failed(wr_failed),
        .m_axi_awid(m_axi_awid), .m_axi_awaddr(m_axi_awaddr), .m_axi_awlen(m_axi_awlen), .m_axi_awsize(m_axi_awsize),
        .m_axi_awburst(m_axi_awburst), .m_axi_awlock(m_axi_awlock), .m_axi_awcache(m_axi_awcache),
        .m_axi_awprot(m_axi_awprot), .m_axi_awvalid(m_axi_awvalid), .m_axi_awready(m_axi_awready),
        .m_axi_wdata(m_axi_wdata), .m_axi_wstrb(m_axi_wstrb), .m_axi_wlast(m_axi_wlast), .m_axi_wvalid(m_axi_wvalid),
        .m_axi_wready(m_axi_wready), .m_axi_bid(m_axi_bid), .m_axi_bresp(m_axi_bresp), .m_axi_bvalid(m_axi_bvalid),
        .m_axi_bready(m_axi_bready)
    );
    hero_dma_rd dma_rd (
        .sys_clk(sys_clk), .sys_rst(core_rst), .quiesce(quiesce), .quiet(rd_quiet),
        .req(rd_req), .addr(rd_addr), .beats(rd_beats), .gnt(rd_gnt),
        .rvalid(rd_rvalid), .rready(rd_rready), .rdata(rd_rdata), .rlast(rd_rlast), .err(rd_err), .failed(rd_failed),
        .m_axi_arid(m_axi_arid), .m_axi_araddr(m_axi_araddr), .m_axi_arlen(m_axi_arlen), .m_axi_arsize(m_axi_arsize),
        .m_axi_arburst(m_axi_arburst), .m_axi_arlock(m_axi_arlock), .m_axi_arcache(m_axi_arcache),
        .m_axi_arprot(m_axi_arprot), .m_axi_arvalid(m_axi_arvalid), .m_axi_arready(m_axi_arready),
        .m_axi_rid(m_axi_rid), .m_axi_rdata(m_axi_rdata), .m_axi_rresp(m_axi_rresp), .m_axi_rlast(m_axi_rlast),
        .m_axi_rvalid(m_axi_rvalid), .m_axi_rready(m_axi_rready)
    );

    // --- Fast path ---
    wire [2:0] rsp_in_valid, rsp_in_take;
    wire repeated, burst_sent, src_error, no_grant, over_grant, timed_out, malformed, granted, dst_error;
    wire fast_valid, fast_ready, fast_last;
    wire [63:0] fast_data;
    wire [15:0] fast_len;
    hero_fast_src #(.TIMEOUT(TIMEOUT)) fast_src (
        .sys_clk(sys_clk), .sys_rst(core_rst), .card(card), .peer_base(peer_base),
        .f_head(f_head), .f_len(f_len), .f_words(f_words), .f_start(f_start), .f_queue(f_queue),
        .f_valid(f_valid), .f_ready(f_ready), .f_data(f_data), .f_last(f_last),
        .rsp_in_valid(rsp_in_valid), .rsp_in(rsp_in), .rsp_in_take(rsp_in_take),
        .dma_req(wr_req[0]), .dma_addr(wr_addr[31:0]), .dma_beats(wr_beats[8:0]), .dma_gnt(wr_gnt[0]),
        .dma_wvalid(wr_wvalid[0]), .dma_wready(wr_wready[0]), .dma_wdata(wr_wdata[63:0]), .dma_done(wr_done[0]),
        .dma_err(wr_err), .is_open(fast_open), .repeated(repeated), .burst_sent(burst_sent), .bus_error(src_error)
    );
    hero_fast_dst #(.DST_WORDS(DST_WORDS), .MTU_WORDS(MTU_WORDS), .TIMEOUT(TIMEOUT)) fast_dst (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .soft_rst(core_rst), .card(card), .peer_base(peer_base),
        .s_axi_awid(s_axi_awid), .s_axi_awaddr(s_axi_awaddr), .s_axi_awlen(s_axi_awlen),
        .s_axi_awvalid(s_axi_awvalid), .s_axi_awready(s_axi_awready), .s_axi_wdata(s_axi_wdata),
        .s_axi_wlast(s_axi_wlast), .s_axi_wvalid(s_axi_wvalid), .s_axi_wready(s_axi_wready),
        .s_axi_bid(s_axi_bid), .s_axi_bresp(s_axi_bresp), .s_axi_bvalid(s_axi_bvalid), .s_axi_bready(s_axi_bready),
        .dma_req(wr_req[1]), .dma_addr(wr_addr[63:32]), .dma_beats(wr_beats[17:9]), .dma_gnt(wr_gnt[1]),
        .dma_wvalid(wr_wvalid[1]), .dma_wready(wr_wready[1]), .dma_wdata(wr_wdata[127:64]), .dma_done(wr_done[1]),
        .dma_err(wr_err),
        .out_valid(fast_valid), .out_ready(fast_ready), .out_data(fast_data), .out_last(fast_last),
        .out_len(fast_len), .rsp_in_valid(rsp_in_valid), .rsp_in(rsp_in), .rsp_in_take(rsp_in_take), .req_in(req_in),
        .drop_no_grant(no_grant), .drop_over_grant(over_grant), .drop_timeout(timed_out), .drop_malformed(malformed),
        .granted(granted), .bus_error(dst_error)
    );

    // --- Slow path ---
    wire slow_valid, slow_ready, slow_last, refused, bad_length, lost_completion;
    wire [63:0] slow_data;
    wire [15:0] slow_len;
    wire [2:0] completed;
    wire [1:0] used_up, bad_buffer;
    hero_slow #(.SLOW_TX_WORDS(SLOW_TX_WORDS), .MTU(MTU)) slow (
        .sys_clk(sys_clk), .sys_rst(core_rst), .tx_enable(tx_enable), .cpl_base(cpl_base),
        .give(give), .vector(vector), .free(free), .held(held), .tx_len(tx_len),
        .h_head(h_head), .h_len(h_len), .h_start(h_start), .h_prio(h_prio), .h_valid(h_valid), .h_ready(h_ready),
        .h_data(h_data), .h_last(h_last),
        .out_valid(slow_valid), .out_ready(slow_ready), .out_data(slow_data), .out_last(slow_last),
        .out_len(slow_len),
        .wr_req(wr_req[3:2]), .wr_addr(wr_addr[127:64]), .wr_beats(wr_beats[35:18]), .wr_gnt(wr_gnt[3:2]),
        .wr_wvalid(wr_wvalid[3:2]), .wr_wready(wr_wready[3:2]), .wr_wdata(wr_wdata[255:128]),
        .wr_done(wr_done[3:2]), .wr_err(wr_err),
        .rd_req(rd_req), .rd_addr(rd_addr), .rd_beats(rd_beats), .rd_gnt(rd_gnt), .rd_rvalid(rd_rvalid),
        .rd_rready(rd_rready), .rd_rdata(rd_rdata), .rd_rlast(rd_rlast), .rd_err(rd_err),
        .completed(completed), .lost(lost_completion), .used_up(used_up), .refused(refused), .bad_length(bad_length),
        .bad_buffer(bad_buffer), .broken(broken)
    );

    // --- To the line ---
    wire sent;
    hero_out out (
        .sys_clk(sys_clk), .sys_rst(tx_half_rst), .tx_enable(tx_enable), .mac(mac),
        .slow_valid(slow_valid), .slow_ready(slow_ready), .slow_data(slow_data), .slow_last(slow_last),
        .slow_len(slow_len),
        .fast_valid(fast_valid), .fast_ready(fast_ready), .fast_data(fast_data), .fast_last(fast_last),
        .fast_len(fast_len), .sent(sent),
        .tx_clk(tx_clk), .tx_rst(tx_rst),
        .m_axis_tdata(m_axis_tdata), .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready),
        .m_axis_tlast(m_axis_tlast)
    );

    // --- Events: simultaneous causes are all counted ---
    wire bus_error, input_full, received;
    hero_pulses #(.N(4)) bus_errors (
        .clk(sys_clk), .rst(core_rst), .in({wr_failed, rd_failed, bad_buffer}), .out(bus_error)
    );
    hero_pulses #(.N(2)) input_fulls (
        .clk(sys_clk), .rst(core_rst), .in({lost, drop && drop_reason == hero_pkg::COUNT_INPUT_FULL}), .out(input_full)
    );
    hero_pulses #(.N(2)) receiveds (.clk(sys_clk), .rst(core_rst), .in({lost, fwd || drop}), .out(received));

    wire [8:0] drops = {8'd0, drop} << drop_reason;
    assign events = {
        lost_completion, burst_sent, repeated, granted, sent, received, refused, bus_error, bad_length,
        malformed, timed_out, over_grant, no_grant, drops[8:6], input_full, drops[4:0]
    };
    wire fast_fault = no_grant || over_grant || timed_out || malformed;
    assign interrupts = {drop || lost || bad_length, bus_error, fast_fault, used_up[1], used_up[0], completed[2:0]};
    wire unused = &{1'b0, h_words, drops[5], src_error, dst_error};
endmodule

`default_nettype wire
