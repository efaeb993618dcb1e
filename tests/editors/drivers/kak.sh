# Ignores the result of close.
command='kak -n tree.yaml'
unsaved='\[\+\]'
change() { words "%s$1"; keys Enter; sleep 0.3; words "c$2"; keys Escape; sleep 0.3; }
save() { words ':write'; keys Enter; sleep 0.4; }
quit() { words ':quit'; keys Enter; }
