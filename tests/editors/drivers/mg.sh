# After a failed save it prints nothing and keeps the mark of unsaved changes.
command='mg tree.yaml'
saved='Wrote .*tree.yaml'
refused='^--\*\*-Mg'
moved=
change() { [ $moved ] || to_line "$1"; moved=1; retype "$1" "$2"; }
save() { keys C-x C-s; sleep 1; }
after_refusal() { keys C-g; sleep 0.3; }
quit() { keys C-x C-c; }
