// Counters of the registers: frames by route, and one for each drop reason or other event. They wrap at 2^32.
`default_nettype none

module hero_counters (
    input  wire        sys_clk,
    input  wire        sys_rst,      // at least 64 cycles, while clear_n walks
    input  wire [ 5:0] clear_n,
    // A frame enqueued: at most one in three cycles
    input  wire        fwd,
    input  wire        fwd_host,
    input  wire [ 5:0] fwd_route,
    // Pulses, numbered as DROP_CNT
    input  wire [hero_pkg::COUNTERS-1:0] events,
    // Reading: the value comes two or three cycles after the choice; a frame that comes meanwhile may be counted or not
    input  wire [ 5:0] route,
    input  wire        route_known,  // 0: the card has no such route, so 0 is read
    output reg  [31:0] route_count,
    output reg  [31:0] host_count,
    input  wire [ 4:0] choice,
    output reg  [31:0] event_count
);
    reg add, store;
    reg [5:0] add_route, store_route;
    reg [31:0] store_value;
    reg known;
    wire [31:0] add_value, route_value;
    wire write = sys_rst || store;
    wire [5:0] write_route = sys_rst ? clear_n : store_route;
    wire [31:0] write_value = sys_rst ? 32'd0 : store_value;
    hero_ram #(.WIDTH(32), .WORDS(64)) to_add (
        .wr_clk(sys_clk), .wr_en(write), .wr_addr(write_route), .wr_data(write_value),
        .rd_clk(sys_clk), .rd_en(1'b1), .rd_addr(fwd_route), .rd_data(add_value)
    );
    // A read that would coincide with a write of its word returns the previous cycle's value: at most every second cycle has
    // a write
    hero_ram #(.WIDTH(32), .WORDS(64)) to_show (
        .wr_clk(sys_clk), .wr_en(write), .wr_addr(write_route), .wr_data(write_value),
        .rd_clk(sys_clk), .rd_en(!(write && write_route == route)), .rd_addr(route), .rd_data(route_value)
    );
    always @(posedge sys_clk) begin
        add <= fwd && !fwd_host;
        add_route <= fwd_route;
        store <= add;
        store_route <= add_route;
        store_value <= add_value + 32'd1;
        known <= route_known;
        route_count <= known ? route_value : 32'd0;
        host_count <= sys_rst ? 32'd0 : host_count + {31'd0, fwd && fwd_host};
    end

    reg [hero_pkg::COUNTERS-1:0] now;
    reg [hero_pkg::COUNTERS*32-1:0] counts;
    reg [31:0] chosen;
    integer i;
    always @(posedge sys_clk) begin
        now <= events;
        for (i = 0; i < hero_pkg::COUNTERS; i = i + 1)
            if (sys_rst) counts[i*32+:32] <= 32'd0;
            else if (now[i]) counts[i*32+:32] <= counts[i*32+:32] + 32'd1;
        chosen <= {27'd0, choice} < hero_pkg::COUNTERS ? counts[choice*32+:32] : 32'd0;
        event_count <= chosen;
    end
endmodule

`default_nettype wire
