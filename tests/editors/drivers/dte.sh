command='dte tree.yaml'
unsaved='^ tree.yaml \*'
refused='Invalid argument|failed|Error'
moved=
change() { [ $moved ] || to_line "$1"; moved=1; retype "$1" "$2"; }
save() { keys C-s; sleep 0.4; }
quit() { keys C-q; }
