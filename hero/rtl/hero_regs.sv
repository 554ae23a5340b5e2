// The 64 registers of a card on AXI4-Lite, its interrupt line and its counters.
//
// Whole words only: a write with other strobes answers SLVERR and has no effect. Writes to read-only registers, and all
// writes during the card's reset, have no effect either.
`default_nettype none

module hero_regs #(
    parameter ROUTES = 3,
    parameter ROUTES6 = 0
) (
    input  wire         sys_clk,
    input  wire         sys_rst,       // the hardware's: the bus side
    input  wire         core_rst,      // the card's: all registers
    input  wire [  5:0] clear_n,       // of hero_reset
    input  wire         ready,
    output reg          reset,         // pulse
    input  wire [  7:0] s_axil_awaddr,
    input  wire         s_axil_awvalid,
    output wire         s_axil_awready,
    input  wire [ 31:0] s_axil_wdata,
    input  wire [  3:0] s_axil_wstrb,
    input  wire         s_axil_wvalid,
    output wire         s_axil_wready,
    output reg  [  1:0] s_axil_bresp,
    output reg          s_axil_bvalid,
    input  wire         s_axil_bready,
    input  wire [  7:0] s_axil_araddr,
    input  wire         s_axil_arvalid,
    output wire         s_axil_arready,
    output reg  [ 31:0] s_axil_rdata,
    output wire [  1:0] s_axil_rresp,
    output reg          s_axil_rvalid,
    input  wire         s_axil_rready,
    output reg          irq,
    // What hero_vectors makes messages of
    output wire [  7:0] irq_pending,   // IRQ_UNMASKED
    output wire [  7:0] irq_mask,
    output wire         irq_read,      // pulse: IRQ_MASKED is read
    // Settings
    output reg          rx_enable,
    output reg          tx_enable,
    output reg          fast_enable,
    output reg          promiscuous,
    output reg  [ 47:0] mac,           // octet 0 in 7:0
    output reg  [  1:0] card,
    output reg  [31:13] cpl_base,
    output reg  [ 95:0] peer_base,
    // Rules, to hero_match
    output reg          cfg_wr,
    output reg  [  5:0] cfg_reg,
    output reg  [ 31:0] cfg_data,
    output wire [  4:0] cfg_bank,
    output reg          cfg_commit,
    // Descriptor vectors: bit, or field, 0 RXLO, 1 RXHI, 2 TX
    output reg  [  2:0] give,
    output wire [ 31:0] vector,
    input  wire [  5:0] free,
    input  wire [ 15:0] held,
    // State to read
    input  wire         link,          // of another clock
    input  wire         receiving,     // the receiver is out of its reset
    input  wire         fast_open,
    input  wire [  2:0] broken,        // rings with a lost completion
    input  wire [  8:0] tx_len,
    input  wire [ 95:0] req_in,
    input  wire [ 95:0] rsp_in,
    // Events
    input  wire [  7:0] interrupts,    // pulses, numbered as IRQ_UNMASKED
    input  wire         fwd,
    input  wire         fwd_host,
    input  wire [  5:0] fwd_route,
    input  wire [hero_pkg::COUNTERS-1:0] events  // pulses, numbered as DROP_CNT
);
    // --- Writing: a register holds each channel; the write is done when both are full and the answer has room ---
    reg aw_held, w_held, whole;
    reg [5:0] aw_n;
    reg [31:0] w_data;
    assign s_axil_awready = !aw_held;
    assign s_axil_wready = !w_held;
    wire write = aw_held && w_held && !s_axil_bvalid;
    reg wr;
    reg [5:0] wr_n;
    reg [31:0] wr_data;
    wire rule = wr_n >= hero_pkg::REG_ROUTE && wr_n < hero_pkg::REG_PEER_BASE;
    reg [4:0] bank;
    assign vector = cfg_data;
    assign cfg_bank = bank;

    always @(posedge sys_clk) begin
        wr <= write && whole && ready && !sys_rst;
        wr_n <= aw_n;
        wr_data <= w_data;
        if (s_axil_awready) aw_n <= s_axil_awaddr[7:2];
        if (s_axil_wready) w_data <= s_axil_wdata;
        if (s_axil_wready) whole <= &s_axil_wstrb;
        aw_held <= !sys_rst && !write && (aw_held || s_axil_awvalid);
        w_held <= !sys_rst && !write && (w_held || s_axil_wvalid);
        if (write) s_axil_bresp <= whole ? 2'b00 : 2'b10;
        if (sys_rst) s_axil_bvalid <= 1'b0;
        else if (write) s_axil_bvalid <= 1'b1;
        else if (s_axil_bready) s_axil_bvalid <= 1'b0;
    end

    always @(posedge sys_clk) begin
        cfg_data <= wr_data;
        cfg_reg <= wr_n;
        cfg_wr <= wr && rule;
        cfg_commit <= wr && wr_n == hero_pkg::REG_CMD && wr_data[5];
        reset <= wr && wr_n == hero_pkg::REG_CMD && wr_data[0];
        give <= {3{wr}} & {wr_n == hero_pkg::REG_TX_DESC, wr_n == hero_pkg::REG_RXHI_DESC, wr_n == hero_pkg::REG_RXLO_DESC};
        if (core_rst) begin
            {cfg_wr, cfg_commit, reset, give} <= 6'd0;
            bank <= 5'd0;
            {promiscuous, fast_enable, tx_enable, rx_enable} <= 4'd0;
            mac <= 48'd0;
            card <= 2'd0;
            cpl_base <= 19'd0;
            peer_base <= 96'd0;
        end else if (wr)
            case (wr_n)
                hero_pkg::REG_CMD: begin
                    bank <= wr_data[12:8];
                    {promiscuous, fast_enable, tx_enable, rx_enable} <= wr_data[4:1];
                end
                hero_pkg::REG_MAC_LOW: mac[31:0] <= wr_data;
                hero_pkg::REG_MAC_HIGH: {card, mac[47:32]} <= wr_data[17:0];
                hero_pkg::REG_CPL_BASE: cpl_base <= wr_data[31:13];
                hero_pkg::REG_PEER_BASE: peer_base[31:0] <= wr_data;
                hero_pkg::REG_PEER_BASE + 6'd1: peer_base[63:32] <= wr_data;
                hero_pkg::REG_PEER_BASE + 6'd2: peer_base[95:64] <= wr_data;
                default: ;
            endcase
    end

    // --- The values last written, for reading: a memory, cleared with the card ---
    wire [5:0] store_n = core_rst ? clear_n : wr_n;
    wire [31:0] has = hero_pkg::REG_BITS[32*store_n+:32];
    // A register is read in several cycles; the last one without a write of it counts.
    wire store = core_rst || wr;
    wire [31:0] word;
    hero_ram #(.WIDTH(32), .WORDS(64)) written (
        .wr_clk(sys_clk), .wr_en(store), .wr_addr(store_n), .wr_data(has & (core_rst ? {32{hero_pkg::REG_ONES[clear_n]}} : wr_data)),
        .rd_clk(sys_clk), .rd_en(!(store && store_n == n)), .rd_addr(n), .rd_data(word)
    );

    // --- Interrupts: reading IRQ_MASKED clears the bits it returns; an event in the same cycle is kept ---
    reg [7:0] unmasked, mask, raised;
    wire [7:0] masked = unmasked & mask;
    wire read_masked;
    assign irq_pending = unmasked;
    assign irq_mask = mask;
    assign irq_read = read_masked;
    always @(posedge sys_clk) begin
        raised <= interrupts;
        unmasked <= (unmasked & ~(read_masked ? masked : 8'd0)) | raised;
        if (wr && wr_n == hero_pkg::REG_IRQ_MASK) mask <= wr_data[7:0];
        irq <= |masked && !read_masked;
        if (core_rst) begin
            raised <= 8'd0;
            unmasked <= 8'd0;
            mask <= 8'd0;
            irq <= 1'b0;
        end
    end

    // --- Counters ---
    reg [5:0] n;  // being read
    reg [5:0] route;
    reg route_known;
    wire [1:0] column = n[1:0] - hero_pkg::REG_FWD_CNT[1:0];
    wire [6:0] number = {2'd0, bank} + {1'b0, bank, 1'b0} + {5'd0, column};
    wire of_ip6 = ROUTES6 > 0 && bank >= hero_pkg::ROUTE6_BANK;
    reg [4:0] choice;
    wire [31:0] route_count, host_count, event_count;
    always @(posedge sys_clk) begin
        route <= of_ip6 ? ROUTES[5:0] + {3'd0, bank[2:0]} : number[5:0];
        route_known <= of_ip6 ? column == 2'd0 && {1'b0, bank[2:0]} < ROUTES6[3:0] : number < ROUTES[6:0];
        if (core_rst) choice <= 5'd0;
        else if (wr && wr_n == hero_pkg::REG_DROP_CNT) choice <= wr_data[4:0];
    end
    hero_counters counters (
        .sys_clk(sys_clk), .sys_rst(core_rst), .clear_n(clear_n),
        .fwd(fwd), .fwd_host(fwd_host), .fwd_route(fwd_route), .events(events),
        .route(route), .route_known(route_known), .route_count(route_count), .host_count(host_count),
        .choice(choice), .event_count(event_count)
    );

    // --- Reading, four cycles: memories and counters, then the choice ---
    reg [4:0] reading;  // one bit a cycle
    assign s_axil_arready = reading == 5'd0 && !s_axil_rvalid;
    assign s_axil_rresp = 2'b00;
    assign read_masked = reading[4] && n == hero_pkg::REG_IRQ_MASKED;
    wire [1:0] slot = n == hero_pkg::REG_REQ_IN || n == hero_pkg::REG_RSP_IN ? 2'd0
        : n == hero_pkg::REG_REQ_IN + 6'd1 || n == hero_pkg::REG_RSP_IN + 6'd1 ? 2'd1 : 2'd2;
    reg [31:0] message;
    (* keep, async_reg = "true" *) reg link_meta, link_sync;

    always @(posedge sys_clk) begin
        {link_sync, link_meta} <= {link_meta, link};
        message <= n < hero_pkg::REG_RSP_IN ? req_in[slot*32+:32] : rsp_in[slot*32+:32];
        reading <= {reading[3:0], s_axil_arvalid && s_axil_arready};
        if (s_axil_arready) n <= s_axil_araddr[7:2];
        if (s_axil_rready) s_axil_rvalid <= 1'b0;
        if (reading[4]) s_axil_rvalid <= 1'b1;
        if (sys_rst) begin
            reading <= 5'd0;
            s_axil_rvalid <= 1'b0;
        end
    end

    always @(posedge sys_clk)
        if (reading[4])
            case (n)
                hero_pkg::REG_ID: s_axil_rdata <= hero_pkg::ID_VALUE;
                hero_pkg::REG_CMD: s_axil_rdata <= {19'd0, bank, 3'd0, promiscuous, fast_enable, tx_enable, rx_enable, !ready};
                hero_pkg::REG_STATUS:
                s_axil_rdata <= {hero_pkg::VERSION, ROUTES[7:0], 1'b0, broken, receiving, fast_open, link_sync, ready};
                hero_pkg::REG_IRQ_UNMASKED: s_axil_rdata <= {24'd0, unmasked};
                hero_pkg::REG_IRQ_MASKED: s_axil_rdata <= {24'd0, masked};
                hero_pkg::REG_RXLO_DESC, hero_pkg::REG_RXHI_DESC, hero_pkg::REG_TX_DESC: s_axil_rdata <= 32'd0;
                hero_pkg::REG_TX_LEN: s_axil_rdata <= {23'd0, tx_len};
                hero_pkg::REG_LEVELS: s_axil_rdata <= {held, ROUTES6[3:0], 2'd0, free[5:4], 2'd0, free[3:2], 2'd0, free[1:0]};
                hero_pkg::REG_REQ_IN, hero_pkg::REG_REQ_IN + 6'd1, hero_pkg::REG_REQ_IN + 6'd2,
                hero_pkg::REG_RSP_IN, hero_pkg::REG_RSP_IN + 6'd1, hero_pkg::REG_RSP_IN + 6'd2: s_axil_rdata <= message;
                hero_pkg::REG_FWD_CNT, hero_pkg::REG_FWD_CNT + 6'd1, hero_pkg::REG_FWD_CNT + 6'd2: s_axil_rdata <= route_count;
                hero_pkg::REG_FWD_HOST: s_axil_rdata <= host_count;
                hero_pkg::REG_DROP_CNT: s_axil_rdata <= event_count;
                default: s_axil_rdata <= word;
            endcase
    wire unused = &{1'b0, s_axil_awaddr[1:0], s_axil_araddr[1:0]};

`ifdef FORMAL
    reg past = 0;  // the last cycle was none of reset
    always @(posedge sys_clk) past <= !sys_rst;
    initial assume (sys_rst);
    always @* if (sys_rst) assume (core_rst);
    wire running = past && !sys_rst;

    // Requests and responses hold their signals while they wait (P9); one response for each request
    reg reads = 0;  // reads under way
    reg [1:0] addresses = 0, words = 0;  // of writes, taken and not answered
    wire answered = s_axil_bvalid && s_axil_bready;
    always @(posedge sys_clk) begin
        addresses <= sys_rst ? 2'd0 : addresses + {1'b0, s_axil_awvalid && s_axil_awready} - {1'b0, answered};
        words <= sys_rst ? 2'd0 : words + {1'b0, s_axil_wvalid && s_axil_wready} - {1'b0, answered};
        reads <= !sys_rst && (s_axil_arvalid && s_axil_arready || reads && !(s_axil_rvalid && s_axil_rready));
        if (running) begin
            if ($past(s_axil_bvalid && !s_axil_bready)) p9_write_response: assert (s_axil_bvalid && $stable(s_axil_bresp));
            if ($past(s_axil_rvalid && !s_axil_rready)) p9_read_response: assert (s_axil_rvalid && $stable(s_axil_rdata));
            address_answered: assert (addresses == {1'b0, aw_held} + {1'b0, s_axil_bvalid});
            data_answered: assert (words == {1'b0, w_held} + {1'b0, s_axil_bvalid});
            one_read_at_a_time: assert ((reading & (reading - 5'd1)) == 5'd0);
            one_answer_a_read: assert (reads == (reading != 5'd0 || s_axil_rvalid) && !(reading != 5'd0 && s_axil_rvalid));
        end
    end

    // No event is lost: it stays in IRQ_UNMASKED until a read of IRQ_MASKED shows it
    wire [7:0] shown = s_axil_rvalid ? s_axil_rdata[7:0] : 8'd0;
    always @(posedge sys_clk)
        if (past && !$past(core_rst) && !core_rst) begin
            event_is_kept: assert (($past(raised) & ~unmasked) == 8'd0);
            event_goes_when_shown: assert (($past(unmasked) & ~unmasked & ~shown) == 8'd0);
            if ($past(unmasked) != unmasked && $past(raised) == 8'd0) event_goes_when_read: assert ($past(n) == hero_pkg::REG_IRQ_MASKED);
        end

    always @(posedge sys_clk)
        if (running && !core_rst) begin
            c_two_writes: cover (answered && aw_held && w_held);
            c_shown: cover (s_axil_rvalid && n == hero_pkg::REG_IRQ_MASKED && s_axil_rdata[1:0] == 2'b10 && unmasked == 8'd1);
        end
`endif
endmodule

`default_nettype wire
