command='mcedit tree.yaml'
unsaved='\[-M--\]'
refused='Save [Aa]s|Enter file name|Cannot save'
moved=
change() { [ $moved ] || to_line "$1"; moved=1; retype "$1" "$2"; }
save() { keys F2; sleep 0.4; keys Enter; sleep 0.4; }
after_refusal() { keys Escape Escape; sleep 0.5; }
quit() { keys F10; }
