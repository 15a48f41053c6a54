# Sourced by benches/hub.sh and benches/history.sh: a hub over TLS with $hub_options and its data in $folder, and $agents simulated agents that
# send to it for $seconds. Sets hub, address and load; ticks() is the CPU time of the hub.
cargo build --release --workspace --quiet
cargo build --release --workspace --example agents --quiet
folder=$(mktemp -d)
hub=
trap '[ -z "$hub" ] || kill "$hub" 2>/dev/null || true; rm -rf "$folder"' EXIT
curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
(
    cd "$folder"
    openssl req -x509 "${curve[@]}" -days 9 -subj /CN=ca -keyout ca.key -out ca.pem
    openssl req -new "${curve[@]}" -subj /CN=hub -addext subjectAltName=IP:127.0.0.1 -keyout hub.key -out hub.csr
    openssl x509 -req -in hub.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -copy_extensions copy -out hub.pem
    openssl rand -hex 16 > tokens
) 2> "$folder/openssl.log"
ulimit -n 8192
target/release/latscope hub --listen 127.0.0.1:0 --cert "$folder/hub.pem" --key "$folder/hub.key" \
    --token-file "$folder/tokens" --data "$folder/data" "${hub_options[@]}" 2> "$folder/hub.log" &
hub=$!
until grep -q 'listening on' "$folder/hub.log"; do sleep 0.1; done
address=$(sed -n 's/.*listening on //p' "$folder/hub.log" | head -1)
ticks() { awk '{ print $14 + $15 }' "/proc/$hub/stat"; }
target/release/examples/agents "$address" "$folder/ca.pem" "$folder/tokens" "$agents" "$((seconds + 5))" > "$folder/agents.log" &
load=$!
until grep -q connected "$folder/agents.log"; do sleep 0.1; kill -0 "$load"; done
