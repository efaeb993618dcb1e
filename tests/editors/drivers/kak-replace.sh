. "$here/kak.sh"
command='kak -n -e "set-option global writemethod replace" tree.yaml'
refused="unable|failed|rror"
after_refusal() { keys Escape; sleep 0.3; }
