#!/usr/bin/env bash
# Changes of the shop, ten a second and sometimes none, until it is stopped.
set -euo pipefail
cities=(Beijing Hangzhou Wuhan Shanghai Chengdu)
while true; do
  {
    echo "INSERT INTO orders (user_id, total, state, ordered_at) VALUES ($((RANDOM % 5 + 1)), $((RANDOM % 900)).$((RANDOM % 90 + 10)), 'new', NOW(3)), ($((RANDOM % 5 + 1)), $((RANDOM % 900)).00, 'new', NOW(3));"
    echo "UPDATE orders SET state = 'paid' WHERE state = 'new' ORDER BY id LIMIT 5;"
    echo "DELETE FROM orders WHERE state = 'paid' ORDER BY id LIMIT $((RANDOM % 3));"
    if ((RANDOM % 20 == 0)); then
      echo "UPDATE users SET city = '${cities[RANDOM % ${#cities[@]}]}' WHERE id = $((RANDOM % 5 + 1));"
    fi
  } | mariadb --host mariadb --user root shop
  sleep 1
done
