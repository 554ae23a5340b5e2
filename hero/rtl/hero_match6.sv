// Routes of IPv6: prefixes, looked at one each cycle from `start` on; the lowest that matches wins.
`default_nettype none

module hero_match6 #(
    parameter ROUTES6 = 4  // 1 to 8
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [  4:0] clear,       // walks over all routes during `rst`
    input  wire         start,
    input  wire         route_ok,    // held until `over`; 0: no route matches
    input  wire [127:0] dst,         // held too
    // The end of a search, at most ROUTES6 + 2 cycles after `start`; the rest belongs to this cycle
    output wire         over,
    output wire         found,
    output reg  [  1:0] dest,
    output reg  [  2:0] route,
    output reg  [ 47:0] nh_mac,
    // Configuration: a word of a rule, by its register number
    input  wire         cfg_wr,
    input  wire [  5:0] cfg_reg,
    input  wire [ 31:0] cfg_data,
    input  wire [  4:0] cfg_bank,
    input  wire         cfg_commit
);
    localparam [2:0] LAST = ROUTES6[2:0] - 3'd1;

    wire [4:0] number = rst ? clear : cfg_bank - hero_pkg::ROUTE6_BANK;
    wire [2:0] cfg_row = number[2:0];
    wire row_ok = number <= {2'b0, LAST};
    wire [3:0] wr_address;
    wire wr_rule = cfg_wr && cfg_reg == hero_pkg::REG_ROUTE6_RULE;
    wire wr_low = cfg_wr && cfg_reg == hero_pkg::REG_ROUTE6_MAC;
    wire wr_high = cfg_wr && cfg_reg == hero_pkg::REG_ROUTE6_MAC + 6'd1;
    wire wr = row_ok && (|wr_address || wr_rule || wr_low || wr_high);

    // First stage: a route is read
    reg scanning;
    reg [2:0] row_rd;
    reg row_valid, row_last, row_off;
    reg [2:0] row_number;
    wire [127:0] row_address;
    wire [9:0] row_rule;
    wire [47:0] row_mac;

    genvar w;
    generate
        for (w = 0; w < 4; w = w + 1) begin : word
            assign wr_address[w] = cfg_wr && cfg_reg == hero_pkg::REG_ROUTE6_ADDRESS + w;
            hero_ram #(.WIDTH(32), .WORDS(8)) address (
                .wr_clk(clk), .wr_en(row_ok && (rst || wr_address[w])), .wr_addr(cfg_row), .wr_data(rst ? 32'd0 : cfg_data),
                .rd_clk(clk), .rd_en(1'b1), .rd_addr(row_rd), .rd_data(row_address[96-32*w+:32])
            );
        end
    endgenerate
    // A route that nobody wrote has the prefix ::/128, and such a destination is special: it comes without `route_ok`
    hero_ram #(.WIDTH(10), .WORDS(8)) rule (
        .wr_clk(clk), .wr_en(row_ok && (rst || wr_rule)), .wr_addr(cfg_row), .wr_data(rst ? 10'd128 : cfg_data[9:0]),
        .rd_clk(clk), .rd_en(1'b1), .rd_addr(row_rd), .rd_data(row_rule)
    );
    hero_ram #(.WIDTH(32), .WORDS(8)) mac_low (
        .wr_clk(clk), .wr_en(row_ok && (rst || wr_low)), .wr_addr(cfg_row), .wr_data(rst ? 32'd0 : cfg_data),
        .rd_clk(clk), .rd_en(1'b1), .rd_addr(row_rd), .rd_data(row_mac[31:0])
    );
    hero_ram #(.WIDTH(16), .WORDS(8)) mac_high (
        .wr_clk(clk), .wr_en(row_ok && (rst || wr_high)), .wr_addr(cfg_row), .wr_data(rst ? 16'd0 : cfg_data[15:0]),
        .rd_clk(clk), .rd_en(1'b1), .rd_addr(row_rd), .rd_data(row_mac[47:32])
    );

    reg [7:0] off;  // from reset, or the first write, to the commit
    always @(posedge clk) begin
        if (rst) off <= ~8'd0;
        else if (cfg_commit) off <= 8'd0;
        else if (wr) off[cfg_row] <= 1'b1;
        // A route is read in one cycle, and is off from the cycle of its first write
        row_off <= off[row_rd] || wr && cfg_row == row_rd;
    end

    // Second stage: each octet is compared
    function [7:0] counted;  // the bits of an octet that a prefix counts
        input [4:0] octet;
        input [7:0] length;
        counted = length[7:3] > octet ? 8'hff : length[7:3] == octet ? ~(8'hff >> length[2:0]) : 8'h00;
    endfunction

    reg valid, last;
    reg [16:0] differs;
    integer i;
    always @(posedge clk) begin
        for (i = 0; i < 16; i = i + 1)
            differs[i] <= |((dst[120-8*i+:8] ^ row_address[120-8*i+:8]) & counted(i[4:0], row_rule[7:0]));
        differs[16] <= row_off || !route_ok;
        dest <= row_rule[9:8];
        route <= row_number;
        nh_mac <= row_mac;
    end
    assign found = differs == 0;
    assign over = valid && (found || last);

    always @(posedge clk) begin
        row_number <= row_rd;
        row_last <= row_rd == LAST;
        last <= row_last;
        if (start) row_rd <= 3'd0;
        else if (row_rd != LAST) row_rd <= row_rd + 3'd1;
        if (rst) begin
            scanning <= 1'b0;
            row_valid <= 1'b0;
            valid <= 1'b0;
        end else begin
            scanning <= start || scanning && row_rd != LAST && !over;
            row_valid <= scanning && !over;
            valid <= row_valid && !over;
        end
    end

`ifdef FORMAL
    // Assumes a reset in which `clear` walks over all routes, and writes only between searches (the bench tests writes during
    // them)
    reg [3:0] resets = 0;
    always @(posedge clk) if (resets != 4'd15) resets <= resets + 1'b1;
    always @* assume (rst == (resets < ROUTES6) && (!rst || clear == {1'b0, resets}));
    reg searching = 0;
    reg [3:0] since = 0;
    always @(posedge clk) begin
        searching <= !rst && (start || searching && !over);
        since <= start ? 4'd1 : since + 4'd1;
    end
    always @* begin
        if (searching || rst) assume (!start);
        if (searching || start) assume (!cfg_wr && !cfg_commit);
        if (cfg_wr) assume (!cfg_commit);
    end
    always @(posedge clk) if (searching) assume ($stable(dst) && $stable(route_ok));

    // An arbitrary route, chosen by the solver, as the host has written it
    (* anyconst *) reg [2:0] its_number;
    always @* assume (its_number <= LAST);
    reg [127:0] its_address;
    reg [9:0] its_rule;
    reg [47:0] its_mac;
    reg its_on = 0;
    wire to_it = cfg_wr && cfg_bank == hero_pkg::ROUTE6_BANK + {2'd0, its_number};
    always @(posedge clk) begin
        if (cfg_commit) its_on <= 1;
        if (to_it)
            case (cfg_reg)
                14: {its_on, its_address[127:96]} <= {1'b0, cfg_data};
                15: {its_on, its_address[95:64]} <= {1'b0, cfg_data};
                16: {its_on, its_address[63:32]} <= {1'b0, cfg_data};
                17: {its_on, its_address[31:0]} <= {1'b0, cfg_data};
                18: {its_on, its_rule} <= {1'b0, cfg_data[9:0]};
                44: {its_on, its_mac[31:0]} <= {1'b0, cfg_data};
                45: {its_on, its_mac[47:32]} <= {1'b0, cfg_data[15:0]};
                default: ;
            endcase
        if (rst) {its_address, its_rule, its_mac, its_on} <= {128'd0, 10'd128, 48'd0, 1'b0};
    end
    // A prefix is what its octets count; of any length (the solver is slow at shifting, so it does that alone)
    function [127:0] prefix;
        input [7:0] length;
        integer n;
        for (n = 0; n < 16; n = n + 1) prefix[120-8*n+:8] = counted(n[4:0], length);
    endfunction
    (* anyconst *) reg [7:0] length;
    always @* prefix_is_counted: assert (prefix(length) == (length >= 128 ? ~128'd0 : ~(~128'd0 >> length[6:0])));
    wire its_match = its_on && route_ok && ((dst ^ its_address) & prefix(its_rule[7:0])) == 0;

    always @(posedge clk) begin
        if (searching) in_time: assert (since <= ROUTES6 + 2);
        if (over && !rst) begin
            asked_for: assert (searching);
            if (!route_ok) to_the_host: assert (!found);
            if (found && route == its_number) route_matches: assert (its_match && dest == its_rule[9:8] && nh_mac == its_mac);
            if (its_match) lowest_wins: assert (found && route <= its_number);
        end
        c_last_route: cover (over && !rst && found && route == LAST && its_rule[7:0] == 61 && its_number == LAST);
        c_none: cover (over && !rst && !found && route_ok);
    end
`endif
endmodule

`default_nettype wire
