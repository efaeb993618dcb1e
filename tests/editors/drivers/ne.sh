command='ne tree.yaml'
saved='^Saved\.'
refused='I/O error'
moved=
change() { [ $moved ] || to_line "$1"; moved=1; retype "$1" "$2"; }
save() { keys C-s; }
after_refusal() { keys Escape; sleep 0.5; }
quit() { keys C-q; }
