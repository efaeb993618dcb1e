# Ignores the result of close.
command='joe -nobackups tree.yaml'
saved='File tree.yaml saved'
moved=
change() { [ $moved ] || to_line "$1"; moved=1; retype "$1" "$2"; }
save() { keys C-k; words d; sleep 0.3; keys Enter; }
quit() { keys C-c; }
