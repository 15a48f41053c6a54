#!/usr/bin/env bash
# Cost of an event log of Spark: CPU seconds and memory of a summary of one of 1 GB, made of a real one by repetition (each copy with
# tasks and times of its own), plain, and as Spark compresses it.
#   benches/spark.sh [EVENTLOG [MB]]
set -euo pipefail
cd "$(dirname "$0")/.."
log=${1:-testdata/spark_eventlog/tpcds_lab.json.zst} megabytes=${2:-1000}
latscope=${LATSCOPE:-target/release/latscope}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 - "$log" "$megabytes" "$folder/app-1" <<'PYTHON'
import gzip, re, subprocess, sys
name, limit, out = sys.argv[1], int(sys.argv[2]) * 1_000_000, sys.argv[3]
unpack = {"gz": ["gzip", "-dc"], "zst": ["zstd", "-dc"], "zstd": ["zstd", "-dc"]}.get(name.rsplit(".", 1)[-1], ["cat"])
lines = subprocess.run(unpack + [name], check=True, capture_output=True).stdout.splitlines(keepends=True)
head = [line for line in lines if b"LogStart" in line[:80] or b"ApplicationStart" in line[:80]]
rest = [line for line in lines if line not in head and b"ApplicationEnd" not in line[:80]]
times = [int(ms) for line in rest for ms in re.findall(rb'Time":(1[0-9]{12})\b', line)]
span, tasks = max(times) - min(times) + 1000, 1 + max(int(n) for line in rest for n in re.findall(rb'"Task ID":(\d+)', line))
def moved(line, copy):
    line = re.sub(rb'(Time(?:stamp)?":)(1[0-9]{12})\b', lambda m: m[1] + b"%d" % (int(m[2]) + copy * span), line)
    return re.sub(rb'("Task ID":)(\d+)', lambda m: m[1] + b"%d" % (int(m[2]) + copy * tasks), line)
with open(out, "wb") as file:
    file.writelines(head)
    copy = 0
    while file.tell() < limit:
        file.writelines(moved(line, copy) for line in rest)
        copy += 1
PYTHON
zstd -q -1 "$folder/app-1" -o "$folder/app-2.zstd"
for file in app-1 app-2.zstd; do
    for words in "summary -y run" "heatmap -o /dev/null"; do
        # shellcheck disable=SC2086
        /usr/bin/time -f "$file: $words: %U + %S CPU s, %M KB" "$latscope" $words -r "$folder/$file" >/dev/null
    done
done

# The history server of Spark with the same log, from its start until it has answered with the stages of the application.
python=${LATSCOPE_SPARK_PYTHON:-target/spark/bin/python}
[ -x "$python" ] && command -v java >/dev/null || { echo "history server: make spark installs Spark"; exit 0; }
home=$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir "$folder/logs" && mv "$folder/app-1" "$folder/logs/"
env -u SPARK_HOME SPARK_LOCAL_IP=127.0.0.1 java -Xmx4g -XX:+IgnoreUnrecognizedVMOptions --add-modules=jdk.incubator.vector \
    --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
    -Dspark.history.fs.logDirectory="file:$folder/logs" -Dspark.history.ui.port="$port" -cp "$home/jars/*" \
    org.apache.spark.deploy.history.HistoryServer >"$folder/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true; rm -rf "$folder"' EXIT
api=http://127.0.0.1:$port/api/v1/applications
for ((turn = 0; turn < 600; turn++)); do
    kill -0 "$server" || { tail -3 "$folder/server.log"; exit 3; }
    id=$(curl -s "$api" | grep -o '"id" : "[^"]*' | head -1 | cut -d'"' -f4) && [ -n "$id" ] && break
    sleep 1
done
stages=$(curl -s --max-time 1800 "$api/$id/stages" | grep -c '"stageId"') || true
awk -v stages="$stages" -v hz="$(getconf CLK_TCK)" '
    FILENAME ~ /stat$/ { sub(/.*\) /, ""); split($0, of, " "); user = of[12] / hz; kernel = of[13] / hz }
    /^VmHWM/ { kib = $2 }
    END { printf "app-1: history server, %d stages: %.2f + %.2f CPU s, %d KB\n", stages, user, kernel, kib }' "/proc/$server/stat" "/proc/$server/status"
