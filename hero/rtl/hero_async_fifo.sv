// A FIFO between two clocks. Both sides are reset together. (Gray pointers: Cummings, SNUG 2002)
`default_nettype none

module hero_async_fifo #(
    parameter WIDTH = 64,
    parameter DEPTH = 16  // power of two
) (
    input  wire             wr_clk,
    input  wire             wr_rst,
    input  wire             wr_en,  // only while not `wr_full`
    input  wire [WIDTH-1:0] wr_data,
    output wire             wr_full,
    input  wire             rd_clk,
    input  wire             rd_rst,
    output reg              rd_valid,
    output wire [WIDTH-1:0] rd_data,
    input  wire             rd_en
);
    localparam AW = $clog2(DEPTH);

    reg [AW:0] wr_ptr;
    wire [AW:0] rd_ptr_wr;  // the reader's pointer at the writer, the writer's at the reader
    wire [AW:0] wr_ptr_rd;
    reg [AW:0] rd_ptr;
    wire move = !rd_valid || rd_en;
    wire empty = rd_ptr == wr_ptr_rd;

    always @(posedge wr_clk)
        if (wr_rst) wr_ptr <= 0;
        else if (wr_en) wr_ptr <= wr_ptr + 1'b1;

    always @(posedge rd_clk)
        if (rd_rst) begin
            rd_ptr <= 0;
            rd_valid <= 0;
        end else if (move) begin
            rd_valid <= !empty;
            if (!empty) rd_ptr <= rd_ptr + 1'b1;
        end

    hero_ram #(.WIDTH(WIDTH), .WORDS(DEPTH)) memory (
        .wr_clk(wr_clk), .wr_en(wr_en), .wr_addr(wr_ptr[AW-1:0]), .wr_data(wr_data),
        .rd_clk(rd_clk), .rd_en(move), .rd_addr(rd_ptr[AW-1:0]), .rd_data(rd_data)
    );
    hero_gray_sync #(.WIDTH(AW + 1)) sync_wr_ptr (
        .src_clk(wr_clk), .src_rst(wr_rst), .src(wr_ptr), .dst_clk(rd_clk), .dst_rst(rd_rst), .dst(wr_ptr_rd)
    );
    hero_gray_sync #(.WIDTH(AW + 1)) sync_rd_ptr (
        .src_clk(rd_clk), .src_rst(rd_rst), .src(rd_ptr), .dst_clk(wr_clk), .dst_rst(wr_rst), .dst(rd_ptr_wr)
    );
    assign wr_full = wr_ptr == (rd_ptr_wr ^ {1'b1, {AW{1'b0}}});

`ifdef FORMAL
    // From the end of reset, with any two clocks
    initial {wr_ptr, rd_ptr, rd_valid} = 0;
    always @* assume (!wr_rst && !rd_rst && !(wr_en && wr_full));

    // The n-th word written is the n-th word read, for every n, and no other word is read
    (* anyconst *) reg [3:0] number;
    reg [3:0] written = 0, taken = 0;
    reg [WIDTH-1:0] marked;
    always @(posedge wr_clk)
        if (wr_en) begin
            assume (written != 15);
            written <= written + 1'b1;
            if (written == number) marked <= wr_data;
        end
    always @(posedge rd_clk)
        if (rd_valid && rd_en) begin
            taken <= taken + 1'b1;
            not_more_than_written: assert (taken < written);
            if (taken == number) right_word: assert (rd_data == marked);
        end

    // P9
    reg waited = 0;
    reg [WIDTH-1:0] waited_data;
    always @(posedge rd_clk) begin
        waited <= rd_valid && !rd_en;
        waited_data <= rd_data;
        if (waited) p9_word: assert (rd_valid && rd_data == waited_data);
    end

    always @(posedge wr_clk) c_full: cover (wr_full);
    always @(posedge rd_clk) c_a_place_twice: cover (taken == DEPTH && rd_valid);
`endif
endmodule

`default_nettype wire
