command='micro tree.yaml'
saved='Saved tree.yaml'
refused='invalid argument'
change() { keys C-e; words "replaceall '$1' '$2'"; keys Enter; sleep 0.3; }
save() { keys C-s; }
after_refusal() { keys Escape; sleep 0.3; }
quit() { keys C-q; }
