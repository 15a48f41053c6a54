# The awk program of the tutorial that most people follow (brendangregg.com, 2014-07-01), which prints time and latency in
# microseconds for trace2heatmap.pl. It is here to be compared with, and kept as published: it counts fields from the left,
# so a blank in a thread's name shifts them, and newer kernels print the size of a request before its sector.
{ gsub(/:/, "") }
$5 ~ /issue/ { ts[$6, $10] = $4 }
$5 ~ /complete/ { if (l = ts[$6, $9]) { printf "%.f %.f\n", $4 * 1000000, ($4 - l) * 1000000; ts[$6, $10] = 0 } }
