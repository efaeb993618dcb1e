. "$here/nvim.sh"
command="nvim -c 'set backupcopy=yes' tree.yaml"
