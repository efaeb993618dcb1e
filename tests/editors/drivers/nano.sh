command='nano tree.yaml'
saved='Wrote [0-9]+ lines'
refused='Error writing tree.yaml'
change() { keys 'C-\'; words "$1"; keys Enter; words "$2"; keys Enter; sleep 0.2; words 'a'; sleep 0.3; }
save() { keys C-o; sleep 0.2; keys Enter; }
after_refusal() { sleep 2; }
quit() { keys C-x; }
