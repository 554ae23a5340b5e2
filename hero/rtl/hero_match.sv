// Routes and classes: a value matches if it equals the pattern in all bits that are set in the mask. The lowest matching
// route wins. Its destination (the host without a route) selects the class whose match gives high priority. Three routes a
// cycle: `done` comes at most ceil(ROUTES / 3) + 6 cycles after `start`, for IPv6 ROUTES6 + 7.
`default_nettype none

module hero_match #(
    parameter ROUTES = 3,  // to 64
    parameter ROUTES6 = 0  // to 8, and both together to 64; 0: no IPv6
) (
    input  wire                       clk,
    // From hero_reset; during it the rules take their reset values, one bank each cycle
    input  wire                       rst,
    input  wire                       start,
    input  wire [hero_pkg::KEY_W-1:0] key,    // held until `done`
    input  wire                       route_ok,  // held too; 0: to the host, whatever the routes say
    // Held too: whether the key is of IPv6, with the lower half of its destination in the place of both addresses
    input  wire                       key_ip6,
    input  wire [               63:0] key_dst6,  // the upper half
    output reg                        done,
    output reg  [                1:0] dest,
    output reg  [                5:0] route,  // IPv6 has its numbers after all others
    output reg                        prio,
    output reg  [               47:0] nh_mac,
    // Configuration: a word of a rule, by its register number
    input  wire                       cfg_wr,
    input  wire [                5:0] cfg_reg,
    input  wire [               31:0] cfg_data,
    input  wire [                4:0] cfg_bank,
    input  wire                       cfg_commit
);
    localparam BANKS = (ROUTES + 2) / 3;
    localparam BW = BANKS > 1 ? $clog2(BANKS) : 1;

    // In reset, `clear` walks over banks and classes
    reg [4:0] clear;
    always @(posedge clk)
        if (!rst) clear <= 0;
        else clear <= clear + 1'b1;
    initial clear = 0;
    wire [4:0] bank = rst ? clear : cfg_bank;
    wire bank_ok = {27'b0, bank} < BANKS;
    wire [BW-1:0] cfg_row = bank[BW-1:0];

    // Routes of IPv6
    wire ip6, over6, found6;
    wire [1:0] dest6;
    wire [2:0] route6;
    wire [47:0] nh_mac6;
    generate
        if (ROUTES6 > 0) begin : g_ip6
            assign ip6 = key_ip6;
            hero_match6 #(.ROUTES6(ROUTES6)) routes (
                .clk(clk), .rst(rst), .clear(clear), .start(start && ip6), .route_ok(route_ok), .dst({key_dst6, key[79:16]}),
                .over(over6), .found(found6), .dest(dest6), .route(route6), .nh_mac(nh_mac6),
                .cfg_wr(cfg_wr), .cfg_reg(cfg_reg), .cfg_data(cfg_data), .cfg_bank(cfg_bank), .cfg_commit(cfg_commit)
            );
        end else begin : g_no_ip6
            assign {ip6, over6, found6, dest6, route6, nh_mac6} = 56'd0;
            wire unused = &{1'b0, key_ip6, key_dst6};
        end
    endgenerate

    // Search: `row_valid` the cycle after `bank_rd`
    reg scanning, row_valid, row_last;
    reg [BW-1:0] bank_rd;
    reg [5:0] base_rd, base_row;
    wire last_bank = {{32 - BW{1'b0}}, bank_rd} == BANKS - 1;
    wire [31:0] dst = key[79:48];
    wire [2:0] hit;
    wire [3*48-1:0] hit_mac;

    genvar d, w;
    generate
        for (d = 0; d < 3; d = d + 1) begin : column
            reg [BANKS-1:0] off;  // from reset, or the first write, to the commit
            wire [31:0] row_p, row_m;
            wire [47:0] row_mac;
            reg row_off;
            wire wr_p = cfg_wr && cfg_reg == hero_pkg::REG_ROUTE + 2 * d;
            wire wr_m = cfg_wr && cfg_reg == hero_pkg::REG_ROUTE + 2 * d + 1;
            wire wr_low = cfg_wr && cfg_reg == hero_pkg::REG_NEXTHOP_MAC + 2 * d;
            wire wr_high = cfg_wr && cfg_reg == hero_pkg::REG_NEXTHOP_MAC + 2 * d + 1;

            wire wr = bank_ok && (wr_p || wr_m || wr_low || wr_high);
            hero_ram #(.WIDTH(32), .WORDS(BANKS)) p (
                .wr_clk(clk), .wr_en(bank_ok && (rst || wr_p)), .wr_addr(cfg_row), .wr_data(rst ? 32'h0 : cfg_data),
                .rd_clk(clk), .rd_en(1'b1), .rd_addr(bank_rd), .rd_data(row_p)
            );
            hero_ram #(.WIDTH(32), .WORDS(BANKS)) m (
                .wr_clk(clk), .wr_en(bank_ok && (rst || wr_m)), .wr_addr(cfg_row), .wr_data(rst ? 32'hffffffff : cfg_data),
                .rd_clk(clk), .rd_en(1'b1), .rd_addr(bank_rd), .rd_data(row_m)
            );
            hero_ram #(.WIDTH(32), .WORDS(BANKS)) mac_low (
                .wr_clk(clk), .wr_en(bank_ok && (rst || wr_low)), .wr_addr(cfg_row), .wr_data(rst ? 32'h0 : cfg_data),
                .rd_clk(clk), .rd_en(1'b1), .rd_addr(bank_rd), .rd_data(row_mac[31:0])
            );
            hero_ram #(.WIDTH(16), .WORDS(BANKS)) mac_high (
                .wr_clk(clk), .wr_en(bank_ok && (rst || wr_high)), .wr_addr(cfg_row), .wr_data(rst ? 16'h0 : cfg_data[15:0]),
                .rd_clk(clk), .rd_en(1'b1), .rd_addr(bank_rd), .rd_data(row_mac[47:32])
            );

            always @(posedge clk) begin
                if (rst) off <= ~0;
                else if (cfg_commit) off <= 0;
                else if (wr) off[cfg_row] <= 1;
                // A route is read in one cycle, and is off from the cycle of its first write
                row_off <= off[bank_rd] || wr && cfg_row == bank_rd || {26'b0, base_rd} + d >= ROUTES;
            end
            assign hit[d] = ((dst ^ row_p) & row_m) == 0 && !row_off;
            assign hit_mac[48*d+:48] = row_mac;
        end
    endgenerate

    // 0.0.0.0 matches no route, because unused routes have this pattern
    reg dst_valid, searched;
    wire found = row_valid && |hit && dst_valid;
    wire search_end = found || row_valid && row_last;
    always @(posedge clk)
        if (rst) begin
            scanning <= 0;
            row_valid <= 0;
            searched <= 0;
        end else begin
            if (start) scanning <= !ip6;
            else if (last_bank || search_end) scanning <= 0;
            row_valid <= scanning && !search_end;
            searched <= search_end || over6;
        end

    always @(posedge clk) begin
        row_last <= last_bank;
        base_row <= base_rd;
        dst_valid <= route_ok && dst != 0;
        if (start) begin
            bank_rd <= 0;
            base_rd <= 0;
        end else begin
            bank_rd <= last_bank ? bank_rd : bank_rd + 1'b1;
            base_rd <= base_rd + 6'd3;
        end
        if (row_valid) begin
            dest <= !found ? hero_pkg::DEST_HOST : hit[0] ? 2'd0 : hit[1] ? 2'd1 : 2'd2;
            route <= !found ? 6'd0 : hit[0] ? base_row : hit[1] ? base_row + 6'd1 : base_row + 6'd2;
            nh_mac <= hit[0] ? hit_mac[47:0] : hit[1] ? hit_mac[95:48] : hit_mac[143:96];
        end
        if (over6) begin
            dest <= found6 ? dest6 : hero_pkg::DEST_HOST;
            route <= ROUTES[5:0] + {3'd0, route6};
            nh_mac <= nh_mac6;
        end
    end

    // The class of the destination: words 0-2 pattern, 3-5 mask. One that counts a bit of an address is not for IPv6.
    reg [3:0] class_off;
    wire [2*hero_pkg::KEY_W-1:0] class_words;
    wire [3:0] class_wr;
    wire [1:0] class_row = rst ? clear[1:0] : class_wr[3] ? 2'd3 : class_wr[2] ? 2'd2 : class_wr[1] ? 2'd1 : 2'd0;
    generate
        for (d = 0; d < 4; d = d + 1) begin : class_of
            assign class_wr[d] = cfg_wr && cfg_reg >= hero_pkg::REG_CLASS + 6 * d && cfg_reg < hero_pkg::REG_CLASS + 6 * d + 6;
        end
        for (w = 0; w < 6; w = w + 1) begin : class_word
            localparam W = w % 3 == 2 ? 16 : 32;
            localparam OFFSET = 80 * (w / 3) + (w % 3 == 0 ? 48 : w % 3 == 1 ? 16 : 0);
            reg [W-1:0] words[0:3];
            wire wr = cfg_wr && (cfg_reg == hero_pkg::REG_CLASS + w || cfg_reg == hero_pkg::REG_CLASS + 6 + w ||
                                 cfg_reg == hero_pkg::REG_CLASS + 12 + w || cfg_reg == hero_pkg::REG_CLASS + 18 + w);
            always @(posedge clk) if (rst || wr) words[class_row] <= !rst ? cfg_data[W-1:0] : {W{w >= 3}};
            assign class_words[OFFSET+:W] = words[dest];
        end
    endgenerate

    reg [79:0] class_p, class_m;
    reg class_off_read, class_read, class_compared;
    reg [5:0] differs;
    integer i;
    always @(posedge clk) begin
        if (rst) class_off <= ~0;
        else if (cfg_commit) class_off <= 0;
        else class_off <= class_off | class_wr;
        {class_m, class_p} <= class_words;
        class_off_read <= class_off[dest];
        for (i = 0; i < 5; i = i + 1) differs[i] <= |((ip6 && i > 0 ? 16'hffff : key[16*i+:16] ^ class_p[16*i+:16]) & class_m[16*i+:16]);
        differs[5] <= class_off_read;
        if (class_compared) prio <= differs == 0;
        class_read <= searched && !rst;
        class_compared <= class_read && !rst;
        done <= class_compared && !rst;
    end
`ifdef FORMAL
    // Assumes a reset of the minimum length, and writes only between searches (the bench tests writes during them)
    reg [3:0] resets = 0;
    always @(posedge clk) if (resets != 4'd15) resets <= resets + 1'b1;
    always @* assume (rst == (resets < (BANKS > 4 ? BANKS : 4)));
    reg searching = 0;
    reg [7:0] since = 0;
    always @(posedge clk) begin
        searching <= !rst && (start || searching && !done);
        since <= start ? 8'd1 : since + 8'd1;
    end
    always @* begin
        if (searching || rst) assume (!start);
        if (searching || start) assume (!cfg_wr && !cfg_commit);
        if (cfg_wr) assume (!cfg_commit);
    end
    always @(posedge clk) if (searching) assume ($stable(key) && $stable(route_ok) && $stable(ip6) && $stable(key_dst6));

    // An arbitrary route and class, chosen by the solver, as the host has written them
    (* anyconst *) reg [4:0] its_bank;
    (* anyconst *) reg [1:0] its_dest, its_class;
    wire [5:0] its_number = its_bank * 6'd3 + {4'd0, its_dest};
    always @* assume (its_dest != 2'd3 && {26'd0, its_number} < ROUTES && {27'd0, its_bank} < BANKS);
    reg [31:0] its_p, its_m;
    reg [47:0] its_mac;
    reg [79:0] its_class_p, its_class_m;
    reg its_on = 0, its_class_on = 0;
    wire to_it = cfg_wr && cfg_bank == its_bank;
    wire [5:0] class_at = cfg_reg - hero_pkg::REG_CLASS - 6'd6 * its_class;
    wire to_class = cfg_wr && cfg_reg >= hero_pkg::REG_CLASS && class_at < 6'd6;
    wire to_p = to_it && cfg_reg == hero_pkg::REG_ROUTE + 2 * its_dest;
    wire to_m = to_it && cfg_reg == hero_pkg::REG_ROUTE + 2 * its_dest + 1;
    wire to_low = to_it && cfg_reg == hero_pkg::REG_NEXTHOP_MAC + 2 * its_dest;
    wire to_high = to_it && cfg_reg == hero_pkg::REG_NEXTHOP_MAC + 2 * its_dest + 1;
    always @(posedge clk) begin
        if (to_p) its_p <= cfg_data;
        if (to_m) its_m <= cfg_data;
        if (to_low) its_mac[31:0] <= cfg_data;
        if (to_high) its_mac[47:32] <= cfg_data[15:0];
        if (cfg_commit) its_on <= 1;
        if (to_p || to_m || to_low || to_high) its_on <= 0;
        if (to_class)
            case (class_at[2:0])
                0: its_class_p[79:48] <= cfg_data;
                1: its_class_p[47:16] <= cfg_data;
                2: its_class_p[15:0] <= cfg_data[15:0];
                3: its_class_m[79:48] <= cfg_data;
                4: its_class_m[47:16] <= cfg_data;
                default: its_class_m[15:0] <= cfg_data[15:0];
            endcase
        if (cfg_commit) its_class_on <= 1;
        if (to_class) its_class_on <= 0;
        if (rst) begin
            {its_p, its_m, its_mac, its_on} <= {32'd0, 32'hffffffff, 48'd0, 1'b0};
            {its_class_p, its_class_m, its_class_on} <= {80'd0, {80{1'b1}}, 1'b0};
        end
    end
    wire its_match = its_on && !ip6 && ((dst ^ its_p) & its_m) == 0;
    wire its_class_match = its_class_on && (((ip6 ? {~its_class_p[79:16], key[15:0]} : key) ^ its_class_p) & its_class_m) == 0;

    always @(posedge clk) begin
        if (searching) in_time: assert (since <= (ip6 ? ROUTES6 + 7 : BANKS + 6));
        if (done && !rst) begin
            asked_for: assert (searching);
            if (!route_ok || dst == 0 && !ip6) to_the_host: assert (dest == hero_pkg::DEST_HOST);
            if (dest != hero_pkg::DEST_HOST && route == its_number) route_matches: assert (its_match && dest == its_dest && nh_mac == its_mac);
            if (its_match && route_ok && dst != 0) lowest_wins: assert (dest != hero_pkg::DEST_HOST && route <= its_number);
            if (ip6 && dest != hero_pkg::DEST_HOST) routes_of_its_own: assert (route >= ROUTES && route < ROUTES + ROUTES6);
            if (dest == its_class) class_gives_priority: assert (prio == its_class_match);
        end
        c_last_route: cover (done && !rst && route == ROUTES - 1 && dest != hero_pkg::DEST_HOST);
        c_high_priority: cover (done && !rst && prio && dest != hero_pkg::DEST_HOST);
        c_host: cover (done && !rst && dest == hero_pkg::DEST_HOST && route_ok);
    end
`endif
endmodule

`default_nettype wire
