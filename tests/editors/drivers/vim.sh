# Below the directory for temporary files, vim would make no backup and save in another way.
command="vim -c 'set backupskip=' ${vim_options:-} tree.yaml"
saved='"tree.yaml".* written|tree.yaml.* [0-9]+L, [0-9]+B written'
refused='E667|E512|E514'
change() { words ":%s/$1/$2/"; keys Enter; }
save() { words ':w'; keys Enter; }
after_refusal() { keys Enter; sleep 0.3; keys Enter; }
quit() { words ':q'; keys Enter; }
