command='nvi tree.yaml'
saved='tree.yaml: [0-9]+ lines, [0-9]+ characters'
refused='Invalid argument|Error'
change() { words ":%s/$1/$2/"; keys Enter; sleep 0.2; }
save() { words ':w'; keys Enter; }
after_refusal() { keys Enter; sleep 0.5; }
quit() { words ':q'; keys Enter; }
