command='jed tree.yaml'
saved='tree.yaml .*saved|Wrote|[0-9]+ lines? written'
refused='Error (fsyncing|closing|writing)'
change() { keys Escape '<'; keys Escape '%'; sleep 0.3; words "$1"; keys Enter; sleep 0.3; words "$2"; keys Enter; sleep 0.3; words '!'; sleep 0.3; }
save() { keys C-x C-s; }
after_refusal() { keys C-g; sleep 0.3; }
quit() { keys C-x C-c; }
